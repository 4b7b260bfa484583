#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""Two machines with a Postfix and one with a Sendmail: a destination that dies for one of them
is held by the others without failures of their own, and resumed for all; one that takes two
connections gets two from all three together."""
import time

from lib.cluster import Cluster
from lib.cluster_leaving import (LeavingPostfix, LeavingSendmail, add_addresses, leave_from,
                                 state)
from lib.limiter import Limiter
from lib.outbound import REMOTE
from lib.sendmail import find_root
from lib.testing import main

HOSTS = {"10.77.0.201": "limited.example", "10.77.0.202": "gone.example"}
SETTINGS = """window = { suspend = "10m"; canary_most = "10m"; };
destinations = (
    { match = [ "limited.example" ];
      window = { destination_concurrency_limit = 2; scope = "cluster"; }; } );
"""
SOON = 1.0
NARROW = ("OK lane1:", "OK lane2:", "OK retry:")
MESSAGES = 12                   # of each machine


def seen(test, gone, *leavings):
    """A delivery: then its mail has hints."""
    for one in leavings:
        one.send("gone.example", 1, user="seen")
    test.wait_for(lambda: gone.count("gone.example") == len(leavings), "the first deliveries")
    for one in leavings:
        test.wait_for(lambda one=one: one.node.ask("explain", "destination", "gone.example")[
            "doubt"] == "none", f"{one.node.name} has lanes for it")


def dead(test, cluster, first, second, third):
    """It dies for the first; the others hold without trying."""
    gone = Limiter(test, ["10.77.0.202"], REMOTE, seconds=0.05)
    seen(test, gone, first, third)
    # mail that goes by one that is kept is taken still, and then the site is full, not dead
    test.wait_for(lambda: gone.open == 0, "no connection is kept any more")
    gone.down()
    tried = third.tried("gone.example")
    first.send("gone.example", 20, user="dead")
    test.wait_for(lambda: state(first.node, "gone.example").get("state") == "dead",
                  "it is dead for one")
    for node in cluster.all():
        test.within(SOON, lambda node=node: state(node, "gone.example").get("state") == "dead",
                    f"dead for {node.name}")
    test.equal(state(third.node, "gone.example")["node"], first.node.name, "by whose word")
    test.check(state(second.node, "gone.example")["reason"].startswith(f"{first.node.name}: "),
               "in the reason, too")
    test.within(SOON, lambda: third.lookup_says("u@gone.example").startswith(
        "OK retry:4.7.1 Postern: gone.example is suspended"), "the other Postfix is told")
    third.send("gone.example", 5, user="late")
    second.send("gone.example", 1)
    second.run_once()
    test.equal(second.sendmail.queued(), 1, "Sendmail keeps its own")
    test.wait_for(lambda: third.postfix.log_text().count("gone.example is suspended") >= 5,
                  "and Postfix, too")
    test.equal(third.tried("gone.example"), tried, "none of them was tried")
    gone.up()
    second.node.ask("resume", "gone.example")
    for node in cluster.all():
        test.within(SOON, lambda node=node: state(node, "gone.example").get("state") not in
                    ("dead", "held"), f"resumed for {node.name}")

    def all_gone():
        second.push()
        return gone.count("gone.example") >= 2 + 20 + 5 + 1
    test.wait_for(all_gone, "all of it is delivered", limit=30)


NAMES = ("ann", "bob", "cid")   # before or behind them smtp-source puts a number


def limited(test, cluster, *leavings):
    """Two connections at most, whoever sends: as all have it in their files."""
    sink = Limiter(test, ["10.77.0.201"], REMOTE, seconds=0.1)
    for one in leavings[::2]:
        one.send("limited.example", 1, user="seen")
    test.wait_for(lambda: sink.count("limited.example") == 2, "the first deliveries")
    for one in leavings[::2]:
        test.wait_for(lambda one=one: one.lookup_says("u@limited.example").startswith(NARROW),
                      "by one connection, or not at all")
    test.wait_for(lambda: sink.open == 0, "what ran has ended")
    sink.clear()
    began = other = time.monotonic()
    for number, one in enumerate(leavings):
        one.send("limited.example", MESSAGES, user=NAMES[number])

    def all_there():
        nonlocal other
        leavings[1].push()
        # a queue manager that does nothing else remembers for 30 s what it was told of the
        # last address
        if time.monotonic() - other > 2:
            other = time.monotonic()
            for one in leavings[::2]:
                one.send("gone.example", 1, user="other")
        return sink.count("limited.example") >= 2 + 3 * MESSAGES
    waited = test.wait_for(all_there, "all of it is delivered", limit=100)
    firsts = [min(when for name, when in sink.delivered if NAMES[number] in name) - began
              for number in range(3)]
    test.say(f"{3 * MESSAGES} messages in {waited:.1f} s, the first of each machine after " +
             ", ".join(f"{first:.1f}" for first in firsts) +
             f" s, {sink.most} connections at most")
    test.check(sink.most <= 2, f"never more than 2 connections: {sink.most}")


def body(test):
    cluster = Cluster(test, limit=3000, start=False)
    add_addresses(cluster.network, HOSTS)
    leavings = leave_from(cluster, (LeavingPostfix, LeavingSendmail, LeavingPostfix), SETTINGS)
    dead(test, cluster, *leavings)
    limited(test, cluster, *leavings)


main(body, hosts=HOSTS, seconds=170, before=find_root)
