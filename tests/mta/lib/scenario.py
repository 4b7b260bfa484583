# SPDX-License-Identifier: ISC
"""What must hold at every attachment: a class never holds more than its limit,
and forgets each session within a second of its end."""
import random
import re
import socket

from lib.smtp import LEAVE, Herd, Session, admitted, open_sessions


def sources(count, net="127.0.1"):
    return [f"{net}.{number}" for number in range(1, count + 1)]


def refused_and_disconnected(sessions):
    return all(session.code == 421 and session.ended() for session in sessions)


def fills(test, postern, to, name, limit, net="127.0.1", clients=None):
    """More clients than the limit at once; then each way of leaving."""
    sessions = open_sessions(to, clients or sources(limit + 6, net))
    inside = admitted(sessions)
    outside = [session for session in sessions if session not in inside]
    test.equal(len(inside), limit, f"{name}: exactly {limit} of {len(sessions)} read 220")
    test.check(refused_and_disconnected(outside),
               f"{name}: the other {len(outside)} read 421 and are disconnected")
    row = postern.classes()[name]
    test.equal((row["open"], row["open_inbound"], row["peak"]), (limit, limit, limit),
               f"{name}: {limit} open, in the count and at its peak")
    test.check(row["refused"] >= len(outside), f"{name}: refusals are counted")
    if outside:
        test.say(f"421 {outside[0].text}")
    inside.pop().quit()
    test.within(1.0, lambda: postern.open(name) == limit - 1, f"{name}: one place is free")
    again = open_sessions(to, sources(3, net) if clients is None else clients[:3])
    test.equal(len(admitted(again)), 1, f"{name}: one of three more is let in")
    leave_all(admitted(again) + inside)
    test.within(1.0, lambda: postern.open(name) == 0, f"{name}: 0 after all have left")


def leave_all(sessions):
    for number, session in enumerate(sessions):
        LEAVE[number % len(LEAVE)](session)


def flash(to, source):
    """Connects and resets before anybody has accepted."""
    one = socket.socket(socket.AF_INET6 if ":" in to[0] else socket.AF_INET)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    one.bind((source, 0))
    one.connect(to)
    one.close()


class Crowd:
    """Clients that come and go at random, against a model of how many are in."""

    def __init__(self, test, postern, to, name, limit):
        self.test, self.postern, self.to = test, postern, to
        self.name, self.limit = name, limit
        self.random = random.Random(test.seed)
        self.holders, self.herds = [], []
        self.waited = []
        self.refused, self.let_in, self.flashes = 0, 0, 0

    def held(self):
        return len(self.holders) + sum(herd.count for herd in self.herds)

    def depart(self):
        self.random.shuffle(self.holders)
        for _ in range(self.random.randint(0, len(self.holders))):
            self.random.choice(LEAVE)(self.holders.pop())
        while self.herds and self.random.random() < 0.5:
            self.herds.pop().kill()
        self.flashes = self.random.choice((0, 0, 1, 3))
        for _ in range(self.flashes):
            flash(self.to, self.random.choice(sources(20)))

    def settle(self):
        held = self.held()
        waited = self.test.poll(lambda: self.postern.open(self.name) == held, 10.0)
        if waited is None:
            return self.test.check(False, f"{held} hold a session, {self.name} counts "
                                          f"{self.postern.open(self.name)} after 10 s")
        self.waited.append(waited)
        return True

    def arrive(self):
        free = self.limit - self.held()
        came = [self.random.choice(sources(20))
                for _ in range(self.random.randint(1, self.limit + 4))]
        herd = came[:3] if self.random.random() < 0.3 else []
        if herd:
            self.herds.append(Herd(self.test, self.to, herd))
        sessions = open_sessions(self.to, came[len(herd):])
        outside = [session for session in sessions if session.code != 220]
        self.holders += admitted(sessions)
        count = len(came) - len(outside) - (len(herd) - self.herds[-1].count if herd else 0)
        if self.flashes and refused_and_disconnected(outside):
            # The server may still have been busy with a client that was gone.
            count += self.come_again(min(free, len(came)) - count)
        self.let_in += count
        self.refused += len(came) - count
        return (count == min(free, len(came)) and refused_and_disconnected(outside)
                or self.test.check(False, f"{len(came)} came to {free} free places, {count} "
                                          f"were let in: {sorted(s.code for s in sessions)}"))

    def come_again(self, places):
        before = len(self.holders)

        def filled():
            self.holders += admitted(open_sessions(self.to, sources(
                places - (len(self.holders) - before))))
            return len(self.holders) - before >= places
        self.test.poll(filled, 6.0)
        return len(self.holders) - before

    def run(self, rounds):
        good = 0
        for _ in range(rounds):
            self.depart()
            good += self.settle() and self.arrive()
        leave_all(self.holders)
        for herd in self.herds:
            herd.kill()
        self.holders, self.herds = [], []
        self.settle()
        self.test.equal(good, rounds, f"{self.name}: {rounds} rounds of random arrivals, drops, "
                                      f"resets and killed clients")
        self.test.at_most(1.0, self.waited, f"{self.name}: let in {self.let_in}, refused "
                          f"{self.refused}; counters are right")
        self.test.equal(self.postern.open(self.name), 0, f"{self.name}: 0 at the end")


def whole(test, postern, to, name, limit):
    """All of it; the long form with --rounds."""
    fills(test, postern, to, name, limit)
    Crowd(test, postern, to, name, limit).run(test.rounds or 4)


def reads_as_explained(test, postern, to, name, limit, way, of=None):
    """Who is refused reads what explain session said that he would; `way`: policy, milter;
    `of`: which mail server's words of several."""
    held = open_sessions(to, ["127.0.8.1"] * limit)
    test.wait_for(lambda: postern.open(name) == limit, "the class is full")
    told = postern.ask("explain", "session", "127.0.8.1", "--port", to[1])
    said = told[f"client_reads_{way}"]
    if of:
        said = next(part for part in said.split("; ") if f" ({of})" in part).replace(f" ({of})", "")
    refused = Session(to, "127.0.8.1")
    plain = [re.sub(r" \((id=)?[0-9A-Za-z-]+\)$", "", text)
             for text in (said, f"{refused.code} {refused.text}")]
    test.check(re.fullmatch(re.escape(plain[0]).replace("HOST", r"[\w.-]+"), plain[1]),
               f"the client reads what explain says: {refused.code} {refused.text}")
    if plain[0] != plain[1]:
        test.say(f"explain: {said}")
    leave_all(held)
    test.wait_for(lambda: postern.open(name) == 0, "all have left")
