#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""Roles are killed and stopped at random while real sessions come and go: no
session or mail is refused or lost, and the counters are right a second later.
Beside them a class is full all the time, and lets nobody in."""
import os
import random
import signal
import threading
import time

from lib.postern import one_class
from lib.postfix import conf_service
from lib.scenario import sources
from lib.sendmail import Sendmail, find_root, have_root
from lib.site import site
from lib.smtp import LEAVE, Session, admitted, open_sessions
from lib.testing import alive, main

PORTS = {"policy": 2025, "milter": 2026, "both": 2027}
SENDMAIL = 2028
STAY, COME = 4, 6  # at each port all the time; at a time
# A second's sessions may be in the count after they have ended.
LIMIT = 4 * STAY + COME + 25
STOPPED_SECONDS = 10.0
# The full class: its clients, and who tries to come in.
FULL_NET, INTRUDER = "127.0.3", "127.0.3.99"


class Traffic:
    """Clients that are never many enough for the limit."""

    def __init__(self, seed, threads, ports):
        self.over = threading.Event()
        self.ports = ports
        self.sessions = 0
        self.mails = dict.fromkeys(ports, 0)
        self.wrong = []
        self.lock = threading.Lock()
        self.threads = [threading.Thread(target=self.run, args=(seed + number,))
                        for number in range(threads)]
        for thread in self.threads:
            thread.start()

    def run(self, seed):
        chance = random.Random(seed)
        while not self.over.is_set():
            self.visit(chance)

    def visit(self, chance):
        port = chance.choice(self.ports)
        session = Session(("127.0.0.1", port), chance.choice(sources(20)))
        replies = [(session.code, session.text)]
        for _ in range(chance.randint(0, 2) if session.code == 220 else 0):
            replies.append(session.send())
        mails = sum(1 for code, _ in replies if code == 250)
        self.over.wait(chance.uniform(0, 0.3))
        chance.choice(LEAVE[:4])(session) if session.code else session.close()
        with self.lock:
            self.sessions += 1
            self.mails[port] += mails
            self.wrong += [reply for reply in replies if reply[0] not in (220, 250)]

    def end(self):
        self.over.set()
        for thread in self.threads:
            thread.join()


class Intruder:
    """Tries to get into the full class, at one port after the other."""

    def __init__(self, ports):
        self.over = threading.Event()
        self.tries = []                     # port, begin, end, code
        self.thread = threading.Thread(target=self.run, args=(ports,))
        self.thread.start()

    def run(self, ports):
        while not self.over.is_set():
            for port in ports:
                begin = time.monotonic()
                session = Session(("127.0.0.1", port), INTRUDER)
                self.tries.append((port, begin, time.monotonic(), session.code))
                session.close()
                self.over.wait(0.05)

    def end(self):
        self.over.set()
        self.thread.join()

    def judge(self, test, downs):
        """In only while a role was down: it failed open."""
        inside = [one for one in self.tries if one[3] == 220]
        wrong = [(port, round(end - begin, 3)) for port, begin, end, _ in inside
                 if not any(down[0] <= end and begin <= down[1] for down in downs)]
        test.equal(wrong, [], f"the full class let none of {len(self.tries)} in, but for "
                              f"{len(inside) - len(wrong)} while a role was down")


class Reaper:
    """Kills and stops; wakes what it stopped, were it still there."""

    def __init__(self, test, postern):
        self.test, self.postern = test, postern
        self.done = {}
        self.downs = []                     # begin, end
        self.worst = 0.0

    def back(self, role, pid):
        """Its successor has shown a sign of life."""
        row = {row["role"]: row for row in self.postern.status()["roles"]}[role]
        return (row["pid"] not in (None, pid) and None not in (row["heartbeat_age"], row["uptime"])
                and row["heartbeat_age"] < row["uptime"])

    def strike(self, role, how):
        pid = self.postern.roles().get(role)
        if pid is None:                     # away just now: back-off
            self.test.wait_for(lambda: role in self.postern.roles(), f"{role} is back")
            pid = self.postern.roles()[role]
        begin = time.monotonic()
        os.kill(pid, how)
        waited = self.test.poll(lambda: self.back(role, pid), STOPPED_SECONDS + 5)
        self.downs.append((begin, time.monotonic()))
        if waited is None:
            self.test.check(False, f"{role} was not started again after {how.name}")
        else:
            self.worst = max(self.worst, waited)
        if alive(pid):
            os.kill(pid, signal.SIGCONT)
        self.done[how.name] = self.done.get(how.name, 0) + 1


def strikes(test, postern):
    """Short: each role both ways, and some more; long: --rounds at random."""
    roles = sorted(postern.roles())
    if test.rounds:
        return [(test.random.choice(roles),
                 signal.SIGSTOP if test.random.random() < 0.2 else signal.SIGKILL)
                for _ in range(test.rounds)]
    kinds = ["policy.0", "milter.0", "keeper.0"]
    both = [(role, signal.SIGKILL) for role in roles + kinds]
    both += [(role, signal.SIGSTOP) for role in kinds]
    test.random.shuffle(both)
    return both


def body(test):
    test.deaths_expected = True
    services = [conf_service(f"postfix-{way}.master.cf", port) for way, port in PORTS.items()]
    ports = [*PORTS.values(), *([SENDMAIL] if have_root() else [])]
    postfix, postern = site(test, services, [one_class("full", len(ports), ports,
                                                       f'"{FULL_NET}.0/24"'),
                                             one_class("all", LIMIT, ports)], PORTS.values())
    if have_root():
        sendmail = Sendmail(test, SENDMAIL, postern.root / "milter")
        sendmail.start()
    held = [session for port in ports
            for session in open_sessions(("127.0.0.1", port), sources(STAY, "127.0.2"))]
    test.equal(len(admitted(held)), STAY * len(ports), f"{len(held)} clients stay all the time")
    full = [Session(("127.0.0.1", port), f"{FULL_NET}.1") for port in ports]
    test.equal(len(admitted(full)), postern.open("full"), "and some fill a class")
    traffic, intruder = Traffic(test.seed, COME, ports), Intruder(ports)
    reaper = Reaper(test, postern)
    for role, how in strikes(test, postern):
        reaper.strike(role, how)
    traffic.end()
    intruder.end()
    test.say(f"{traffic.sessions} sessions, {sum(traffic.mails.values())} mails, signals "
             f"{reaper.done}; a role was back after {reaper.worst:.1f} s at the worst")
    test.equal(traffic.wrong, [], "every session was let in and every mail taken")
    intruder.judge(test, reaper.downs)
    test.within(1.0, lambda: (postern.open("all"), postern.open("full")) == (len(held), len(full)),
                "those that stay are in the count, and nobody else")
    no_mail_is_lost(test, "Postfix", postfix.delivered,
                    sum(traffic.mails[port] for port in PORTS.values()))
    if have_root():
        no_mail_is_lost(test, "Sendmail", sendmail.queued, traffic.mails[SENDMAIL])
    for number, session in enumerate(held + full):
        LEAVE[number % len(LEAVE)](session)
    test.within(1.0, lambda: postern.open("all") + postern.open("full") == 0,
                "0 after they have left")


def no_mail_is_lost(test, mta, count, mails):
    test.poll(lambda: count() >= mails, 20.0)
    test.equal(count(), mails, f"{mta}: each of {mails} mails is there, once")


main(body, before=lambda: find_root(required=False))
