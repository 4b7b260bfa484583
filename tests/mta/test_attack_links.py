#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""Each role in turn was taken over: tests/attack/spoil_links says what it likes over its links to
the supervisor, while sessions and reloads go on.  The supervisor lives, runs nothing that is not
configured and does not grow; what it ended comes back, and the service is as before."""
import contextlib
import os
import pwd
import re
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from lib.executed import Executed
from lib.postern import Postern, build_tree, one_class, substitute
from lib.testing import Failed, alive, main

SERVER, CLIENTS, PORT = "192.0.2.250", "192.0.2.1", 25
KINDS = ("policy", "milter", "feed", "keeper", "queue", "metrics", "cluster")
NAMES = ("gate", "alert", "postqueue", "postfix", "sendmail")
LINKED = {"feed", "keeper", "queue"}            # the others have a lifeline, no more
STAYS_OPEN = 20
ASK = ("request=smtpd_access_policy\nprotocol_state=CONNECT\nclient_address={}\nclient_port={}\n"
       f"server_address={SERVER}\nserver_port={PORT}\n\n")
RECORDS = """#!/bin/sh
for word; do printf '%s\\0' "$word"; done >>{calls}/{name}.$$
printf '\\n\\0' >>{calls}/{name}.$$
"""
PUBLISHES = r"""
import glob, os, pwd, sys, time
user = pwd.getpwnam("postern")
os.setgroups([])
os.setgid(user.pw_gid)
os.setuid(user.pw_uid)
end = time.monotonic() + float(sys.argv[2])
count = 0
while time.monotonic() < end:
    for path in glob.glob(sys.argv[1]):
        try:
            os.chmod(path, 0o600)
            with open(path, "r+b") as file:
                data = file.read()
                if b"/programs/" in data:
                    file.seek(0)
                    file.write(data.replace(b"/programs/", b"/anywhere/"))
                    count += 1
        except FileNotFoundError:
            pass
    time.sleep(0.01)
print(count)
"""
GROWTH_KB = 4096
REFUSES = (6, 16)       # kernels that refuse descriptors where nobody wants them (SO_PASSRIGHTS)
A_SECOND = 40   # lines of the supervisor's, all kinds of events together


class Site:
    """All kinds of roles; programs that write down what they were called with."""

    def __init__(self, test):
        self.test = test
        self.calls = test.directory / "calls"
        self.calls.mkdir()
        self.calls.chmod(0o1777)
        self.programs, self.queue = test.directory / "programs", test.directory / "queue"
        self.postfix, self.elsewhere = test.directory / "postfix", test.directory / "anywhere"
        for directory in (self.programs, self.elsewhere, self.queue, self.postfix):
            directory.mkdir()
        for place, mark in ((self.programs, ""), (self.elsewhere, "other-")):
            for name in NAMES:
                (place / name).write_text(RECORDS.format(calls=self.calls, name=mark + name))
                (place / name).chmod(0o755)
        (test.directory / "mail.log").touch()
        for file in ("main.cf", "master.cf"):
            (self.postfix / file).write_text("")
        self.fill_queue()
        self.postern = Postern(test, [one_class("all", 5000)], edit=self.edit)
        self.postern.kinds = set(KINDS)

    def fill_queue(self):
        """What the role may have, and what it may not (names of spoil_links)."""
        for number in range(5):
            (self.queue / f"qfw000000{number}").write_text("V8\nT1\nK0\nN0\nP1\n.\n")
        (self.queue / "qfw0000005").symlink_to("/etc/shadow")
        os.mkfifo(self.queue / "qfw0000006")
        (self.queue / "qfw0000007").mkdir()
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(str(self.queue / "qfw0000008"))

    def edit(self, text):
        log = self.test.directory / "mail.log"
        programs = self.programs
        text = substitute(text, r"^#gate = [^\n]*$", f'gate = {{ command = [ "{programs}/gate" ]; }};')
        text = substitute(text, r"^#alert = [^\n]*$", f'alert = {{ command = [ "{programs}/alert" ]; '
                          'rate = "1000/1m"; interval = "1s"; };')
        text = substitute(text, r"^listen = \{", f'listen = {{ queue = "unix:{self.test.directory}'
                          '/postern/queue"; metrics = "inet:127.0.0.1:9471";')
        return text + f"""
