#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""Three machines share a class limit through a real Redis, while clients hammer them in
changing proportions: never more are open than the limit, all of it is used where it is
wanted, and every machine with demand gets some; while nobody wants in, each has an equal part,
for a burst.  --rounds: so many more proportions, by
chance."""
from lib.cluster import CLASS, DRIFT, LEASE, PREFIX, Cluster
from lib.cluster_clients import LEAST, SETTLE, Clients, Verdict, judge_law, judge_phase
from lib.stalls import Stalls
from lib.testing import main

LIMIT = 30
# How many want in at each of the three.  Each machine keeps one place for itself.
PROPORTIONS = ((50, 3, 3), (3, 8, 40), (0, 50, 0), (16, 0, 16))


def proportions(test):
    yield from PROPORTIONS
    for _ in range(test.rounds):
        while True:
            wanted = tuple(test.random.choice((0, 1, 3, 10, 30, 60)) for _ in range(3))
            if 30 < sum(wanted) <= 90:
                break
        yield wanted


def share(node):
    return node.classes()[CLASS]["share"]


def burst(test, path):
    """Ten at once, at one of three machines of which none has a session."""
    guests = Clients(test, {"mx2": path}, test.seed, stay=(600, 600))
    guests.demand(mx2=LIMIT // 3)
    test.wait_for(lambda: guests.let_in() == LIMIT // 3, "ten at once at an idle machine are in")
    test.equal(guests.refused, {"mx2": 0}, "none of them was refused")
    guests.go()


def body(test):
    cluster = Cluster(test, limit=LIMIT, start=False)
    stalls = Stalls(test)
    cluster.start()
    names = list(cluster.nodes)
    listener, channel = cluster.redis.client(), f"{PREFIX}1:dn"
    listener.ask("SUBSCRIBE", channel)
    paths = {node.name: node.policy for node in cluster.all()}
    test.within(LEASE + DRIFT + 1.5, lambda: all(share(node) == LIMIT / 3 for node in cluster.all()),
                "a new Redis: after the longest lease each has an equal part of the limit")
    burst(test, paths["mx2"])
    clients = Clients(test, paths, test.seed)
    clients.demand(**dict.fromkeys(names, 20))
    test.within(SETTLE, lambda: clients.open() >= LEAST, "all come: the limit is used")
    for node in cluster.all():
        test.check("state=without" not in node.log_text() or stalls.longer(LEASE / 3),
                   f"{node.name}: who has only waited so far does not complain")
    phases = [clients.phase(dict(zip(names, wanted))) for wanted in proportions(test)]
    verdict = Verdict(clients, limit=LIMIT, lease=LEASE)
    for wanted, begin in phases:
        judge_phase(test, verdict, wanted, begin)
    cluster.redis.ask("PUBLISH", channel, "the end")
    told = set(iter(lambda: listener.reply()[2], b"the end"))
    test.equal(told, {b"short"}, "who lacks places tells it to those who have them")
    clients.quiet()
    judge_law(test, Verdict(clients, limit=LIMIT, lease=LEASE), phases[0][1])
    for node in cluster.all():
        test.wait_for(lambda: node.open_here() == 0, "nothing is left")
        row, extra = node.classes()[CLASS], LIMIT // 3 if node.name == "mx2" else 0
        test.equal(row["admitted"], clients.let_in(node.name) + extra,
                   f"{node.name} counted what its clients counted")
        test.equal(row["refused_share"], clients.refused[node.name],
                   f"{node.name} counted who was refused for want of a share, and nobody else")
    test.equal(clients.strange, [], "every answer was a yes or a 421")


main(body, seconds=60)
