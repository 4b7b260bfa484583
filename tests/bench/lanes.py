#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""tests/bench/lanes.py [--phases 3:120,12:540,7:240] [--worlds NAME,NAME] [--kept]: real
Postfix and servers that take 3, then 12, then 7 sessions at once, for so many seconds
each, and refuse those above with 421: at connect and, where the limit has fallen below
the sessions that are there, at MAIL (--kept: those stay, as they were let in).

Four of each, side by side: Postfix as it is, with feedback 1/concurrency, and with
Postern (lanes of conf/, the law probe, reloads allowed) that finds the limit or is told
it.  Mail comes at twice of what the server takes, and in between at less, so that some
always waits.  Per minute since a change: what share of the attempts was deferred, how
much was delivered, how many connections there were at most.  Private to itself: needs
root, and Postfix.
"""
import re
import shutil
import socket
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "mta"))
from lib.limiter import Limiter                     # noqa: E402
from lib.outbound import REMOTE, Outbound, merged   # noqa: E402
from lib.postern import one_class                   # noqa: E402
from lib.postfix import Postfix                     # noqa: E402
from lib.smtp import Session                        # noqa: E402
from lib.testing import main                        # noqa: E402

# (limit, seconds): the first canary above a limit that has risen may be minutes away.
PHASES = ((3, 120), (12, 540), (7, 240))
SERVICE = 1.0                           # seconds that a message takes there
SLICE = 60
# Of each minute: half of it at twice the server's capacity, half of it at less.
BUSY, CALM = 2.0, 0.6
NAMES = ("stock", "cohort", "found", "told")
HOSTS = {f"192.0.2.{11 + i}": f"{name}.example" for i, name in enumerate(NAMES)}
RESULT = re.compile(r": to=<[^>]*>.* status=(sent|deferred) \((Postern: )?")
DEBUG = "window = { destination_concurrency_feedback_debug = true; };\n"
CACHE = "smtp_connection_cache_time_limit = 2s\n"       # as Postfix has it
COHORT = """default_destination_concurrency_positive_feedback = 1/concurrency
default_destination_concurrency_negative_feedback = 1/concurrency
"""


class Server(Limiter):
    """Knows the most connections that were there at once, refused ones, too."""
    peak = 0
    keeps = False                       # sessions above a limit that has fallen

    def is_unwelcome(self, sock):
        if self.keeps:
            return False
        with self.lock:
            if self.count_open() <= self.limit:
                return False
            self.sockets.discard(sock)  # one at a time
            self.refused += 1
            return True

    def enter(self, sock):
        with self.lock:
            there = self.count_open()
            self.peak = max(self.peak, there + 1)
            self.connections += 1
            if there >= self.limit:
                self.refused += 1
                return False
            self.sockets.add(sock)
            return True

    def take_peak(self):
        with self.lock:
            peak, self.peak = self.peak, self.count_open()
        return peak


class World:
    """One Postfix and its server."""

    def __init__(self, test, number, name):
        self.test, self.name, self.domain = test, name, f"{name}.example"
        self.port = 2025 + number
        self.server = Server(test, [f"192.0.2.{11 + number}"], REMOTE, PHASES[0][0], SERVICE)
        self.server.keeps = test.arguments.kept
        self.postern = None
        plain = [f"{self.port} inet n - n - - smtpd\n", "smtp unix - - y - - smtp\n"]
        if name in ("stock", "cohort"):
            self.postfix = Postfix(test, plain, name=name,
                                   main=merged(CACHE + (COHORT if name == "cohort" else "")))
            self.postfix.start(self.port)
        else:
            site = Outbound(test, self.port, [one_class("all", 1000)], name=name,
                            mta="reload = true;", settings=DEBUG, main=CACHE)
            self.postfix, self.postern = site.postfix, site.postern
        self.log = None
        self.sent_in = 0                # messages
        self.rows = []                  # (time, sent, deferred, held, peak, window)
        self.rest = ""

    def tell(self, limit):
        self.server.limit = limit
        if self.name == "told":
            self.postern.ask("limit", self.domain, "--ceiling", limit, "--for", "2h")

    def read_log(self):
        if self.log is None:
            self.log = open(self.postfix.log, errors="replace")
        lines = (self.rest + self.log.read()).split("\n")
        self.rest = lines.pop()
        sent = deferred = held = 0
        for line in lines:
            if f"@{self.domain}>" in line and (found := RESULT.search(line)):
                sent += found[1] == "sent"
                deferred += found[1] == "deferred"
                held += found[2] is not None
        return sent, deferred, held

    def window(self):
        if self.postern is None:
            return None
        rows = [row for row in self.postern.ask("destinations", self.domain)]
        return rows[0]["window"] if rows else None

    def look(self):
        window = self.window()
        self.rows.append((time.monotonic(), *self.read_log(), self.server.take_peak(), window))

    def slice(self, start, end):
        """Sums of that time."""
        rows = [row for row in self.rows if start < row[0] <= end]
        before = [row[5] or 0 for row in self.rows if row[0] <= start][-1:]
        windows = before + [row[5] or 0 for row in rows]
        over = [(row[4], row[5]) for i, row in enumerate(rows) if self.postern and
                row[4] > max(windows[max(0, i - 1):i + 2]) + 1]
        sent, deferred, held = (sum(row[i] for row in rows) for i in (1, 2, 3))
        return {"sent": sent, "deferred": deferred, "held": held, "over": over,
                "peak": max((row[4] for row in rows), default=0),
                "window": (min(windows), max(windows)),
                "share": deferred / max(1, sent + deferred)}


class Arrivals(threading.Thread):
    """Mail for one world, at the pace that is set."""

    def __init__(self, world):
        super().__init__(daemon=True)
        self.world, self.rate, self.count, self.done = world, 0.0, 0, False

    def run(self):
        due = time.monotonic()
        session = None
        while not self.done:
            if self.count % 50 == 0 or session is None:
                if session is not None:
                    session.quit()
                session = Session(("127.0.0.1", self.world.port))
                session.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                session.command("EHLO client.example.org")
            self.message(session)
            self.count += 1
            due = max(due + 1 / self.rate, time.monotonic() - 5)
            time.sleep(max(0, due - time.monotonic()))      # LINT-SLEEP: the pace

    def message(self, session):
        for line in ("MAIL FROM:<a@example.org>",
                     f"RCPT TO:<u{self.count}@{self.world.domain}>", "DATA",
                     "Subject: test\r\n\r\ntest\r\n."):
            code, text = session.command(line)
            if code not in (250, 354):
                raise RuntimeError(f"{line}: {code} {text}")


def run_phase(worlds, arrivals, limit, seconds):
    start = time.monotonic()
    for world in worlds:
        world.tell(limit)
    while (now := time.monotonic()) < start + seconds:
        part = BUSY if (now - start) % SLICE < SLICE / 2 else CALM
        for one in arrivals:
            one.rate = part * limit / SERVICE
        for world in worlds:
            world.look()
        time.sleep(max(0, 1 - (time.monotonic() - now)))    # LINT-SLEEP: looks each second
    return start


def show(test, worlds, limit, start, seconds):
    test.say(f"limit {limit}: per minute delivered / deferred % (of them held) / "
             "peak of connections (window)")
    for minute in range(max(1, int(seconds // SLICE))):
        cells = []
        for world in worlds:
            s = world.slice(start + minute * SLICE, start + (minute + 1) * SLICE)
            cells.append(f"{world.name} {s['sent']:5d} / {100 * s['share']:5.1f} ({s['held']}) / "
                         f"{s['peak']:2d}" + (f" ({s['window'][0]}-{s['window'][1]})"
                                              f"{' over: ' + str(s['over']) if s['over'] else ''}"
                                              if world.postern else ""))
        test.say(f"  minute {minute + 1}: " + "; ".join(cells))


def tell(test, ok, text):
    test.say(f"{'met   ' if ok else 'MISSED'} {text}")


def judge(test, worlds, limit, start, seconds):
    """From the second minute on."""
    of = {world.name: world.slice(start + SLICE, start + seconds) for world in worlds}
    stock = of["stock"]
    for name in ("found", "told"):
        mine = of[name]
        most = 0.01 if name == "told" else stock["share"] / 5
        tell(test, mine["share"] <= most, f"limit {limit}, {name}: {100 * mine['share']:.2f} % "
             f"deferred, stock {100 * stock['share']:.1f} %, 1/concurrency "
             f"{100 * of['cohort']['share']:.1f} %: {100 * most:.1f} % at most")
        ratio = mine["sent"] / max(1, stock["sent"])
        tell(test, ratio >= 0.95, f"limit {limit}, {name}: {mine['sent']} delivered, "
             f"{ratio:.2f} of stock's: 0.95 at least")
        tell(test, not mine["over"], f"limit {limit}, {name}: more connections than window and "
             f"canary in {len(mine['over'])} s; {mine['peak']} at most")


def numbers(text):
    return tuple(tuple(map(int, part.split(":"))) for part in text.split(","))


def keep(test, place):
    """The logs, for whoever looks into what happened."""
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(test.logs, place, ignore_dangling_symlinks=True)


def body(test):
    phases = numbers(test.arguments.phases)
    worlds = [World(test, number, name) for number, name in enumerate(NAMES)
              if name in test.arguments.worlds.split(",")]
    for world in worlds:
        world.postfix.send(world.port, world.domain)
    for world in worlds:
        test.wait_for(lambda: world.server.count(world.domain) == 1, "a first delivery each")
    arrivals = [Arrivals(world) for world in worlds]
    for one in arrivals:
        one.rate = phases[0][0] / SERVICE
        one.start()
    starts = []
    for limit, seconds in phases:
        starts.append(run_phase(worlds, arrivals, limit, seconds))
        show(test, worlds, limit, starts[-1], seconds)
    for one in arrivals:
        one.done = True
    test.say("messages: " + ", ".join(str(one.count) for one in arrivals))
    test.say("sessions above a limit that has fallen were "
             + ("kept: stock goes on with them, above the limit" if test.arguments.kept
                else "ended at their next MAIL"))
    if len(worlds) == len(NAMES):
        for (limit, seconds), start in zip(phases, starts):
            if seconds >= 2 * SLICE:
                judge(test, worlds, limit, start, seconds)
            else:
                test.say(f"       limit {limit}: too short to be judged")
    test.check(all(world.server.delivered for world in worlds), "mail was delivered")
    if test.arguments.keep:
        keep(test, test.arguments.keep)


main(body, hosts=HOSTS, addresses=list(HOSTS), seconds=3600, options=(
    ("--phases", {"default": ",".join(f"{limit}:{seconds}" for limit, seconds in PHASES),
                  "help": "LIMIT:SECONDS,..."}),
    ("--worlds", {"default": ",".join(NAMES)}),
    ("--kept", {"action": "store_true", "help": "sessions above a new limit stay"}),
    ("--keep", {"metavar": "DIRECTORY", "help": "the logs are copied there"})))