mta = ( {{ name = "pf"; log = "{log}"; config_directory = "{self.postfix}";
          command_directory = "{programs}"; reload = true; }},
        {{ name = "sm"; kind = "sendmail"; drive = true; queue = [ "{self.queue}" ]; user = "daemon";
          log = "{log}"; cf = "/dev/null"; sendmail = "{programs}/sendmail"; }} );
cluster = {{ redis = "unix:{self.postern_root()}/no-redis"; node = "mx1"; nodes = 2; }};
"""

    def postern_root(self):
        return self.test.directory / "postern"

    def is_allowed(self, name, words):
        directory = re.escape(str(self.postfix))
        line = "\0".join(words)
        return name in NAMES and re.fullmatch({
            "gate": "shut|open",
            "alert": "[a-z-]+ [ -~]+",
            "postqueue": rf"-c\0{directory}\0(-j|-i\0[0-9A-Za-z]{{6,31}})",
            "postfix": rf"-c\0{directory}\0reload",
            "sendmail": rf"-C\0/dev/null\0-qf\0(-O[A-Za-z.]+=[A-Za-z0-9]+\0)*-OQueueDirectory="
                        rf"{re.escape(str(self.queue))}(\*\0-qGmqueue)?\0-OCheckpointInterval=\d+(\0-qI[0-9A-Za-z]+)+",
        }[name], line) is not None

    def called(self):
        """[(program, words)]"""
        found = []
        for file in self.calls.iterdir():
            text = file.read_bytes().decode("latin-1")
            for call in text.split("\n\0")[:-1]:
                found.append((file.name.split(".")[0], call.split("\0")[:-1]))
        return found


class Sessions:
    """Real connections, each asked about; some stay, the others come and go."""

    def __init__(self, test, postern):
        self.postern, self.kept, self.count, self.asked = postern, [], 0, 0
        self.listener = socket.create_server((SERVER, PORT), backlog=1000)
        test.at_end(self.close)

    def open(self, stays=False):
        client = socket.create_connection((SERVER, PORT), 5, (CLIENTS, 0))
        server, (address, port) = self.listener.accept()
        self.kept.append((client, server))
        self.asked += bool(self.ask(address, port))
        self.count += 1
        if not stays:
            self.kept.pop()
            client.close()
            server.close()

    def ask(self, address, port):
        """What a policy client reads within 2 s, or ""."""
        with socket.socket(socket.AF_UNIX) as one:
            one.settimeout(2)
            try:
                one.connect(str(self.postern.spool / "private/postern"))
                one.sendall(ASK.format(address, port).encode())
                return one.recv(1000).decode()
            except OSError:
                return ""

    def close(self):
        for pair in self.kept:
            for end in pair:
                end.close()
        self.kept.clear()


class Figures:
    """Of the supervisor."""

    def __init__(self, pid):
        self.pid = pid

    def resident_kb(self):
        text = Path(f"/proc/{self.pid}/status").read_text()
        return int(re.search(r"^VmRSS:\s+(\d+)", text, re.M)[1])

    def descriptors(self):
        """kind -> how many"""
        found = Counter()
        for fd in os.listdir(f"/proc/{self.pid}/fd"):
            with contextlib.suppress(FileNotFoundError):    # one that it had for a moment
                found[os.readlink(f"/proc/{self.pid}/fd/{fd}").split(":[")[0]] += 1
        return found


def title(role):
    name, number = role.split(".")
    return f"postern-{name[:6 if int(number) < 10 else 5]}{number}"


def attacker(supervisor, role, *words):
    return subprocess.Popen([build_tree() / "tests/attack/spoil_links", str(supervisor), title(role),
                             *map(str, words)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                            text=True)


def lines_of_supervisor(text):
    return [line for line in text.splitlines() if " event=" in line and " role=" not in line]


def attacked(test, site, supervisor, sessions, kind, seconds):
    postern = site.postern
    since = len(postern.log_text())
    began = time.monotonic()
    attack = attacker(supervisor, f"{kind}.0", seconds, test.seed)
    while attack.poll() is None:
        sessions.open()
        if sessions.count % 20 == 0:
            os.kill(supervisor, signal.SIGHUP)
        time.sleep(0.02)
    *opened, last = attack.stdout.read().splitlines() or [""]
    took = time.monotonic() - began
    if not test.equal(attack.returncode, 0, f"{kind}: attacked for {seconds} s: {last}"):
        raise Failed("the attack did not come to its end")
    test.check(int(re.search(r"links=(\d+)", last)[1]) > 0, f"{kind}: it had links")
    wrong = [line for line in set(opened)
             if not re.fullmatch(rf"opened {re.escape(str(site.queue))}/qfw000000[0-4]", line)]
    test.equal(wrong, [], f"{kind}: no file was opened for it that is none of the queue's")
    test.check(alive(supervisor), f"{kind}: the supervisor lives")
    return lines_of_supervisor(postern.log_text()[since:]), took


def few_lines(test, kind, lines, took):
    words = Counter(re.search(r"event=([a-z-]+)", line)[1] for line in lines)
    test.check(len(lines) <= A_SECOND * (took + 1),
               f"{kind}: the log is not flooded: {len(lines)} lines in {took:.1f} s: "
               f"{dict(words.most_common(6))}")


def is_healthy(site, supervisor):
    postern = site.postern
    status = postern.command("status")
    return (status.returncode == 0 and {role.split(".")[0] for role in postern.roles()} >= set(KINDS)
            and postern.status()["pid"] == supervisor and postern.ready())


def ran_only_what_is_configured(test, site, executed):
    called = site.called()
    wrong = [(name, words) for name, words in called if not site.is_allowed(name, words)]
    test.equal(wrong[:3], [], "programs were run with what is allowed alone: "
               f"{dict(Counter(name for name, _ in called))}")
    test.check(not (test.directory / "owned").exists(), "no shell saw any of it")
    if not executed.possible:
        return test.say("this kernel does not tell what is executed")
    users = {"alert": pwd.getpwnam("postern").pw_uid, "sendmail": pwd.getpwnam("daemon").pw_uid}
    programs = {(users.get(file.name, 0), str(file)) for file in site.programs.iterdir()}
    programs.add((0, os.path.realpath(site.postern.build / "posternd")))
    aid = re.compile(r".*/(ld-[^/]*|ld64[^/]*|" + Path(os.path.realpath("/bin/sh")).name + ")")
    other = {(user, path) for user, path in executed.all() - programs if not aid.fullmatch(path)}
    test.check(programs & executed.all(), "what it executes was seen")
    return test.equal(other, set(), "the supervisor executed nothing else, as nobody else")


def kernel():
    return tuple(map(int, os.uname().release.replace("-", ".").split(".")[:2]))


def closes_nothing_slowly(test, site, supervisor, kind):
    """A descriptor that comes with a message is closed where it is received: one of TCP may take
    as long for that as its sender likes."""
    attack = attacker(supervisor, f"{kind}.0", "linger", 30)
    sent = attack.stdout.readline().strip()
    old = site.postern.roles()["policy.0"]
    os.kill(old, signal.SIGKILL)
    if sent == "sent 0" or kernel() >= REFUSES:
        test.within(1.0, lambda: site.postern.roles().get("policy.0") not in (None, old),
                    f"{kind} sends sockets that take 30 s to close ({sent}): the supervisor starts "
                    "another role meanwhile")
    else:
        test.say("this kernel lets descriptors through: only the sandbox refuses to send them")
    attack.communicate()


def orders_few_reloads(test, site, supervisor):
    """A keeper that does nothing but that, and all of it as it should."""
    since = len(site.postern.log_text())
    attack = attacker(supervisor, "keeper.0", "reloads", 2)
    said = attack.communicate()[0].strip()
    test.equal(attack.returncode, 0, f"a keeper orders reloads for 2 s: {said}")
    few_lines(test, "reloads", lines_of_supervisor(site.postern.log_text()[since:]), 2)


def publishes_another_configuration(test, site, supervisor):
    """Its programs lie elsewhere: those of the file that root compiled are run."""
    before = len(site.called())
    writer = subprocess.Popen([sys.executable, "-c", PUBLISHES,
                               site.postern.shared / "state.config.*", "3"],
                              stdout=subprocess.PIPE, text=True)
    while writer.poll() is None:
        attacker(supervisor, "keeper.0", 1, test.seed).communicate()
    test.check(int(writer.communicate()[0] or 0) > 0, "the published configuration was overwritten")
    called = site.called()
    test.check(len(called) > before, f"programs were run meanwhile: {len(called) - before}")
    test.equal([name for name, _ in called if name not in NAMES], [], "... none that it named")


def comes_back(test, site, supervisor, sessions):
    test.within(20.0, lambda: is_healthy(site, supervisor), "all roles are back, status is healthy, "
                "the supervisor is the same")
    test.check(sessions.ask(CLIENTS, 1025).startswith("action="), "a question is answered")


def all_as_before(test, site, supervisor, sessions):
    comes_back(test, site, supervisor, sessions)
    test.within(10.0, lambda: site.postern.command("reload").returncode == 0, "a reload works")


def has_not_grown(test, figures, before, what):
    kb, descriptors = before
    test.within(10.0, lambda: not figures.descriptors() - descriptors,
                f"{what}: it has no more descriptors than before ({descriptors.total()}), but "
                f"for {dict(figures.descriptors() - descriptors)}")
    now = figures.resident_kb()
    test.check(now - kb <= GROWTH_KB, f"{what}: its memory has not grown: {kb} kB, now {now} kB")


def body(test):
    test.deaths_expected = test.attacked = True
    site = Site(test)
    postern = site.postern
    postern.start()
    supervisor = postern.status()["pid"]
    executed, figures = Executed(test, supervisor), Figures(supervisor)
    sessions = Sessions(test, postern)
    for _ in range(STAYS_OPEN):
        sessions.open(stays=True)
    for kind in sorted(LINKED):
        closes_nothing_slowly(test, site, supervisor, kind)
    test.wait_for(site.called, "a first command was run")
    all_as_before(test, site, supervisor, sessions)
    before = figures.resident_kb(), figures.descriptors()
    each = max(1, test.rounds // (2 * len(KINDS)))
    for turn in range(2 if test.rounds else 1):
        for kind in KINDS:
            lines, took = attacked(test, site, supervisor, sessions, kind,
                                   each + (kind in LINKED and not test.rounds))
            few_lines(test, kind, lines, took)
            if kind in LINKED:
                test.check(any(f"event=bad-request from={kind} " in line for line in lines),
                           f"{kind}: nonsense over its link is logged with its name")
            (all_as_before if kind in LINKED else comes_back)(test, site, supervisor, sessions)
        has_not_grown(test, figures, before, f"turn {turn + 1}")
    orders_few_reloads(test, site, supervisor)
    publishes_another_configuration(test, site, supervisor)
    all_as_before(test, site, supervisor, sessions)
    test.check(sessions.asked > sessions.count * 0.9, f"{sessions.asked} of {sessions.count} sessions "
               "were answered meanwhile")
    sessions.close()
    test.within(30.0, lambda: sum(row["open"] for row in postern.classes().values()) == 0,
                "all sessions have left: every class counts 0")
    ran_only_what_is_configured(test, site, executed)
    postern.stop()


if __name__ == "__main__":
    main(body, addresses=[SERVER, CLIENTS], seconds=60)
