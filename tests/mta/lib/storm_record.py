# SPDX-License-Identifier: ISC
"""The record of a storm's clients, and what it says of Postern.

A session counts from its 220 until the client begins to close, or until the server's
socket is gone by the kernel's account (lib/tcp_ends), whichever is first.  What
Postern says is held against that, and against its own table, after the fact:

  limits    no class ever held more than its limit, without the sessions that began
            while a role that serves the port was down, or the machine stood still
            for longer than the server waits (they failed open)
  adopted   those are in Postern's table a second after the role's return
  counted   every other session is in it at each of many looks, and none that has
            been over for a second
  refusals  none while a place was free for longer than a second, and nothing down
            (free: the server had let go of the session that had it)
"""
import time
from dataclasses import dataclass, field

NET = "127.0.7."
ADDRESSES = [f"{NET}{number}" for number in range(1, 51)]
# Class: addresses, its limit, that of one client.
CLASSES = {"few": (range(1, 16), 4, None), "some": (range(16, 36), 6, None),
           "many": (range(36, 51), 10, 2)}
SERVER_TIMEOUT = 2      # seconds of silence after which the server ends a session
LONG = 1.0              # nothing may be wrong for longer, in seconds
ANSWER_TIMEOUT = 1.0    # seconds that a mail server waits for an answer at least, by conf/
STILL = "the machine stood still"
# A server that ends a session tells its milter first and closes then: its socket outlives
# the session for as long as it is busy.  So in this time before an end of the server's making
# none is looked for, and none is in another's way.  (One that is killed tells nobody: its
# sessions last as its sockets.)
SERVER_CLOSES = 0.25


def class_of(address):
    number = int(address.rsplit(".", 1)[1])
    return next(name for name, (numbers, _, _) in CLASSES.items() if number in numbers)


@dataclass
class Visit:
    """One client's record; times are monotonic, None: not yet, or never."""
    address: str
    port: int = 0               # the client's
    asked: float = 0.0          # connect
    answered: float = None      # the greeting
    code: int = 0
    closing: float = None       # begins to close
    way: str = ""
    gone: float = None          # the server's socket, by the kernel
    finished: float = None      # the server's process gave it up: its FIN came

    def end(self):
        return min((when for when in (self.closing, self.gone, self.finished)
                    if when is not None), default=float("inf"))

    def let_go(self):
        """When the server had let go of it.  That may be later than the client did: an
        smtpd whose anvil was reloaded meanwhile takes a second to say goodbye to it."""
        whens = [when for when in (self.gone, self.finished) if when is not None]
        return min(whens, default=self.end())

    def lasts(self):
        """Until when it is a session for certain."""
        by_server = self.end() != self.closing
        return max(self.answered, self.end() - (SERVER_CLOSES if by_server else 0))


@dataclass
class Down:
    """A time in which a role was not there to answer, by the test's own strikes or STILL."""
    what: str
    begin: float
    serves: bool                # it is asked about sessions of the port
    sees: bool                  # it notices their ends
    end: float = float("inf")

    def touches(self, begin, end):
        return self.begin <= end and begin <= self.end


def stood_still(begin, end):
    """Nobody fails open for want of an answer that is late by less than the server waits."""
    return Down(STILL, begin, end - begin > ANSWER_TIMEOUT, True, end)


@dataclass
class Look:
    """Postern's table at some moment between begin and end."""
    begin: float
    end: float
    there: set = field(default_factory=set)


