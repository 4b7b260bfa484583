#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""Who may join: a machine too many, a name that another one has, another lease are refused,
and told why; a machine that left is forgotten by hand, and its place is another's; limits
that differ are told, and the lowest counts; a class that leaves the scope leaves its places."""
import os
import signal

from lib.cluster import LEASE, REDIS, Network, Node, Redis
from lib.cluster_clients import Clients
from lib.testing import main

SOON = 4.0


def state(node):
    return node.cluster_row()["state"]


def joined(test, node, what, limit=LEASE + SOON):
    test.within(limit, lambda: state(node) == "joined", f"{what}: joined")


def refused(test, node, error, word, what):
    def told():
        row = node.cluster_row()
        return row["state"] == "refused" and row["error"] == error and word in row["error_text"]
    test.within(SOON, told, f"{what}: refused, as {error}")
    test.say(node.cluster_row()["error_text"])


def differs(node, text):
    row = node.cluster_row()
    return row["differs"] == "all" and text in (row["differs_text"] or "")


def forgets(test, mx1, name, status, outcome, words):
    """What came of it is told, by its exit status and in the log."""
    done = mx1.command("cluster", "forget", name)
    test.check(done.returncode == status and words in done.stderr,
               f"forget {name}: {done.returncode}, {done.stderr.strip()}")
    told = f"event=cluster-forget role=cluster.0 node=mx1 name={name} outcome={outcome} uid=0"
    test.within(1.0, lambda: told in mx1.log_text(), f"the log tells it: {outcome}")


def hangs(test, mx1):
    """The role is gone before it has told what came of it."""
    os.kill(mx1.roles()["cluster.0"], signal.SIGSTOP)
    forgets(test, mx1, "mx9", 75, "unsure", "the result is unknown")
    joined(test, mx1, "with a new role")
    forgets(test, mx1, "mx9", 68, "unknown", "unknown node")
    test.equal(mx1.log_text().count("outcome=unsure"), 1, "what was lost is told once")


def not_above(test, clients, limit):
    count = clients.open()
    if count > limit:
        test.check(False, f"{count} are open, of {limit}")
    return count


def anew(node, **block):
    node.stop()
    node.write(**block)
    node.start()


def body(test):
    test.deaths_expected = True         # of the role that hangs
    network = Network(test, {"redis": REDIS, **{f"mx{n}": f"10.77.0.{n}" for n in (1, 2, 3)}})
    Redis(test, network).start()
    mx1, mx2, mx3 = (Node(test, network, f"mx{n}", nodes=2) for n in (1, 2, 3))
    for node in (mx1, mx2):
        node.start()
    for node in (mx1, mx2):
        joined(test, node, f"{node.name} of two")
    mx3.start()
    refused(test, mx3, "node", "run posternctl cluster forget NODE on one of them", "a third machine of two")
    anew(mx3, called="mx1")
    refused(test, mx3, "node", "choose another cluster.node here", "a name that another machine has")
    mx1.lose()
    joined(test, mx3, "the other machine is lost, its name")
    mx3.stop()
    mx1.start()
    joined(test, mx1, "it is back, as the other has left", limit=SOON)
    mx3.write(called=None, lease=LEASE + 1)
    mx3.start()
    refused(test, mx3, "settings", "lease", "another lease")
    forgets(test, mx1, "mx2", 75, "alive", "the node is alive")
    forgets(test, mx1, "mx1", 64, "itself", "a node cannot remove itself")
    forgets(test, mx1, "mx9", 68, "unknown", "unknown node")
    done = mx3.command("cluster", "forget", "mx2")
    test.check(done.returncode == 69 and "not connected to the cluster" in done.stderr,
               f"nor by one that does not belong: {done.returncode}, {done.stderr.strip()}")
    mx2.stop()
    test.within(SOON, lambda: mx1.command("cluster", "forget", "mx2").returncode == 0,
                "one that left is forgotten")
    # five lines a second: on a fast machine this one may be among those that are left out
    test.within(1.0, lambda: " name=mx2 outcome=done uid=0" in mx1.log_text() or
                "event=cluster-forget role=cluster.0 left_out=" in mx1.log_text(), "as the log tells")
    row = mx1.cluster_row()
    test.equal(([node["node"] for node in row["nodes"]], row["nodes_known"]), (["mx1"], 1),
               "and is not shown any more")
    anew(mx3, lease=LEASE)
    joined(test, mx3, "in its place the third one", limit=SOON)
    clients = Clients(test, {node.name: node.policy for node in (mx1, mx3)}, test.seed)
    mx3.write(limit=20)
    mx3.ask("reload")
    test.within(SOON, lambda: differs(mx1, "mx3 has the limit 20, this node 30")
                and differs(mx3, "mx1 has the limit 30, this node 20"),
                "a limit that differs is told by both, and whose it is, while nobody has a session")
    for when in ("from idle", "and once more"):
        clients.demand(mx1=30)
        test.within(SOON, lambda: not_above(test, clients, 20) >= 18,
                    f"the lower limit of an idle machine counts, {when}")
        row = mx1.ask("classes")[0]
        test.equal((row["refuse_at"], row["inbound_in_force"], row["sessions_in_force"]), (30, 20, 20),
                   "classes tell so")
        test.check(differs(mx1, "mx3 has the limit 20"), "and who has it, all the while")
        clients.demand(mx1=0)
        test.within(SOON, lambda: clients.open() == 0, "all have gone")
    test.check(' class=all text="mx3 has the limit 20, this node 30: ' in mx1.log_text(),
               "so does the log")
    mx1.write(limit=20)
    mx1.ask("reload")
    test.within(SOON, lambda: not mx3.cluster_row()["differs"] and not mx1.cluster_row()["differs"],
                "and no more when it is the same")
    test.within(SOON, lambda: all(node.log_text().count(" class=all text=\"its limits, fraction and "
                                                        "number of nodes are the same on all nodes again\"") == 1
                                  for node in (mx1, mx3)), "the logs of both tell that it is over")
    clients.demand(mx1=30)
    test.within(SOON, lambda: clients.open("mx1") >= 18, "one of them has nearly all of 20")
    mx1.write(limit=19)
    mx1.ask("reload")
    test.within(SOON, lambda: ' class=all text="mx3 has the limit 20, this node 19: ' in
                mx1.log_text(), "another limit again, in the log")
    mx1.more = lambda text: text.replace('scope = "cluster"; ', "")
    mx1.write()
    mx1.ask("reload")
    test.within(SOON, lambda: ' class=all text="the class is no longer shared"' in mx1.log_text(),
                "the log tells that it is none of theirs any more")
    clients.demand(mx3=30)
    test.within(SOON, lambda: clients.open("mx3") >= 18,
                "its class leaves the scope: what it had of it is another's")
    before = len(mx2.log_text())
    mx2.start()
    refused(test, mx2, "node", "nodes", "the one that was forgotten")
    test.check("state=without" not in mx2.log_text()[before:],
               "what it had before it was stopped is no news at its start")
    hangs(test, mx1)


main(body, seconds=60)
