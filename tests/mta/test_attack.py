#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""A role that was taken over (tests/attack) sees nothing of the others, not in the moment of their
start either.  It writes what it likes into the segment: the supervisor lives, runs nothing that is
not configured, and the service is back by itself."""
import os
import signal
import socket
import subprocess
import time
from collections import Counter
from pathlib import Path
from threading import Thread

from lib.executed import Executed
from lib.postern import Postern, build_tree, one_class
from lib.testing import alive, main

ASKS = (b"request=smtpd_access_policy\nprotocol_state=CONNECT\nclient_address=192.0.2.%d\n"
        b"client_port=%d\nserver_address=192.0.2.250\nserver_port=25\n\n")


def with_their_rights(postern, name, *words):
    """A program with the rights of the roles: their user, their group, nothing else."""
    copy = postern.test.directory / name
    if not copy.exists():
        copy.write_bytes((build_tree() / "tests/attack" / name).read_bytes())
        copy.chmod(0o755)
    return subprocess.Popen([str(copy), *words], user="postern", group="postern",
                            extra_groups=[], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                            text=True)


def attacker(postern, *words):
    return with_their_rights(postern, "spoil_segment", str(postern.shared / "state"), *words)


def answer(postern, number, seconds=2):
    """What a policy client reads within that time, or ""."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(seconds)
        try:
            client.connect(str(postern.spool / "private/postern"))
            client.sendall(ASKS % (number % 250, 1024 + number))
            return client.recv(1000).decode()
        except OSError:
            return ""


def works(postern):
    return answer(postern, 7).startswith("action=") and postern.command("status").returncode == 0


def starts_are_seen(test, postern, rounds):
    """exec makes a process readable for its user's others: a role is not that user's by then."""
    watcher = with_their_rights(postern, "look_at_roles")
    watcher.stdout.readline()               # it looks
    starts = 0
    for _ in range(rounds):
        for role, before in sorted(postern.roles().items()):
            os.kill(before, signal.SIGKILL)
            test.poll(lambda name=role, pid=before:
                      postern.roles().get(name) not in (None, pid), 10)
            starts += postern.roles().get(role) not in (None, before)
    *seen, last = watcher.communicate(timeout=20)[0].splitlines()
    ways = Counter(line.split()[0] for line in seen)
    test.equal((ways, watcher.returncode), (Counter(), 0), f"in {starts} starts of roles no other process "
               f"of their user reads, opens or traces one ({last})")
    test.check(int(last.split()[1]) > starts >= rounds, "... and it did look at them")


def seccomp_of(pid):
    status = Path(f"/proc/{pid}/status").read_text()
    return next(line.split()[1] for line in status.splitlines() if line.startswith("Seccomp:"))


def sandbox_stays(test, postern):
    """What is published is written by a role; whoever starts has its sandbox from root."""
    before = {role: seccomp_of(pid) for role, pid in postern.roles().items()}
    number = str(postern.status()["generation"])
    test.equal(attacker(postern, "sandbox", number).wait(20), 0,
               "the published configuration switches the sandbox off")
    killed = postern.roles()
    for pid in killed.values():
        os.kill(pid, signal.SIGKILL)
    test.within(20.0, lambda: set(postern.roles()) == set(killed) and
                not set(postern.roles().values()) & set(killed.values()) and works(postern),
                "all roles are started again")
    test.equal({role: seccomp_of(pid) for role, pid in postern.roles().items()}, before,
               "... each in the sandbox that it had")


def spoiled_locks(test, postern):
    """Nobody holds them, and each names an owner that does not know of it (thread 1)."""
    roles = postern.roles()
    test.equal(attacker(postern, "locks").wait(20), 0, "every lock of the segment is spoiled")
    numbers = iter(range(1, 100000))
    faults = postern.status()["counters"]["faults"]

    def heals():
        before = postern.status()["counters"]["faults"]
        for _ in range(20):
            answer(postern, next(numbers))
        return postern.status()["counters"]["faults"] == before

    test.check(not heals(), "questions fail open meanwhile")
    test.within(30.0, heals, "the locks are repaired, without an administrator")
    counters = postern.status()["counters"]
    test.check(counters["repairs"] > 0 and counters["faults"] > faults, "repairs and faults are counted")
    test.equal(postern.roles(), roles, "no role died of it")


def cut(test):
    postern = Postern(test, [one_class("all", 5000)], name="cut")
    postern.start()
    supervisor = postern.status()["pid"]
    test.equal(attacker(postern, "cut").wait(20), 0, "the file of the segment is cut")
    test.within(20.0, lambda: "rebuilding it from its saved sessions" in postern.log_text() and works(postern),
                "roles die of it: the segment is built again, and the service is back")
    test.check(alive(supervisor), "the supervisor has lived through it")
    postern.stop()


