# SPDX-License-Identifier: ISC
"""Clients that want so many sessions at each node of a cluster, and what they wrote down.

One thread has all of them.  A client asks at the node's policy socket, or comes to its mail
server; admitted, it stays for
a while and closes the connection, which ends the session, and another one comes; refused, it
comes again soon.  A session counts from the reply that admitted it until just before its
close: never longer than the node counted it.  So more of these than the limit at one time are
more than the limit."""
import bisect
import heapq
import random
import selectors
import socket
import threading
import time
from dataclasses import dataclass

from lib.cluster import sleep_until
from lib.stalls import Stalls, undisturbed

RETRY = 0.06            # seconds until a refused client comes again
STAY = (0.3, 1.0)       # and that an admitted one stays

REQUEST = """request=smtpd_access_policy
protocol_state=CONNECT
protocol_name=SMTP
client_address={address}
client_name={name}
client_port={port}
server_address=192.0.2.25
server_port=2025
instance=

"""


LEAST = 28              # of 30, that are used where so many are wanted
SETTLE, LOOK = 2.0, 1.2         # seconds after each change of the demand
AWAKE = 0.1             # seconds after a stall in which answers of before it are read


@dataclass
class Visit:
    """One session that was admitted."""
    node: str
    begin: float                        # the reply was read
    end: float = float("inf")           # just before the close, or when it was seen to be ended
    asked: float = 0.0


@dataclass
class Place:
    """A client of a node: asks, stays, goes, comes again."""
    node: str
    number: int
    connection: socket.socket = None
    visit: Visit = None
    data: bytes = b""
    asked: float = 0.0
    turn: int = 0                       # timers of earlier turns are void


