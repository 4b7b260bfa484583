# SPDX-License-Identifier: ISC
"""Machines of which each has a bad Redis of its own before the real one, where it has a user
and a prefix of its own: so many are tried at the same time."""
import threading
import time
from pathlib import Path

from lib.bad_redis import BadRedis, instead
from lib.cluster import (DRIFT, HERE, LEASE, PASSWORD, PORT, REDIS, Network, Node, Redis, rights,
                         sleep_until)
from lib.cluster_clients import Clients, Verdict
from lib.postern import build_directory
from lib.testing import Failed

LIMIT, STATIC, COUNT = 30, 1, 3
MEMORY_KB = 12288               # more than before, at most
ASAN_KB = 400 << 10             # the same, where what is freed is kept
REAL = (REDIS, PORT)
SOON = 6.0                      # until it is tried again, and told


def memory_kb(pid):
    with open(f"/proc/{pid}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))


def is_sanitized():
    return b"__asan_init" in (build_directory() / "posternd").read_bytes()


class Tried:
    """A machine, and its bad Redis."""

    def __init__(self, world, number):
        self.test, self.redis, self.name = world.test, world.redis, f"mx{number}"
        self.user, self.prefix = f"postern{number}", f"p{number}:"
        self.to = (HERE, PORT + number) if number > 1 else world.test.directory / "bad-redis"
        self.bad = BadRedis(world.test, self.to, relay=REAL)
        address = f"inet:{HERE}:{PORT + number}" if number > 1 else f"unix:{self.to}"
        self.node = Node(world.test, world.network, self.name, LIMIT, redis=address, nodes=3,
                         user=self.user, prefix=self.prefix)
        self.node.start(wait=False)
        self.failures = []

    def row(self):
        return self.node.cluster_row()

    def joined(self):
        return self.row()["state"] == "joined"

    def errors(self, word=None):
        """How many were counted: all, or of this kind."""
        errors = self.row()["errors"]
        return sum(errors.values()) if word is None else errors[word]

    def told(self):
        return sum(" event=cluster-failed " in line for line in self.node.log_text().splitlines())

    def expect(self, condition, limit, what):
        waited = self.test.poll(condition, limit)
        if waited is None:
            row = self.row()
            self.failures.append(f"{self.name}, {what}: not within {limit} s: "
                                 f"{row['state']} {row['error']} {row['error_text']}")
        return waited

    def has_joined(self, what):
        return self.expect(self.joined, LEASE + DRIFT + SOON, f"{what}: joined") is not None

    # What is tried

    def stranger(self, name, does):
        self.bad.become(relay=REAL)
        if not self.has_joined(f"before {name}"):
            return
        errors, told, again = self.errors(), self.told(), self.bad.connections
        self.bad.become(does)
        self.expect(lambda: self.errors() > errors, SOON, f"{name}: counted")
        self.expect(lambda: self.bad.connections > again + 1, SOON, f"{name}: tried again")
        if not 1 <= self.told() - told <= 3:
            self.failures.append(f"{self.name}, {name}: told {self.told() - told} times")

    def answer(self, name, reply):
        """A real one, of which scripts say this."""
        self.bad.become(relay=REAL)
        if self.has_joined(f"before {name}"):
            errors = self.errors()
            self.bad.edit = instead(b"EVALSHA", reply)
            self.expect(lambda: self.errors() > errors, SOON, f"answers {name}: counted")

    def refused(self, name, error, do, undo, text=""):
        """Something that people have to mend is done to the real one, and undone."""
        if not self.has_joined(f"before {name}"):
            return
        errors, told = self.errors(error), self.told()
        do()
        self.expect(lambda: self.errors(error) > errors and text in self.row()["error_text"], SOON,
                    f"{name}: counted as {error}, told with {text}")
        if not 1 <= self.told() - told <= 3:
            self.failures.append(f"{self.name}, {name}: told {self.told() - told} times")
        undo()

    def permission(self, command, _):
        def take_away():
            self.redis.ask("ACL", "SETUSER", self.user, f"-{command}")
            self.bad.drop()             # scripts are loaded when it connects
        self.refused(f"without {command}", "permission", take_away,
                     lambda: self.redis.ask("ACL", "SETUSER", self.user, f"+{command}"))

    def password(self, words, right):
        def tell(*words):
            self.redis.ask("ACL", "SETUSER", self.user, *words)
            self.bad.drop()
        self.refused(f"user {' '.join(words)}", "password", lambda: tell(*words),
                     lambda: tell(*right))

    def foreign(self, key, kind):
        """Another program's in the place of ours."""
        key = self.prefix + key

        def put():
            self.redis.ask("DEL", key)
            self.redis.ask(*(("LPUSH", key, "mine") if kind == "list" else ("SET", key, "mine")
                             if kind == "text" else ("HSET", key, "mine", "all mine")))
        self.refused(f"{key} as {kind} of others", "foreign", put,
                     lambda: self.redis.ask("DEL", key), f"another program uses the key {key}: expected")

    def newer(self, number, error):
        key = f"{self.prefix}schema"
        self.refused(f"schema {number}", error, lambda: self.redis.ask("SET", key, number),
                     lambda: self.redis.ask("DEL", key), f"the key {key}")

    def another_user(self):
        """By a reload: root reads the password once more, for a new process."""
        before = self.node.roles()["cluster.0"]
        self.redis.ask("ACL", "SETUSER", *rights(f"{self.user}x", self.prefix).split()[1:])
        self.node.write(user=f"{self.user}x")
        self.node.ask("reload")
        self.redis.ask("ACL", "DELUSER", self.user)
        self.user += "x"
        self.test.within(LEASE + SOON, lambda: self.node.roles().get("cluster.0", before) != before
                         and self.joined(), f"{self.name}: another user")


class World:
    def __init__(self, test):
        self.test = test
        names = [f"mx{number}" for number in range(1, COUNT + 1)]
        self.network = Network(test, {"redis": REDIS, **{
            name: f"10.77.0.{number}" for number, name in enumerate(names, 1)}})
        self.redis = Redis(test, self.network, acl="\n".join(
            rights(f"postern{number}", f"p{number}:") for number in range(1, COUNT + 1)))
        self.redis.start()
        self.tried = [Tried(self, number) for number in range(1, COUNT + 1)]
        for one in self.tried:
            test.wait_for(one.node.ready, "the machines are ready")
        self.all_joined("at first")
        self.roles = {one.name: one.node.roles() for one in self.tried}
        self.before_kb = self.most_kb()
        self.clients = Clients(test, {one.name: one.node.policy for one in self.tried}, test.seed)
        self.clients.demand(**{one.name: 15 for one in self.tried})
        self.begin = time.monotonic()

    def all_joined(self, what):
        self.test.within(LEASE + DRIFT + SOON, lambda: all(one.joined() for one in self.tried),
                         f"{what}: all have joined")

    def most_kb(self):
        return max(memory_kb(one.node.roles()["cluster.0"]) for one in self.tried)

    def each(self, what, attempt, cases):
        """Cases are dealt out."""
        begin = time.monotonic()

        def run(one, mine):
            try:
                for case in mine:
                    getattr(one, attempt)(*case)
            except (Failed, OSError, KeyError) as why:
                one.failures.append(f"{one.name}: {why!r}")
        threads = [threading.Thread(target=run, args=(one, cases[number::COUNT]))
                   for number, one in enumerate(self.tried)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.test.say(f"{what}: {len(cases)} in {time.monotonic() - begin:.1f} s")
        failures = [text for one in self.tried for text in one.failures]
        for one in self.tried:
            one.failures = []
        self.test.check(not failures, f"{what}: each is told, counted, and tried again"
                        + "".join(f"\n     {text}" for text in failures))
        self.test.equal({one.name: one.node.roles() for one in self.tried}, self.roles,
                        f"{what}: no process ended")
        more = self.most_kb() - self.before_kb
        self.test.check(more <= (ASAN_KB if is_sanitized() else MEMORY_KB),
                        f"{what}: {more} kB of memory more at most")

    def back(self, what):
        for one in self.tried:
            one.bad.become(relay=REAL)
        self.all_joined(what)

    def silence(self):
        """For some time, longer than the lease."""
        for one in self.tried:
            one.bad.become()
        begin = time.monotonic() + LEASE
        sleep_until(begin + 1.5)
        self.judge(begin)
        for one in self.tried:
            self.test.equal(one.row()["state"], "without", f"{one.name}: goes on without")
        self.back("a real one again")

    def judge(self, begin=None):
        """Nobody above the whole; above its own part, where all were without from `begin` on."""
        verdict = Verdict(self.clients, limit=LIMIT, lease=LEASE)
        for one in self.tried:
            above = verdict.admitted_above(one.name, begin or self.begin, verdict.last,
                                           STATIC if begin else LIMIT)
            self.test.check(not above, f"{one.name}: none above {STATIC if begin else LIMIT}")
            told = [one.node.log_text(), str(one.row())]
            for pid in one.node.pids():
                told += [Path(f"/proc/{pid}/{file}").read_text(errors="replace")
                         for file in ("cmdline", "environ")]
            self.test.check(not any(PASSWORD in text for text in told),
                            f"{one.name}: the password is told nowhere")
            gap = verdict.longest_gap(begin or self.begin, verdict.last, one.name)
            self.test.check(gap < 4.0, f"{one.name}: mail flows, the longest gap {gap:.1f} s")