def stopped_while_built_again(test):
    """SIGTERM that comes while the segment is being built again."""
    postern = Postern(test, [one_class("all", 5000)], name="stopped")
    postern.start()
    supervisor = postern.status()["pid"]
    test.equal(attacker(postern, "cut").wait(20), 0, "once more the file of the segment is cut")
    asker = Thread(target=lambda: [answer(postern, number) for number in range(30)])
    asker.start()
    # all roles are ended for it
    children = Path(f"/proc/{supervisor}/task/{supervisor}/children")
    end = time.monotonic() + 20
    while len(children.read_text().split()) > 1 and time.monotonic() < end:
        pass
    os.kill(supervisor, signal.SIGTERM)
    test.equal(postern.process.wait(10), 0, "SIGTERM while the segment is built again: it ends with 0")
    test.check("rebuilding it from its saved sessions" in postern.log_text(), "... and it had begun to build")
    asker.join()


def deliver(postern, is_over, counts):
    """Results of deliveries to some hundred destinations."""
    while not is_over():
        try:
            with socket.socket(socket.AF_UNIX) as client:
                client.settimeout(2)
                client.connect(str(postern.root / "events"))
                while not is_over():
                    number = counts["results"]
                    how = "sent" if number % 3 else "deferred reply=451%20busy phase=connect"
                    client.sendall(f"delivery status={how} recipient=u@d{number * 7919 % 300}.example "
                                   "relay=mx.example address=192.0.2.11 port=25\nsync\n".encode())
                    if not client.recv(1000):
                        break
                    counts["results"] += 1
        except OSError:
            time.sleep(0.05)


def read(test, postern, is_over, counts):
    """Commands that an administrator gives meanwhile: they end by themselves, with text."""
    commands = [("status", "--all"), ("classes",), ("sessions", "--all"), ("destinations", "--relays"),
                ("why",), ("why", "d7.example"), ("explain", "session", "192.0.2.1"),
                ("explain", "destination", "d7.example"), ("tail", "--since", "1h")]
    while not is_over():
        words = commands[counts["commands"] % len(commands)]
        if words[0] == "tail":
            done = subprocess.run(["timeout", "-s", "INT", "1", postern.build / "posternctl", "-c",
                                   postern.file, *words], capture_output=True, text=True)
        else:
            done = postern.command(*words, json_output=counts["commands"] % 2 == 0)
        counts["commands"] += 1
        bad = [c for c in done.stdout + done.stderr if ord(c) < 32 and c not in "\n\t"]
        if done.returncode < 0 or bad or "runtime error" in done.stderr:
            counts["failed"] += 1
            test.check(False, f"posternctl {' '.join(words)}: exit code {done.returncode}, {bad[:5]}: "
                       f"{done.stderr[-300:]}")


def random_words(test, postern, supervisor, seconds):
    seed = str(test.seed)
    attack = attacker(postern, "words", str(seconds), seed)
    number, reloads, counts = 0, 0, Counter()
    others = [Thread(target=deliver, args=(postern, lambda: attack.poll() is not None, counts)),
              Thread(target=read, args=(test, postern, lambda: attack.poll() is not None, counts))]
    for thread in others:
        thread.start()
    next_reload = 0
    while attack.poll() is None:
        answer(postern, number, 0.2)
        number += 1
        if time.monotonic() > next_reload:
            os.kill(supervisor, signal.SIGHUP)
            reloads += 1
            next_reload = time.monotonic() + 0.4
        time.sleep(0.02)
    for thread in others:
        thread.join()
    test.equal(attack.returncode, 0, f"words were overwritten for {seconds} s: "
               f"{attack.stdout.read().strip()}, {number} questions, {reloads} reloads, "
               f"{counts['results']} results of deliveries")
    test.check(counts["results"] > seconds, "results of deliveries were taken meanwhile")
    test.equal(counts["failed"], 0, f"{counts['commands']} commands of an administrator ended by themselves")
    test.check(alive(supervisor), "the supervisor lives")
    test.equal(os.stat(f"/proc/{supervisor}").st_uid, 0, "as root, and as the same process")
    # what is left in the segment may still end roles, until it is built again
    test.within(60.0, lambda: works(postern), "the service is back by itself")


def body(test):
    test.deaths_expected = test.attacked = True
    postern = Postern(test, [one_class("all", 5000)], edit=lambda text: text.replace(
        "listen = {", f'listen = {{\n\tevents = "unix:{test.directory}/postern/events";', 1) +
        'mta = ( { name = "a"; log = ""; } );\n')
    postern.start()
    supervisor = postern.status()["pid"]
    executed = Executed(test, supervisor)
    test.check(works(postern), "it answers")
    starts_are_seen(test, postern, 20 if test.rounds else 3)
    sandbox_stays(test, postern)
    spoiled_locks(test, postern)
    random_words(test, postern, supervisor, test.rounds or 5)
    if executed.possible:
        ours = str((postern.build / "posternd").resolve())
        programs = {path for _, path in executed.all() if not Path(path).name.startswith("ld")}
        test.equal(programs, {ours}, "the supervisor has executed nothing but roles")
    postern.stop()
    cut(test)
    stopped_while_built_again(test)


if __name__ == "__main__":
    main(body)
