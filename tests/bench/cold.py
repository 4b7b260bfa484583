#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""tests/bench/cold.py [--loads 0.5,1,3] [--rises 30,75] [--burst N] [--count N] [--limit K]
[--even]: mail for destinations never delivered to before, on a real Postfix.

A server takes K sessions at once, SERVICE seconds a message, and refuses those above with
421.  Mail comes at random, at each load in turn, a multiple of what the server takes; the
same to Postfix as it is and, beside it, to one with Postern (lanes of conf/, the law probe).
Each load has a domain of its own.  Of its first N results: how many were deferred, and by
whom: refused by the server, suspended by Postfix, or held by Postern.

Then the limit doubles, so many seconds after a domain's first mail: how long until so many
sessions run there.  And N messages come at once for a site that takes BURST_LIMIT: how long until all
are delivered, with Postfix's own times for what was deferred.  Private to itself: needs root, and Postfix."""
import random
import re
import shutil
import sys
import threading
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "mta"))
from lib.limiter import Limiter                     # noqa: E402
from lib.outbound import REMOTE, Outbound, merged   # noqa: E402
from lib.postern import one_class                   # noqa: E402
from lib.postfix import Postfix                     # noqa: E402
from lib.smtp import Session                        # noqa: E402
from lib.testing import main                        # noqa: E402

SERVICE = 0.25
LOADS = "0.5,0.75,1,1.3,2,3"
RISES = "30,75,150"
SIDES = ("stock", "postern")
USED_WITHIN = 30.0
BURST_LIMIT = 3
BURST_PATIENCE = 1000                   # Postfix tries again after 300 s and more
DOMAINS = 40                            # more than loads and rises
DEBUG = "window = { destination_concurrency_feedback_debug = true; };\n"
CACHE = "smtp_connection_cache_time_limit = 2s\n"       # as Postfix has it
RESULT = re.compile(r": to=<[^>]*@([^>]+)>.* status=(sent|deferred|bounced) \((.*)")


def address(side, number):
    return f"198.51.{100 + SIDES.index(side)}.{1 + number}"


def domain(side, number):
    return f"{side}-{number}.example"


HOSTS = {address(side, n): domain(side, n) for side in SIDES for n in range(DOMAINS)}


class Server(Limiter):
    """Messages take a little more or less."""

    def take(self):
        if self.seconds > 0:
            time.sleep(self.seconds * random.uniform(0.9, 1.1))  # LINT-SLEEP: a message


def cause(status, text):
    if status == "sent":
        return "sent"
    if text.startswith("Postern: "):
        return "held"
    return "suspended" if text.startswith("delivery temporarily suspended") else "refused"


class Side:
    """One Postfix."""

    def __init__(self, test, name):
        self.test, self.name = test, name
        self.port = 2025 + SIDES.index(name)
        self.postern = None
        if name == "stock":
            self.postfix = Postfix(test, [f"{self.port} inet n - n - - smtpd\n",
                                          "smtp unix - - y - - smtp\n"], name="stock",
                                   main=merged(CACHE))
            self.postfix.start(self.port)
        else:
            site = Outbound(test, self.port, [one_class("all", 1000)], name="postern", main=CACHE,
                            settings=DEBUG)
            self.postfix, self.postern = site.postfix, site.postern
        self.results = {}               # domain -> [(cause, text)] as they came
        self.file, self.rest = None, ""

    def read(self):
        if self.file is None:
            self.file = open(self.postfix.log, errors="replace")
        *lines, self.rest = (self.rest + self.file.read()).split("\n")
        for line in lines:
            if found := RESULT.search(line):
                self.results.setdefault(found[1], []).append((cause(found[2], found[3]), line))


class Course:
    """Mail for one new domain of one side, until it is stopped."""

    def __init__(self, test, side, number, limit, load, seed):
        self.side, self.domain = side, domain(side.name, number)
        self.even = test.arguments.even
        self.server = Server(test, [address(side.name, number)], REMOTE, limit, SERVICE)
        self.rate = load * limit / SERVICE
        self.gaps, self.lock = random.Random(seed), threading.Lock()
        self.count, self.due, self.done = 0, time.monotonic(), False
        self.threads = [threading.Thread(target=self.send, daemon=True) for _ in range(4)]
        for thread in self.threads:
            thread.start()

    def next(self):
        with self.lock:
            self.count += 1
            self.due += 1 / self.rate if self.even else self.gaps.expovariate(self.rate)
            return self.count, self.due

    def send(self):
        session, sent = None, 0
        while not self.done:
            number, due = self.next()
            time.sleep(max(0, due - time.monotonic()))      # LINT-SLEEP: the pace
            if session is None or sent == 50:
                session, sent = Session(("127.0.0.1", self.side.port)), 0
                session.command("EHLO client.example.org")
            for line in ("MAIL FROM:<a@example.org>", f"RCPT TO:<u{number}@{self.domain}>",
                         "DATA", "Subject: test\r\n\r\ntest\r\n."):
                code, text = session.command(line)
                if code not in (250, 354):
                    raise RuntimeError(f"{line}: {code} {text}")
            sent += 1

    def results(self):
        self.side.read()
        return self.side.results.get(self.domain, [])

    def stop(self):
        """What waits is delivered at once."""
        self.done = True
        self.server.limit, self.server.seconds = None, 0
        for thread in self.threads:
            thread.join()


def tell(test, ok, text):
    test.say(f"{'met   ' if ok else 'MISSED'} {text}")


def shares(course, count):
    found = Counter(kind for kind, _ in course.results()[:count])
    return 100 * (sum(found.values()) - found["sent"]) / max(1, sum(found.values())), found


