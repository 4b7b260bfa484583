#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""Three machines share a limit through a Redis that is killed and started with its data and
without, that stands still for longer than the lease, and that is slow: never more are open
than the limit and the overhang, mail flows all the time, and all of the limit is used soon
after.  --rounds: so many of these events, by chance."""
import time

from lib.cluster import Cluster, sleep_until
from lib.cluster_clients import LEAST, STAY, Clients, Fault, Verdict, judge_law
from lib.stalls import undisturbed
from lib.testing import main

LIMIT, WANTED = 30, 20
# With the least one, 2 s, a pause would leave a loaded machine no time to renew: a lease is renewed
# each second, and used for 2.15 s.
LEASE = 3
DRIFT = LEASE / 10 + 0.05
PAUSE = 0.5
SOON = 3.0                      # for a new connection, turns, calls, clients that come again
GAP = STAY[1] + 1.5             # without a session that is let in, by each machine's own part


class World:
    def __init__(self, test):
        self.test = test
        self.cluster = Cluster(test, limit=LIMIT, lease=LEASE)
        self.redis = self.cluster.redis
        self.names = list(self.cluster.nodes)
        self.clients = Clients(test, {node.name: node.policy for node in self.cluster.all()},
                               test.seed)
        self.faults, self.full = [], []
        self.clients.demand(**dict.fromkeys(self.names, WANTED))
        test.wait_for(lambda: self.clients.open() >= LEAST, "the limit is used")
        self.begin = time.monotonic()

    def fails(self, begin):
        """Since a moment ago: nobody is granted what was leased before the leases have ended."""
        self.faults.append(Fault(tuple(self.names), begin, time.monotonic(), others=1.0))

    def used_again(self, seconds, what):
        """Until all of it is used again, and each machine has its part."""
        self.test.within(seconds, lambda: self.clients.open() >= LEAST and all(
            self.clients.open(name) >= 5 for name in self.names), f"{what}: all of it is used")

    def tells(self):
        row = self.cluster.nodes["mx1"].cluster_row()
        return row["state"] == "waiting" and "lost its data" in row["wait_text"] \
            and row["wait"] > 0 and row["error"] is None and row["error_text"] is None

    def restart(self, data):
        what = f"Redis is started again {'with' if data else 'without'} its data"
        begin = time.monotonic()
        self.redis.restart(data)
        self.fails(begin)
        self.test.within(SOON, self.tells, f"{what}: it is told why nothing is granted")
        sleep_until(begin + LEASE)      # shares of before hold so long
        self.used_again(DRIFT + SOON, what)

    def with_data(self):
        self.restart(True)

    def without_data(self):
        self.restart(False)

    def evicted(self):
        """It throws away what it has for want of memory, as it must not be told to."""
        begin = time.monotonic()
        self.redis.ask("CONFIG", "SET", "maxmemory-policy", "allkeys-lru", "maxmemory", 1)
        self.test.wait_for(lambda: self.redis.ask("DBSIZE") == 0, "Redis has thrown all away")
        self.redis.ask("CONFIG", "SET", "maxmemory", 0, "maxmemory-policy", "noeviction")
        self.fails(begin)
        sleep_until(begin + LEASE)
        self.used_again(DRIFT + SOON, "Redis has thrown all away")

    def still(self):
        begin = time.monotonic()
        self.redis.stop()
        self.fails(begin)
        sleep_until(begin + LEASE + 1.5)
        self.redis.go_on()
        self.used_again(LEASE + SOON, f"Redis stands still for {LEASE + 1.5} s")

    def settled(self):
        """No places are on their way from one to another."""
        self.test.wait_for(lambda: all(self.clients.open(name) >= LIMIT / 3 - 1
                                       for name in self.names), "each has an equal part")

    def short_pause(self):
        """Below the lease: nothing is lost."""
        def pause():
            self.settled()
            begin = time.monotonic()
            self.redis.ask("CLIENT", "PAUSE", int(PAUSE * 1000), "ALL")
            sleep_until(begin + LEASE)
            return begin + LEASE, begin
        end, begin = undisturbed(self.clients.stalls, pause)
        self.full.append((f"Redis is paused for {PAUSE} s", begin, end))

    def slow(self):
        def slow():
            self.settled()
            begin = time.monotonic()
            self.redis.slow(0.15)
            sleep_until(begin + LEASE + 1.0)
            self.redis.fast()
            return time.monotonic(), begin
        end, begin = undisturbed(self.clients.stalls, slow)
        self.full.append(("Redis is slow", begin, end))

    def judge(self):
        test, verdict = self.test, Verdict(self.clients, limit=LIMIT, lease=LEASE)
        judge_law(test, verdict, self.begin, self.faults)
        for what, begin, end in self.full:
            # the machine may be busy with something else for a moment
            least, at = verdict.fewest(begin, end, window=0.5)
            test.check(least >= LEAST, f"{what}: at least {least} are used all the time"
                       + (f", {at - begin:.2f} s after" if least < LEAST else ""))
        for name in self.names:
            gap = verdict.longest_gap(self.begin, verdict.last, name)
            test.check(gap <= GAP,
                       f"{name} takes mail all the time, the longest gap {gap:.1f} s")


def body(test):
    world = World(test)
    events = (world.with_data, world.short_pause, world.still, world.slow, world.without_data)
    for event in events:
        event()
    for _ in range(test.rounds):
        test.random.choice((*events, world.evicted))()
    world.judge()


main(body, seconds=80)
