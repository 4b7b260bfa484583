#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""The gate: while every class is full the kernel refuses connections to the mail
port; it opens with the first free place, and by itself when Postern is gone."""
import contextlib
import os
import re
import signal
import socket
import time

from lib.postern import one_class
from lib.postfix import conf_service
from lib.site import site
from lib.smtp import Session
from lib.testing import SOURCE, alive, main

PORT, OTHER, LIMIT = 2025, 2026, 3
SPARED = ("127.0.3.7", "2001:db8:3::7")
ADDRESSES = ("2001:db8::1", "2001:db8:3::7", "2001:db8:4::7")
RUNS = "gate-runs"


def only_class(gate):
    """One class, so that it is every class; `gate`: its command."""
    def edit(text):
        text = re.sub(r"^classes = \(.*\Z", "classes = (\n" + one_class(
            "all", LIMIT, [PORT], more='retry = "90s";') + " );\n", text, flags=re.M | re.S)
        return text if gate is None else re.sub(r"^#gate = .*$", gate, text, flags=re.M)
    return edit


def command(test):
    """The shipped command, with a record of when it was begun, in ticks, as the kernel has it
    (proc(5)): whoever asks the time has run by then, at once or late."""
    wrapper = test.directory / "gate"
    wrapper.write_text('#!/bin/sh\nread -r stat <"/proc/$$/stat"\n'
                       'echo "$(set -- $stat; shift 21; echo "$1") $2" >>"$1"\nexec '
                       f'"{SOURCE}/contrib/gate-nftables" "$2"\n')
    wrapper.chmod(0o755)
    return f'gate = {{ command = [ "{wrapper}", "{test.logs / RUNS}" ]; }};'


def runs(test):
    file = test.logs / RUNS
    lines = file.read_text().splitlines() if file.exists() else []
    return [(int(line.split()[0]) / os.sysconf("SC_CLK_TCK"), line.split()[1])
            for line in lines]


def refused(source="127.0.4.1", to="127.0.0.1", port=PORT):
    """Does the kernel refuse?  Else the connection is let go at once."""
    with socket.socket(socket.AF_INET6 if ":" in to else socket.AF_INET) as one:
        one.bind((source, 0))
        try:
            one.connect((to, port))
        except ConnectionRefusedError:
            return True
        return False


def greeting(source, to="127.0.0.1", port=PORT):
    session = Session((to, port), source)
    session.close()
    return session.code


def fill(test):
    held = []

    def comes_in():
        """The look before, refused(), may have its place for a moment still."""
        try:
            session = Session(("127.0.0.1", PORT), f"127.0.1.{len(held) + 1}")
        except OSError:
            return False
        if session.code == 220:
            held.append(session)
        else:
            session.close()
        return session.code == 220

    for _ in range(LIMIT):
        test.wait_for(comes_in, "a place", 5.0)
    test.equal(len(held), LIMIT, "every place is taken")
    test.within(2.0, refused, "the kernel refuses connections to the port")
    return held


def shut(test, postern):
    held = fill(test)
    test.equal(postern.status()["gate"], "shut", "status says that the gate is shut")
    test.throughout(6.0, refused, "so it stays, for longer than what the kernel was told once")
    test.check(refused("2001:db8:4::7", "2001:db8::1"), "by IPv6, too")
    test.equal([greeting(SPARED[0]), greeting(SPARED[1], "2001:db8::1")], [220, 220],
               "exempt prefixes come in")
    test.equal(greeting("127.0.4.1", port=OTHER), 220, "another port is not refused")
    test.check(held[0].command("NOOP")[0] == 250, "nor is a session that stands")
    held.pop().quit()
    test.within(1.0, lambda: not refused(), "one session ends: connections are accepted")
    test.within(1.0, lambda: postern.status()["gate"] == "open", "status says that it is open")
    return held


def flaps(test, held):
    """Sessions come and go as fast as they can, around the limit."""
    first = len(runs(test))
    changes, until = 0, time.monotonic() + 6
    while time.monotonic() < until:
        if refused():
            time.sleep(0.02)
        elif greeting("127.0.4.1") == 220:
            changes += 1
    words = runs(test)[first:]
    turns = [now for before, now in zip(words, words[1:]) if before[1] != now[1]]
    apart = [now[0] - before[0] for before, now in zip(turns, turns[1:])]
    test.check(changes > 5, f"{changes} sessions around the limit in 6 s")
    test.check(all(distance > 0.95 for distance in apart),
               f"{len(turns)} changes of the gate, at most one a second "
               f"({', '.join(f'{distance:.2f}' for distance in apart)} s apart)")
    test.equal(held[0].command("NOOP")[0], 250, "the sessions that stand are untouched")


def killed(test, postern):
    held = fill(test)
    test.deaths_expected = True
    victims = [postern.process.pid, *postern.roles().values()]
    for pid in victims:
        with contextlib.suppress(ProcessLookupError):   # the supervisor takes them along
            os.kill(pid, signal.SIGKILL)
    postern.process.wait(10)
    test.check(not any(alive(pid) for pid in victims[1:]) or
               test.poll(lambda: not any(map(alive, victims[1:])), 10) is not None,
               "all processes are killed")
    test.within(5.0, lambda: not refused(), "the gate opens by itself")
    return held


def without_a_command(test, postern, held):
    postern.configure((), only_class(None))
    postern.start()
    test.wait_for(lambda: postern.open("all") >= LIMIT, "the sessions are counted")
    late = Session(("127.0.0.1", PORT), "127.0.4.2")
    test.equal(late.code, 421, "without a command the answer is 421")
    test.say(late.text)
    found = re.search(r"try again in 90 seconds \((?:id=)?([0-9a-z]{12})\)", late.text)
    test.check(found and any(
        f"id={found[1]} " in line and "reason=gate-shut" in line
        for line in postern.log_text().splitlines()),
        "with the seconds, and the id of the log line that tells gate-shut")
    test.equal(late.ended(), True, "and the end")
    for session in held:
        session.quit()


def body(test):
    test.need("nft")
    services = [conf_service("postfix-policy.master.cf", PORT), f"{OTHER} inet n - n - - smtpd\n"]
    _, postern = site(test, services, (), (PORT, OTHER), edit=only_class(command(test)),
                      exempt='"127.0.3.0/24", "2001:db8:3::/64"')
    test.check(not refused(), "nothing is refused in the beginning")
    held = shut(test, postern)
    flaps(test, held)
    for session in held:
        session.quit()
    test.wait_for(lambda: postern.open("all") == 0 and not refused(), "all have left")
    log = postern.log_text()
    test.check("event=gate-shut" in log and "event=gate-open" in log, "both are logged")
    test.check("event=gate-command" not in log, "and no failure of the command")
    held = killed(test, postern)
    without_a_command(test, postern, held)


main(body, addresses=ADDRESSES)