def run_load(test, sides, number, load, given):
    start = time.monotonic()
    courses = [Course(test, side, number, given.limit, load, number) for side in sides]
    test.wait_for(lambda: all(len(one.results()) >= given.count for one in courses),
                  f"load {load}: {given.count} results each", limit=40 + 3 * given.count *
                  SERVICE / given.limit / min(1, load))
    spent = time.monotonic() - start
    found = {one.side.name: shares(one, given.count) for one in courses}
    for one in courses:
        share, kinds = found[one.side.name]
        test.say(f"  load {load}, {one.side.name}: {share:.1f} % of {given.count} deferred: "
                 f"refused {kinds['refused']}, suspended {kinds['suspended']}, held "
                 f"{kinds['held']}; {one.count} sent in {spent:.0f} s "
                 f"({one.count / spent / one.rate:.2f} of what was to be)")
    for one in courses:
        one.stop()
    return {name: share for name, (share, _) in found.items()}


def judge(test, load, found):
    if len(found) < 2:
        return
    stock, mine = found["stock"], found["postern"]
    text = f"load {load}: {mine:.1f} % deferred, stock {stock:.1f} %: "
    tell(test, mine <= max(stock, 0.5), text + "never more than stock (0.5 % is none)")
    if load < 1:
        tell(test, mine <= max(stock / 3, 0.5), text + "a third of stock's at most")
    if load == 1.3:
        tell(test, mine <= 3, text + "3 % at most")


def run_rise(test, side, number, after, given):
    """When the limit is twice what it was, with mail waiting."""
    course = Course(test, side, number, given.limit, 2, number)
    time.sleep(after)                   # LINT-SLEEP: the site as it was for so long
    course.server.clear()
    course.server.limit, start = 2 * given.limit, time.monotonic()
    before = len(course.results())
    took = test.poll(lambda: course.server.most >= 2 * given.limit, 300)
    took = time.monotonic() - start
    time.sleep(20)                      # LINT-SLEEP: what it costs
    found = Counter(kind for kind, _ in course.results()[before:])
    tell(test, took <= USED_WITHIN, f"limit {given.limit} to {2 * given.limit} after {after} s: "
         f"used after {took:.1f} s ({before} results before; after it {dict(found)}): "
         f"{USED_WITHIN:.0f} s at most")
    course.stop()


class Burst:
    """So many messages at once for one new domain of each side."""

    def __init__(self, test, sides, number, count):
        self.test, self.sides, self.count = test, sides, count
        self.names = {side.name: domain(side.name, number) for side in sides}
        self.servers = {side.name: Server(test, [address(side.name, number)], REMOTE, BURST_LIMIT,
                                          SERVICE) for side in sides}
        self.start = time.monotonic()
        for side in sides:
            side.postfix.send(side.port, self.names[side.name], count)

    def took(self, side, patience):
        """Seconds until all were delivered; or None."""
        server = self.servers[side.name]
        left = self.start + patience - time.monotonic()
        if self.test.poll(lambda: len(server.delivered) >= self.count, max(0, left)) is None:
            return None
        return server.delivered[self.count - 1][1] - self.start

    def tell(self, side, patience):
        took, server = self.took(side, patience), self.servers[side.name]
        times = [at - self.start for _, at in list(server.delivered)]
        early = [sum(at <= limit for at in times) for limit in (10, 60)]
        self.test.say(f"  burst of {self.count}, {side.name}: {early[0]} delivered in 10 s, {early[1]} "
                      f"in 60 s, all in {'-' if took is None else f'{took:.1f}'} s; "
                      f"refused {server.refused}, {server.most} sessions at once")
        return took

    def judge(self):
        took = {side.name: self.tell(side, BURST_PATIENCE) for side in self.sides}
        if "postern" not in took:
            return
        log = self.sides[-1].postern.log_text().splitlines()
        suspended = [line for line in log if "event=suspended" in line and self.names["postern"] in line]
        tell(self.test, not suspended, f"burst: suspended {len(suspended)} times: never")
        ideal = self.count / BURST_LIMIT * SERVICE
        tell(self.test, took["postern"] is not None and (took.get("stock") is None or
                                                         took["postern"] <= took["stock"]),
             f"burst: all delivered, no later than by stock ({ideal:.1f} s if none were refused)")


def numbers(text):
    return [float(part) for part in text.split(",") if part]


def body(test):
    given = test.arguments
    test.say(f"a server of {given.limit}, {SERVICE} s a message: {given.limit / SERVICE:.0f} a second")
    sides = [Side(test, name) for name in SIDES if name in given.sides.split(",")]
    number = 0
    burst = Burst(test, sides, DOMAINS - 1, given.burst) if given.burst > 0 else None
    if burst:
        test.poll(lambda: burst.took(sides[-1], 0) is not None, 30)
    for load in numbers(given.loads):
        judge(test, load, run_load(test, sides, number, load, given))
        number += 1
    for after in numbers(given.rises):
        run_rise(test, sides[-1], number, after, given)
        number += 1
    if burst:
        burst.judge()
    for side in sides:
        side.read()
    test.check(all(side.results for side in sides), "mail was delivered")
    if given.keep:
        shutil.rmtree(given.keep, ignore_errors=True)
        shutil.copytree(test.logs, given.keep, ignore_dangling_symlinks=True)


main(body, hosts=HOSTS, addresses=list(HOSTS), seconds=3600, options=(
    ("--loads", {"default": LOADS}), ("--rises", {"default": RISES}),
    ("--burst", {"type": int, "default": 60}),
    ("--count", {"type": int, "default": 1000}), ("--limit", {"type": int, "default": 5}),
    ("--sides", {"default": ",".join(SIDES)}),
    ("--even", {"action": "store_true", "help": "mail comes at a steady pace, not at random"}),
    ("--keep", {"metavar": "DIRECTORY", "help": "the logs are copied there"})))
