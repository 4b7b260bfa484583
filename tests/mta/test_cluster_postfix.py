#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""Three machines with a Postfix each share a class limit, which SMTP clients count."""
from lib.cluster import Cluster
from lib.cluster_clients import LEAST, Clients, Verdict, judge_law, judge_phase
from lib.cluster_postfix import postfix_on_each
from lib.postfix import conf_service
from lib.testing import main

LIMIT, PORT = 30, 2025
PROPORTIONS = ((15, 15, 15), (30, 2, 10))


def body(test):
    cluster = Cluster(test, limit=LIMIT, start=False)
    postfix_on_each(cluster, [conf_service("postfix-both.master.cf", PORT)], PORT)
    clients = Clients(test, {node.name: (cluster.network.names[node.name], PORT)
                             for node in cluster.all()}, test.seed, stay=(0.6, 1.6))
    demands = [dict(zip(cluster.nodes, wanted)) for wanted in PROPORTIONS]
    clients.demand(**demands[0])
    test.wait_for(lambda: clients.open() >= LEAST, "the limit is used")
    phases = [clients.phase(wanted) for wanted in demands]
    verdict = Verdict(clients, limit=LIMIT, lease=2)
    for wanted, begin in phases:
        judge_phase(test, verdict, wanted, begin, window=0.5)
    clients.quiet()
    judge_law(test, Verdict(clients, limit=LIMIT, lease=2), phases[0][1])
    test.equal(clients.strange, [], "every answer was 220 or 421")


main(body, seconds=60)