class Verdict:
    """What the record says of all that happened."""

    def __init__(self, test, clients, strikes, ends, looks, port):
        self.test, self.port, self.looks = test, port, looks
        self.begin = clients.begin
        self.downs = sorted(strikes.downs, key=lambda down: down.begin)
        self.visits = sorted((v for v in clients.visits if v.answered is not None),
                             key=lambda v: v.answered)
        for visit in self.visits:
            if visit.code == 220:
                visit.gone = ends.gone((visit.address, visit.port, port), visit.answered)
        self.inside = [v for v in self.visits if v.code == 220]
        self.failed_open = [v for v in self.inside
                            if self.while_down(v.asked, v.answered, ("serves",))]
        self.wrong = []

    def while_down(self, begin, end, what=("serves", "sees")):
        return any(down.touches(begin, end) and any(getattr(down, one) for one in what)
                   for down in self.downs)

    def say(self, text):
        self.wrong.append(text)
        if len(self.wrong) <= 12:
            self.test.say(text)

    def tell(self, visit):
        end = visit.end()
        return (f"{visit.address}:{visit.port} {visit.code} {visit.way} asked {visit.asked:.3f}"
                f" answered {visit.answered:.3f} closing "
                f"{'-' if visit.closing is None else f'{visit.closing:.3f}'} gone "
                f"{'-' if visit.gone is None else f'{visit.gone:.3f}'} end {end:.3f}")

    # limits

    def overlap(self, visits, limit, name):
        """The highest number at once; an end comes before a beginning at its time."""
        steps = sorted([(v.answered, 1, v.port, v) for v in visits]
                       + [(v.lasts(), -1, v.port, v) for v in visits
                          if v.end() != float("inf")], key=lambda step: step[:3])
        steps = [step for step in steps if step[3].lasts() > step[3].answered]
        there, peak = set(), 0
        for when, change, _, visit in steps:
            if change < 0:
                there.discard(id(visit))
                continue
            there.add(id(visit))
            peak = max(peak, len(there))
            if len(there) > limit:
                self.say(f"{name}: {len(there)} at {when:.3f}, limit {limit}: "
                         f"{self.tell(visit)}; with " + "; ".join(
                             self.tell(v) for v in visits if id(v) in there and v is not visit))
        return peak

    def limits(self):
        struck = [down for down in self.downs if down.serves and down.what != STILL]
        excused = sum(1 for v in self.failed_open
                      if not any(down.touches(v.asked, v.answered) for down in struck))
        self.test.say(f"{excused} sessions are left out only because {STILL}")
        asked = [v for v in self.inside if v not in self.failed_open]
        before, peaks = len(self.wrong), {}
        for name, (numbers, limit, client) in CLASSES.items():
            mine = [v for v in asked if class_of(v.address) == name]
            peaks[name] = f"{self.overlap(mine, limit, name)} of {limit}"
            for number in numbers if client else ():
                one = [v for v in mine if v.address == f"{NET}{number}"]
                self.overlap(one, client, f"{name} {NET}{number}")
        self.test.check(len(self.wrong) == before, "no class, and no client, ever held more "
                        f"than its limit: peaks {peaks}")

    # refusals

    def free_since(self, visit):
        """Since when there was a place at the time of this refusal; None: none.  Who
        was let in may have been so as soon as it asked."""
        name = class_of(visit.address)
        _, limit, client = CLASSES[name]
        since = self.begin
        for mine, most in ((lambda v: class_of(v.address) == name, limit),
                           (lambda v: v.address == visit.address, client)):
            if most is None:
                continue
            there = [v for v in self.inside if mine(v) and v.asked < visit.answered]
            count = sum(1 for v in there if v.let_go() > visit.answered)
            if count >= most:
                return None
            # Back through the ends, which are places that became free.
            for moment, change in sorted(
                    [(v.let_go(), 1) for v in there if v.let_go() <= visit.answered]
                    + [(v.asked, -1) for v in there], reverse=True):
                count += change
                if count >= most:
                    since = max(since, moment)
                    break
        return since

    def refusals(self):
        refused = [v for v in self.visits if v.code == 421]
        before, worst, worst_visit = len(self.wrong), 0.0, None
        for visit in refused:
            since = self.free_since(visit)
            if since is None:
                continue
            since = max([since] + [down.end for down in self.downs
                                   if down.begin <= visit.answered])
            if self.while_down(visit.asked, visit.answered):
                continue
            free = visit.answered - since
            if free > worst:
                worst, worst_visit = free, visit
            if free > LONG:
                self.say(f"refused with a place free for {free:.3f} s: {self.tell(visit)}")
        if worst_visit:
            self.test.say(f"the longest: {self.tell(worst_visit)}")
        self.test.check(len(self.wrong) == before, f"{len(refused)} were refused, with a place "
                        f"free for {worst * 1000:.0f} ms at the worst")

    # the table

    def counted(self):
        """Every look at the table: each session that did not fail open is there, and
        none that has been over for a second."""
        before, seen, worst = len(self.wrong), 0, 0.0
        by_key, open_then = {}, {id(visit) for visit in self.failed_open}
        for visit in self.inside:
            by_key.setdefault((visit.address, visit.port), []).append(visit)
        for look in self.looks:
            for visit in self.inside:
                if id(visit) in open_then or visit.answered > look.begin \
                        or visit.lasts() < look.end:
                    continue
                seen += 1
                if (visit.address, visit.port) not in look.there:
                    self.say(f"not in the table at {look.begin:.3f}: {self.tell(visit)}")
            if self.while_down(look.begin - LONG, look.end, ("sees",)):
                continue
            for key in look.there & by_key.keys():
                gone = [visit.gone for visit in by_key[key]]
                if None in gone or max(gone) > look.begin:
                    continue
                late = look.begin - max(gone)
                worst = max(worst, late)
                if late > LONG:
                    self.say(f"in the table {late:.3f} s after its end, at {look.begin:.3f}: "
                             f"{self.tell(by_key[key][-1])}")
        self.test.check(len(self.wrong) == before, f"{len(self.looks)} looks at the table: "
                        f"{seen} times a session was there; one that was over for "
                        f"{worst * 1000:.0f} ms at the worst")

    def adopted(self):
        """Those that failed open, in each look from a second after the return on."""
        before, looked = len(self.wrong), set()
        for visit in self.failed_open:
            last = max(down.end for down in self.downs
                       if down.serves and down.touches(visit.asked, visit.answered))
            due = max(last, visit.answered) + LONG
            for look in self.looks:
                if look.begin < due or visit.lasts() < look.end or \
                        self.while_down(due - LONG + 0.001, due):
                    continue
                looked.add(id(visit))
                if (visit.address, visit.port) not in look.there:
                    self.say(f"not adopted at {look.begin:.3f}: {self.tell(visit)}")
        self.test.check(len(self.wrong) == before, f"{len(self.failed_open)} began while a role "
                        f"was down; {len(looked)} of them were there a second after its return, "
                        f"and in the table")

    def write(self, file):
        """For whoever looks for the cause: times as in the log, in seconds of the day."""
        shift = time.time() % 86400 - time.monotonic()
        lines = [(v.asked, f"visit {self.tell(v)}") for v in self.visits]
        lines += [(d.begin, f"down {d.what} until {d.end:.3f}") for d in self.downs]
        lines += [(look.begin, f"look {look.end - look.begin:.3f} {sorted(look.there)}")
                  for look in self.looks]
        file.write_text(f"wall = time here + {shift:.3f} s of the day (UTC)\n" + "".join(
            f"{when:.3f} {text}\n" for when, text in sorted(lines)))

    def figures(self):
        ways = {}
        for visit in self.visits:
            way = visit.way if visit.code == 220 else visit.code
            ways[way] = ways.get(way, 0) + 1
        late = max((v.let_go() - v.closing for v in self.inside if v.closing is not None
                    and v.gone is not None), default=0)
        slow = max((v.answered - v.asked for v in self.visits), default=0)
        self.test.say(f"{len(self.visits)} sessions from {len({v.address for v in self.visits})} "
                      f"addresses, {len(self.inside)} let in: {ways}; slowest greeting "
                      f"{slow:.1f} s, the server let go {late:.1f} s after the client at the "
                      f"worst")