class Clients:
    """`nodes`: name -> path of its policy socket, or (host, port) of its mail server.
    demand(): how many want in at each."""

    def __init__(self, test, nodes, seed=0, stay=STAY):
        self.test, self.nodes, self.stay = test, dict(nodes), stay
        self.stalls = Stalls(test)
        self.random = random.Random(seed)
        self.wanted = dict.fromkeys(self.nodes, 0)
        self.changes = []               # (time, wanted)
        self.visits = []
        self.refused = dict.fromkeys(self.nodes, 0)
        self.strange = []               # replies that are neither
        self.places, self.timers, self.serial = {}, [], 0
        self.selector = selectors.DefaultSelector()
        self.lock = threading.Lock()
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()
        test.at_end(self.stop)

    def demand(self, **wanted):
        """From now on.  Those that are admitted stay until their time is up."""
        with self.lock:
            self.wanted = {node: wanted.get(node, 0) for node in self.nodes}
            self.changes.append((time.monotonic(), dict(self.wanted)))

    def go(self):
        """Nobody comes any more, and all that are there leave at once."""
        self.demand()
        with self.lock:
            for place in list(self.places.values()):
                self.leave(place, again=None)

    def stop(self):
        self.over.set()
        self.thread.join(5)

    def open(self, node=None):
        with self.lock:
            return sum(1 for place in self.places.values() if place.visit is not None
                       and node in (None, place.node))

    def let_in(self, node=None):
        """How many ever."""
        with self.lock:
            return sum(1 for visit in self.visits if node in (None, visit.node))

    def phase(self, wanted):
        """This demand, and when it began: for as long as judge_phase() looks at."""
        def run():
            begin = time.monotonic()
            self.demand(**wanted)
            sleep_until(begin + SETTLE + LOOK)
            return wanted, begin
        return undisturbed(self.stalls, run)

    def quiet(self):
        """Nobody comes any more, and all have left."""
        self.demand()
        self.test.wait_for(lambda: not self.places, "all clients have left")

    # The thread's own

    def run(self):
        while not self.over.is_set():
            with self.lock:
                self.come_and_go()
            wait = self.timers[0][0] - time.monotonic() if self.timers else 0.02
            for key, _ in self.selector.select(min(max(wait, 0), 0.02)):
                with self.lock:
                    self.hear(key.data)
        for place in self.places.values():
            if place.connection:
                place.connection.close()

    def come_and_go(self):
        count = dict.fromkeys(self.nodes, 0)
        for place in list(self.places.values()):
            count[place.node] += 1
            # who has asked hears the answer: it may be counted already
            if count[place.node] > self.wanted[place.node] and place.connection is None:
                self.leave(place, again=None)
        for node, wanted in self.wanted.items():
            for _ in range(wanted - count[node]):
                self.serial += 1
                place = self.places[self.serial] = Place(node, self.serial)
                self.later(place, self.random.uniform(0, RETRY))
        now = time.monotonic()
        while self.timers and self.timers[0][0] <= now:
            _, _, place, turn = heapq.heappop(self.timers)
            if turn != place.turn or place.number not in self.places:
                continue
            if place.connection is None:
                self.ask(place)
            else:                       # stayed long enough, or no reply for too long
                self.leave(place, again=0.0)

    def later(self, place, seconds):
        place.turn += 1
        self.serial += 1
        heapq.heappush(self.timers, (time.monotonic() + seconds, self.serial, place, place.turn))

    def ask(self, place):
        number = self.serial = self.serial + 1
        to = self.nodes[place.node]
        place.connection = socket.socket(
            socket.AF_INET if isinstance(to, tuple) else socket.AF_UNIX)
        place.connection.setblocking(False)
        place.data, place.asked = b"", time.monotonic()
        try:
            if isinstance(to, tuple):
                place.connection.connect_ex(to)
            else:
                place.connection.connect(str(to))
                place.connection.send(REQUEST.format(
                    address=f"203.0.{number >> 8 & 127}.{number & 255}", name="unknown",
                    port=1024 + number % 60000).encode())
        except OSError:                 # it is down, or so busy
            self.leave(place, again=RETRY)
            return
        self.selector.register(place.connection, selectors.EVENT_READ, place)
        self.later(place, 5.0)

    def hear(self, place):
        if place.connection is None:
            return
        try:
            data = place.connection.recv(4096)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        place.data += data
        if not data:                    # the node is dead, and its session with it
            self.leave(place, again=RETRY)
        elif place.visit is None and (answer := self.answer(place)):
            if answer in (b"DUNNO", b"220"):
                place.visit = Visit(place.node, time.monotonic(), asked=place.asked)
                self.visits.append(place.visit)
                self.later(place, self.random.uniform(*self.stay))
            else:
                self.refused[place.node] += answer == b"421"
                if answer != b"421":
                    self.strange.append(place.data)
                self.leave(place, again=RETRY)

    def answer(self, place):
        """The word that it begins with, once it is whole."""
        if isinstance(self.nodes[place.node], tuple):
            return place.data[:3] if b"\n" in place.data else None
        return place.data.removeprefix(b"action=").split()[0] if b"\n\n" in place.data else None

    def leave(self, place, again):
        if place.visit is not None:
            place.visit.end = time.monotonic()
            place.visit = None
        if place.connection is not None:
            try:
                self.selector.unregister(place.connection)
            except KeyError:
                pass
            place.connection.close()
            place.connection = None
        here = sum(1 for other in self.places.values() if other.node == place.node)
        if again is None or here > self.wanted[place.node]:
            self.places.pop(place.number, None)
        else:
            self.later(place, again)


@dataclass
class Fault:
    """Nodes could not renew their leases: since a time from `begin` to `done`.  Parts of a lease:
    `others`, from `begin`, before which nobody else can have what was theirs; `grace`, after
    `done`, in which they still admit on it."""
    nodes: tuple
    begin: float
    done: float
    others: float = 0.4
    grace: float = 0.75


