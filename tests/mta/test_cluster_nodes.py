#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""Three machines that share a limit, of which one is lost with all its memory, one is cut off
from Redis and comes back, and one is stopped for longer than its lease and goes on: nobody
admits on a share that has ended, what was theirs is the others' within the lease, and mail
flows all the time.  --rounds: so many of these events, by chance."""
import time

from lib.cluster import DRIFT, LEASE, Cluster, sleep_until
from lib.cluster_clients import LEAST, Clients, Fault, Verdict, judge_law
from lib.testing import main

LIMIT = 30
STATIC = 1                      # of each machine, with Redis or without: 10 % of 30 by three
SOON = 1.0                      # for turns, calls and clients that come again
WANTED = 20                     # at each


class World:
    def __init__(self, test):
        self.test = test
        self.cluster = Cluster(test, limit=LIMIT)
        self.nodes = self.cluster.nodes
        paths = {node.name: node.policy for node in self.cluster.all()}
        self.clients = Clients(test, paths, test.seed)
        # they stay until they are told to go
        self.guests = Clients(test, paths, test.seed + 1, stay=(600, 600))
        self.faults = []
        self.below = []                 # (node, begin, end): no more there than the static part
        self.clients.demand(**dict.fromkeys(self.nodes, WANTED))
        test.wait_for(lambda: self.clients.open() >= LEAST, "the limit is used")
        self.begin = time.monotonic()

    def others(self, name):
        return sum(self.clients.open(other) + self.guests.open(other)
                   for other in self.nodes if other != name)

    def taken_over(self, name, what):
        """What was that machine's, but for its static part."""
        self.test.within(LEASE + DRIFT + SOON, lambda: self.others(name) >= LEAST,
                         f"{what}: its share is used by the others")

    def has_again(self, name, what, least=5, limit=LEASE + SOON):
        self.test.within(limit, lambda: self.clients.open(name) >= least,
                         f"{what}: it has its part again")

    def lose(self, name):
        node = self.nodes[name]
        begin = time.monotonic()
        node.lose()
        self.faults.append(Fault((name,), begin, time.monotonic()))
        self.taken_over(name, f"{name} is lost")
        node.start(wait=False)
        self.has_again(name, f"{name} is there anew")

    def die(self, name):
        """Killed, and started at once: its segment is there, it is the same machine."""
        node = self.nodes[name]
        node.kill()
        node.start(wait=False)
        self.has_again(name, f"{name} is killed and started")

    def is_without(self, name):
        row = self.nodes[name].cluster_row()
        shared = row["classes"][0]
        return (row["state"], shared["share"], shared["share_fixed"]) == \
            ("without", STATIC, STATIC) and row["overhang"] >= 1

    def refusal_names_it(self, name):
        """Not "raise the limit": Redis is away."""
        node = self.nodes[name]

        def last():
            return node.ask("why", node.ask("why")[-1]["id"])
        self.test.wait_for(lambda: last()["lease"] == "ended",
                           f"{name} is cut off: a refusal by its own part")
        why = last()
        self.test.equal([why["cluster_now"], why["undo"], why["undo_before"]],
                        ["without", None, None], "no limit is to be raised")
        self.test.check("posternctl cluster" in why["what"] and "this node's part of cluster.fraction"
                        in why["what"] and why["cluster_error"], "why names the cause")
        explained = node.ask("explain", "session", "--port", node.ports[0], "192.0.2.1")
        self.test.equal([explained["reason"], explained["lease"]], ["class-share", "ended"],
                        "so does explain")

    def cut(self, name):
        network = self.cluster.network
        # others make room for them: who leaves is back before any guest
        self.clients.demand(**{**dict.fromkeys(self.nodes, WANTED), name: 0})
        self.guests.demand(**{name: 3})
        self.test.wait_for(lambda: self.guests.open(name) == 3, "guests that stay")
        self.clients.demand(**dict.fromkeys(self.nodes, WANTED))
        self.has_again(name, f"{name} has guests")
        begin = time.monotonic()
        network.cut(name)
        done = time.monotonic()
        self.faults.append(Fault((name,), begin, done))
        self.test.within(LEASE + SOON, lambda: self.is_without(name),
                         f"{name} is cut off: it knows, and its overhang is shown")
        self.refusal_names_it(name)
        self.taken_over(name, f"{name} is cut off")
        self.guests.go()
        there = self.clients.let_in(name)
        self.test.wait_for(lambda: self.clients.let_in(name) > there + 2,
                           f"{name} is cut off: mail flows by its own part", limit=6.0)
        end = time.monotonic()
        network.mend(name)
        self.below.append((name, done + LEASE, end))
        # it tries each 5 s, give or take a half
        self.has_again(name, f"{name} is back", limit=8.0)

    def freeze(self, name):
        node = self.nodes[name]
        begin = time.monotonic()
        node.freeze()
        self.faults.append(Fault((name,), begin, time.monotonic()))
        self.taken_over(name, f"{name} is stopped")
        sleep_until(begin + LEASE + 0.7)
        node.thaw()
        self.has_again(name, f"{name} goes on")

    def judge(self):
        test, verdict = self.test, Verdict(self.clients, self.guests, limit=LIMIT,
                                          lease=LEASE)
        judge_law(test, verdict, self.begin, self.faults)
        for name, begin, end in self.below:
            found = verdict.admitted_above(name, begin, end, STATIC)
            count = sum(1 for visit in verdict.visits if visit.node == name
                        and begin <= visit.begin <= end)
            test.check(not found, f"{name} without Redis admits no session above its own {STATIC} "
                       f"({count} were)" + "".join(
                           f"; {visit.begin - begin:.2f} s after, with {there} there"
                           for visit, there in found[:5]))
        gap = verdict.longest_gap(self.begin, verdict.last)
        test.check(gap <= 0.5, f"mail flows all the time: no gap above {gap:.2f} s")


def body(test):
    test.deaths_expected = True         # of roles of a machine that was stopped
    world = World(test)
    events = (world.lose, world.cut, world.freeze, world.die)
    for event, name in zip(events, ("mx3", "mx2", "mx1", "mx2")):
        event(name)
    for _ in range(test.rounds):
        test.random.choice(events)(test.random.choice(list(world.nodes)))
    world.judge()


main(body, seconds=80)
