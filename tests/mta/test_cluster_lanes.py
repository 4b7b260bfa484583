#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""A machine of three whose mta came by a reload.  Its mail for a destination with a ceiling
waits in the lane of the static part, and as none of it was ever kept nobody asks for it: the
share grows all the same, and mail that comes then goes by more."""
from lib.cluster import Cluster
from lib.cluster_leaving import LeavingPostfix, add_addresses, state
from lib.limiter import Limiter
from lib.outbound import REMOTE
from lib.testing import main

HOSTS = {"10.77.0.201": "e.example", "10.77.0.202": "warm.example"}
CEILING, STATIC, LEASED = 12, 1, 9      # of three machines, none of which gives up its 1


def body(test):
    cluster = Cluster(test, ("mx1",), limit=3000, start=False)
    add_addresses(cluster.network, HOSTS)
    node, = cluster.all()
    cluster.start()
    leaving = LeavingPostfix(cluster, node)
    node.ask("reload")
    test.wait_for(node.ready, "the feed is there, too")
    leaving.start()
    test.wait_for(lambda: node.cluster_row()["state"] == "joined", "it has joined")
    sink = Limiter(test, list(HOSTS), REMOTE, seconds=0.3)
    leaving.send("warm.example", 1)     # else the first message waits for a process of the lane
    test.wait_for(lambda: sink.count("warm.example") == 1, "the lane has a process")
    leaving.send("e.example", 1, user="seen")
    test.wait_for(lambda: node.ask("explain", "destination", "e.example")["doubt"] == "none",
                  "its mail was seen, its window has lanes")
    node.ask("limit", "e.example", "--ceiling", CEILING)
    test.wait_for(lambda: leaving.lookup_says("u@e.example").startswith("OK lane1:"),
                  "by what it has for good")
    test.equal(state(node, "e.example")["share"], STATIC, "its share")
    leaving.send("e.example", 12)
    waited = test.wait_for(lambda: state(node, "e.example")["share"] == STATIC + LEASED,
                           "its share grows as mail waits in the lane")
    test.check("status=deferred" not in leaving.postfix.log_text(), "none of it was kept")
    test.wait_for(lambda: not leaving.lookup_says("u@e.example").startswith("OK lane1:"),
                  "other lanes are told")
    leaving.send("e.example", 20, user="late")
    test.wait_for(lambda: sink.count("e.example") == 1 + 12 + 20, "all of it is delivered")
    test.say(f"more was had after {waited:.1f} s, {sink.most} connections at most")
    test.check(STATIC < sink.most <= STATIC + LEASED, f"connections at once: {sink.most}")


main(body, hosts=HOSTS, seconds=90)
