#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""A machine whose table of destinations is too small for what another one holds: it says so,
once, a command by hand says what to do, and what there is room for at last is held."""
import os
import signal

from lib.cluster import PREFIX, Cluster
from lib.postern import substitute
from lib.testing import main

NAMES = [f"n{number}.example" for number in range(100)]
KEPT = 6                        # that fit wherever they belong


def held(node):
    return {row["name"] for row in node.ask("destinations") if row["state"] == "held"}


def lines(node, *words):
    return [line for line in node.log_text().splitlines() if all(word in line for word in words)]


def too_many(test, large, small):
    for name in NAMES:
        large.ask("hold", name)
    test.wait_for(lambda: small.cluster_row()["unplaced"] + len(held(small)) == len(NAMES),
                  "all were told")
    test.check(len(held(small)) < len(NAMES), "some have no place")
    test.wait_for(lambda: lines(small, "event=cluster-failed", "state.destinations"),
                  "the log says so, and names the setting")
    test.equal(large.cluster_row()["unplaced"], 0, "there all have one")


def by_hand(test, large, small):
    """Neither held here, nor told to anybody."""
    away = sorted(set(NAMES) - held(small))[0]
    for verb in ("hold", "resume"):
        answer = small.command(verb, away)
        test.check(answer.returncode == 75 and "state.destinations" in answer.stderr and
                   "or on other nodes" in answer.stderr, f"{verb}: {answer.stderr}")
    test.check(away in held(large), "it is held there as it was")


def another_role(test, small):
    """It counts anew: that is no news."""
    pid, count = small.roles()["cluster.0"], small.cluster_row()["unplaced"]
    os.kill(pid, signal.SIGKILL)
    test.wait_for(lambda: small.roles().get("cluster.0", pid) != pid, "another role")
    test.wait_for(lambda: small.cluster_row()["state"] == "joined" and
                  small.cluster_row()["compared"] is not None, "it has compared all")
    test.wait_for(lambda: small.cluster_row()["unplaced"] == count, "it counts as many")
    test.equal(len(lines(small, "unplaced=")), 1, "no further line")


def room(test, cluster, large, small):
    here = held(small)
    kept = set(sorted(set(NAMES) - here)[:KEPT])
    for name in set(NAMES) - kept:
        large.ask("resume", name)
    test.wait_for(lambda: not held(small) & here, "the others are resumed")
    # a number that is missing: it compares now, and not only after a minute
    cluster.redis.ask("INCR", f"{PREFIX}1:dv")
    large.ask("hold", "after.example")
    test.wait_for(lambda: held(small) == kept | {"after.example"}, "they are held after all")
    test.wait_for(lambda: lines(small, "event=cluster ", "unplaced=0"), "the log says so")
    test.wait_for(lambda: small.cluster_row()["unplaced"] == 0, "all have a place")
    test.equal(len(lines(small, "unplaced=")), 2, "two lines in all")


def body(test):
    test.deaths_expected = True         # of a role that is killed
    cluster = Cluster(test, names=("mx1", "mx2"), start=False)
    large, small = cluster.all()
    small.more = lambda text: substitute(text, 'sessions = "64k"; }',
                                         'sessions = "64k"; destinations = 64; }')
    small.write()
    cluster.start()
    for node in (large, small):
        test.wait_for(lambda node=node: node.cluster_row()["state"] == "joined", "it has joined")
    too_many(test, large, small)
    by_hand(test, large, small)
    another_role(test, small)
    room(test, cluster, large, small)


main(body, seconds=60)
