#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""Two machines with a Postfix, and a third: above a ceiling that they share one delivery is tried
at a time, by one of them; when it is accepted the ceiling rises for all."""
from lib.cluster import Cluster
from lib.cluster_leaving import LeavingPostfix, add_addresses, leave_from, state
from lib.limiter import Limiter, is_leaving
from lib.outbound import REMOTE
from lib.testing import main

HOSTS = {"10.77.0.201": "probed.example"}
SETTINGS = 'window = { canary = "500ms"; canary_most = "500ms"; };\n'
SOON = 1.0


class Counting(Limiter):
    """Knows of those that it refuses, too."""

    def __init__(self, *arguments, **more):
        self.all, self.most_there = set(), 0
        super().__init__(*arguments, **more)

    def serve(self, sock):
        with self.lock:
            self.all.add(sock)
            self.most_there = max(self.most_there,
                                  sum(not is_leaving(one) for one in self.all))
        try:
            super().serve(sock)
        finally:
            with self.lock:
                self.all.discard(sock)


class Supply:
    """As much mail as it takes to keep lanes full."""

    def __init__(self, sink, leavings):
        self.sink, self.leavings, self.given = sink, leavings, sink.count("probed.example")

    def fill(self):
        done = self.sink.count("probed.example") + self.sink.refused
        if self.given - done < 60:
            for one in self.leavings:
                one.send("probed.example", 40, user="p")
            self.given += 40 * len(self.leavings)


def probed(test, cluster, *leavings):
    """It takes four, and is asked for a fifth now and then: by one of all machines."""
    sink = Counting(test, ["10.77.0.201"], REMOTE, limit=4, seconds=0.2)
    for number, one in enumerate(leavings, 1):
        one.send("probed.example", 1, user="seen")
        test.wait_for(lambda: sink.count("probed.example") == number, "the first deliveries")
    leavings[0].node.ask("limit", "probed.example", "--ceiling", 4)
    for node in cluster.all():
        test.within(SOON, lambda node=node: state(node, "probed.example").get("ceiling") == 4,
                    f"a ceiling for {node.name}")
    # else Postfix remembers that it may go as without us
    for one in leavings:
        test.wait_for(lambda one=one: one.lookup_says("u@probed.example").startswith(
            ("OK lane", "OK retry:")), f"{one.node.name} gives it to lanes")

    def each_has_places():
        for one in leavings:
            one.send("probed.example", 2, user="warm")
        return all(one.lookup_says("u@probed.example").startswith("OK lane") for one in leavings)
    test.wait_for(each_has_places, "each has places for it")
    sink.clear()
    sink.most_there = 0
    supply = Supply(sink, leavings)

    def refused():
        supply.fill()
        return sink.refused > 0
    waited = test.wait_for(refused, "more was tried", limit=40)
    test.say(f"more than 4 tried after {waited:.1f} s, {sink.most_there} at once")
    test.equal(state(cluster.all()[2], "probed.example")["ceiling"], 4, "the ceiling stands")
    test.check(sink.most_there <= 5, f"one at a time in all of the cluster: {sink.most_there}")
    sink.limit = 5

    def risen():
        supply.fill()
        return any(state(one.node, "probed.example").get("ceiling") == 5 for one in leavings)
    waited = test.wait_for(risen, "one was accepted", limit=40)
    for node in cluster.all():
        test.within(SOON, lambda node=node: state(node, "probed.example").get("ceiling") == 5,
                    f"the ceiling has risen for {node.name}")
    test.say(f"5 after {waited:.1f} s, {sink.most_there} at once")
    test.check(sink.most_there <= 6, f"and one more than that: {sink.most_there}")


def body(test):
    cluster = Cluster(test, limit=3000, start=False)
    add_addresses(cluster.network, HOSTS)
    probed(test, cluster, *leave_from(cluster, (LeavingPostfix, LeavingPostfix), SETTINGS))


main(body, hosts=HOSTS, seconds=120)