class Verdict:
    """What the law says of the visits; of several Clients together."""

    def __init__(self, *clients, limit, lease):
        self.limit, self.lease = limit, lease
        self.visits, self.stalls = [], clients[0].stalls
        for some in clients:
            with some.lock:
                self.visits += some.visits
        self.last = time.monotonic()
        # machines that all stand still for so long find their leases ended, and each other silent;
        # awake, they admit on none of those
        self.faults = [Fault(tuple(some.nodes), begin, end, others=0.0, grace=AWAKE / lease)
                       for some in clients for begin, end in some.stalls.longer(lease / 3)]

    def steps(self, node=None):
        """Times, and how many were open from each on."""
        moves = sorted(move for visit in self.visits if node in (None, visit.node)
                       for move in ((visit.begin, 1), (visit.end, -1)) if move[0] <= self.last)
        times, counts, count = [float("-inf")], [0], 0
        for when, by in moves:
            count += by
            times.append(when)
            counts.append(count)
        return times, counts

    def overhang(self, faults):
        """Sessions above a node's share: those admitted (maybe: asked for) before its lease ended,
        from when others may have what was leased."""
        for visit in self.visits:
            for fault in (*faults, *self.faults):
                since = max(visit.begin, fault.begin + fault.others * self.lease)
                let_in = min(visit.begin - fault.grace * self.lease, visit.asked)
                if visit.node in fault.nodes and visit.end > since and let_in < fault.done:
                    yield Visit(visit.node, since, visit.end)
                    break

    def worst(self, faults=()):
        """The most that were open at once above limit and overhang, as (excess, time, open)."""
        moves = [(when, by, 0) for visit in self.visits
                 for when, by in ((visit.begin, 1), (visit.end, -1))]
        moves += [(when, 0, by) for visit in self.overhang(faults)
                  for when, by in ((visit.begin, 1), (visit.end, -1))]
        moves = sorted(move for move in moves if move[0] <= self.last)
        worst, is_open, above = (-self.limit, 0.0, 0), 0, 0
        for number, (when, by, hang) in enumerate(moves):
            is_open += by
            above += hang
            if number + 1 < len(moves) and moves[number + 1][0] == when:
                continue                # all of one moment first
            worst = max(worst, (is_open - above - self.limit, when, is_open))
        return worst

    def fewest(self, begin, end, window=0.2, node=None):
        """The least that was in use from begin to end.  A place counts as used while the next
        client is on its way: the most of each `window` before."""
        times, counts = self.steps(node)
        least, at, now = float("inf"), begin, begin
        while now <= end:
            first = bisect.bisect_right(times, now - window) - 1
            most = max(counts[first:bisect.bisect_right(times, now)])
            if most < least:
                least, at = most, now
            now += window / 4
        return least, at

    def mean(self, begin, end, node=None):
        """How many were open, on average."""
        return sum(max(0.0, min(visit.end, end) - max(visit.begin, begin))
                   for visit in self.visits if node in (None, visit.node)) / (end - begin)

    def longest_gap(self, begin, end, node=None):
        """Seconds without a session that is admitted, while the machine did not stand still; nor
        for a lease after that, where it was so long that leases ended."""
        times = [begin, *sorted(visit.begin for visit in self.visits
                                if node in (None, visit.node) and begin <= visit.begin <= end), end]
        return max(b - a - self.stalls.lost(a, b, after=self.lease, least=self.lease / 3)
                   for a, b in zip(times, times[1:]))

    def admitted_above(self, node, begin, end, places):
        """Sessions that a node admitted then although so many were there: had begun before it
        was asked (or `begin`), and had not ended when it had answered."""
        visits = [visit for visit in self.visits if visit.node == node]
        found = []
        for visit in visits:
            if begin <= visit.begin <= end:
                asked = max(visit.asked, begin)
                there = sum(1 for other in visits if other.begin < asked
                            and other.end > visit.begin)
                if there >= places:
                    found.append((visit, there))
        return found


def judge_phase(test, verdict, wanted, begin, window=0.2):
    """`wanted`: node -> demand, since `begin`, which was SETTLE + LOOK ago."""
    since, end = begin + SETTLE, begin + SETTLE + LOOK
    least, at = verdict.fewest(since, end, window)
    what = f"demand {' '.join(map(str, wanted.values()))}"
    test.check(least >= LEAST, f"{what}: at least {least} used, {verdict.mean(since, end):.1f} on "
               "average" + (f"; {at - begin:.2f} s after the change" if least < LEAST else ""))
    for name, want in wanted.items():
        if want:
            got = verdict.mean(since, end, name)
            test.check(got >= 0.7 * min(want, verdict.limit / len(wanted)),
                       f"{what}: {name} has {got:.1f} on average")


def judge_law(test, verdict, begin, faults=()):
    excess, when, count = verdict.worst(faults)
    above = " and the overhang" if faults else ""
    test.check(excess <= 0, f"never more than {verdict.limit}{above} of {len(verdict.visits)} "
               f"sessions were open at once (at worst {count}, {when - begin:.2f} s from the begin"
               + (f", {excess} above)" if excess > 0 else ")"))
