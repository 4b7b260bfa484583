#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""What one machine knows of a destination serves the others: held by hand, resumed anywhere,
ceilings; it stands in the log of each; and again after Redis has lost everything."""
import re
import shlex

from lib.cluster import PREFIX, USER, Cluster
from lib.testing import main

SOON = 1.0                      # the promise


def row(node, name):
    found = [one for one in node.ask("destinations") if one["name"] == name]
    return found[0] if found else {}


def state(node, name):
    return row(node, name).get("state")


def everywhere(test, cluster, check, what, limit=SOON):
    for node in cluster.all():
        test.within(limit, lambda: check(node), f"{what}: {node.name}")


def why(test, here, there):
    """One command tells why mail is held that another machine holds, and undoes it."""
    known = here.ask("explain", "destination", "held.example")
    told = here.ask("why", known["id"])
    origin = there.ask("explain", "destination", "held.example")["id"]
    test.equal([told["by"], told["node"], told["origin_id"], told["in_force"]],
               ["hand", there.name, origin, True], "by hand, there, and which decision")
    test.equal([known["stopped_by"], known["node"], known["origin_id"]],
               ["hand", there.name, origin], "the same of explain")
    test.equal([row(here, "held.example")[key] for key in ("stopped_by", "node", "origin_id")],
               ["hand", there.name, origin], "and of destinations")
    test.check(f"manual action on node {there.name}" in told["what"] and
               f"posternctl why {origin}" in told["what"], f"in words: {told['what']}")
    test.equal(there.ask("why", origin)["kind"], "by-hand", "that machine tells of it")
    other = here.command("why", origin)
    test.check(other.returncode == 68 and f"it is a decision of node {there.name}" in other.stderr and
               known["id"] in other.stderr, f"an id of another machine: {other.stderr}")
    undo = shlex.split(told["undo"])
    test.equal(undo[-2:], ["resume", "held.example"], "what undoes it")
    test.equal(here.command(*undo[-2:]).returncode, 0, "and it is done")


def by_hand(test, cluster):
    first, second, third = cluster.all()
    first.ask("hold", "held.example", "--reason", "a leak, at last")
    everywhere(test, cluster, lambda node: state(node, "held.example") == "held", "held")
    reason = row(third, "held.example")["reason"]
    test.equal(reason, f"{first.name}: a leak, at last", "why, and by whom")
    test.equal(row(third, "held.example")["node"], first.name, "the same as a column")
    why(test, second, first)
    everywhere(test, cluster, lambda node: state(node, "held.example") == "open", "resumed")
    third.ask("suspend", "held.example", "--for", "1h")
    everywhere(test, cluster, lambda node: state(node, "held.example") == "dead", "suspended")
    first.ask("resume", "held.example")
    everywhere(test, cluster, lambda node: state(node, "held.example") == "open", "resumed")


def ceilings(test, cluster):
    first, second, third = cluster.all()
    second.ask("limit", "slow.example", "--ceiling", 4)
    everywhere(test, cluster, lambda node: row(node, "slow.example").get("ceiling") == 4,
               "a ceiling")
    third.ask("limit", "slow.example", "--ceiling", 6)
    everywhere(test, cluster, lambda node: row(node, "slow.example").get("ceiling") == 6,
               "raised by hand")
    first.ask("forget", "slow.example")
    everywhere(test, cluster, lambda node: not row(node, "slow.example").get("ceiling"),
               "forgotten")


def away(test, cluster):
    """Redis is away: said while somebody suspends something."""
    first, second, _ = cluster.all()
    cluster.redis.kill()
    test.wait_for(lambda: first.cluster_row()["error"] == "connect", "Redis is gone")
    untold(test, first, "state ")
    cluster.redis.start()
    for node in cluster.all():
        test.wait_for(lambda: node.cluster_row()["state"] == "joined", f"{node.name} is back")


def lines(node, event, name):
    """Those of the log, without what stands before the event's own."""
    return [line[line.index(" id=") + 1:] for line in node.log_text().splitlines()
            if f"event={event} " in line and f" destination={name} " in line]


def in_the_log(test, cluster):
    """Each machine's own log tells what another one suspended, held, limited and resumed: once,
    by whom, and with the id that `why` takes."""
    first, second, third = cluster.all()
    name = "logged.example"
    first.ask("hold", name, "--reason", "a leak")
    everywhere(test, cluster, lambda node: state(node, name) == "held", "held")
    origin = first.ask("explain", "destination", name)["id"]
    for node in (second, third):
        number = node.ask("explain", "destination", name)["id"]
        begin = f"id={number} destination={name} state=held for=0s by=node node={first.name} " \
                f"origin={origin} there=hand "
        test.within(SOON, lambda: [one.startswith(begin) for one in lines(node, "suspended", name)]
                    == [True], f"{node.name}: the hold of {first.name} is in its log, once")
    third.ask("suspend", name, "--for", "1h")
    everywhere(test, cluster, lambda node: state(node, name) == "dead", "suspended")
    test.within(SOON, lambda: any(re.search(rf"state=dead for=3\d\d\ds by=node node={third.name} ", one)
                                  for one in lines(first, "suspended", name)), "a suspension, too")
    second.ask("resume", name)
    everywhere(test, cluster, lambda node: state(node, name) == "open", "resumed")
    third.ask("limit", name, "--ceiling", 4)
    everywhere(test, cluster, lambda node: row(node, name).get("ceiling") == 4, "a ceiling")
    by_second = f" destination={name} by=node node={second.name} "
    for node in (first, third):
        test.within(SOON, lambda: [by_second in one for one in lines(node, "back", name)] == [True],
                    f"{node.name}: who resumed it, once")
        test.equal(row(node, name)["reason"], f"{second.name}: resumed by an administrator", "the reason is")
        whats = [one["what"] for one in node.ask("why", name) if one["kind"] == "back"]
        test.check(whats and whats[-1].endswith(f" (from node {second.name})"),
                   f"and so does the list of why: {whats}")
    for node in (first, second):
        test.within(SOON, lambda: [f" by=node node={third.name} " in one and " ceiling=4 " in one
                                   for one in lines(node, "window", name)] == [True],
                    f"{node.name}: who limited it, once")
    counts = [[len(lines(node, event, name)) for event in ("suspended", "back", "window")]
              for node in cluster.all()]
    test.equal(counts, [[1, 1, 1], [2, 0, 1], [1, 1, 0]], "one's own deeds are by-hand alone")


def lost(test, cluster):
    """Redis loses all it had; a machine that comes later hears of it all the same."""
    first, second, third = cluster.all()
    third.lose()
    first.ask("hold", "kept.example")
    cluster.redis.restart(data=False)
    strangers(test, cluster)
    third.start(wait=False)
    test.wait_for(third.ready, "it is there again")
    test.wait_for(lambda: state(third, "kept.example") == "held", "and has heard of it")
    third.ask("resume", "kept.example")
    test.wait_for(lambda: state(first, "kept.example") == "open", "resumed from there")
    test.within(SOON, lambda: state(second, "kept.example") == "open", "everywhere")


def own(test, cluster):
    """A machine that lost its state and its journal holds what it told the others to hold, and
    may resume it."""
    third = cluster.all()[2]
    third.ask("hold", "own.example", "--reason", "no end")
    everywhere(test, cluster, lambda node: state(node, "own.example") == "held", "held")
    third.lose()
    third.start(wait=False)
    test.wait_for(third.ready, "it is there again")
    test.wait_for(lambda: state(third, "own.example") == "held", "and holds what it held")
    test.equal(row(third, "own.example")["reason"], "no end", "by its own word")
    third.ask("resume", "own.example")
    everywhere(test, cluster, lambda node: state(node, "own.example") == "open", "resumed")
    third.ask("resume", "unknown.example")


def strangers(test, cluster):
    """What another program put under our names hides nothing of ours, and ends no connection."""
    redis = cluster.redis
    key = f"{PREFIX}1:d:"
    test.wait_for(lambda: redis.ask("EXISTS", key + "kept.example") == 1, "it is written again")
    redis.ask("HSET", key + "kept.example", "huge", "x" * (2 << 20))
    redis.ask("SET", key + "text.example", "x")
    redis.ask("ZADD", f"{PREFIX}1:di", redis.ask("INCR", f"{PREFIX}1:dv"), "text.example")


def keys(test, cluster):
    ends = {key.decode(): cluster.redis.ask("PTTL", key) for key in cluster.redis.ask("KEYS", "*")}
    test.check(len(ends) >= 5 and all(key.startswith(PREFIX) and 0 < ms <= 400 * 86400000
                                      for key, ms in ends.items()),
               f"every key has the prefix and ends by itself: {ends}")


def counter(test, cluster):
    """The number of the last change is lost alone: it goes on, instead of being taken for a
    server that has lost all."""
    first, second, _ = cluster.all()
    key = f"{PREFIX}1:dv"
    before = int(cluster.redis.ask("GET", key))
    cluster.redis.ask("DEL", key)
    first.ask("hold", "numbered.example")
    test.wait_for(lambda: state(second, "numbered.example") == "held", "it is told")
    test.check(int(cluster.redis.ask("GET", key)) > before, "the numbers go on")
    first.ask("resume", "numbered.example")


def untold(test, node, why):
    """Whoever suspends something hears that the others do not, and what is wrong."""
    done = node.command("suspend", "untold.example", "--for", "1h")
    test.check(done.returncode == 0 and
               f"the other nodes cannot be notified now (cluster: {why}" in done.stderr,
               f"suspend says that others are not told: {done.stderr}")
    test.check(node.ask("resume", "untold.example")["untold"].startswith(why), "so does resume")


def foreign(test, cluster):
    """Another program's key in the place of a destination's: it is named, and nothing else
    suffers."""
    first, second, _ = cluster.all()
    key = f"{PREFIX}1:d:taken.example"
    cluster.redis.ask("SET", key, "mine")
    first.ask("suspend", "taken.example", "--for", "1h")
    test.wait_for(lambda: first.cluster_row()["error"] == "foreign", "it is told")
    row = first.cluster_row()
    test.check(key in row["error_text"] and row["state"] == "joined" and row["unwritten"] == 1,
               f"with its name, joined all the same: {row['error_text']}")
    untold(test, first, "state joined, error foreign")
    cluster.redis.ask("DEL", key)
    test.wait_for(lambda: state(second, "taken.example") == "dead", "it is told after all")
    test.wait_for(lambda: first.cluster_row()["unwritten"] == 0, "nothing is left to be told")
    done = first.command("resume", "taken.example")
    test.equal((done.returncode, done.stderr), (0, ""), "and nothing is complained about")


def refused(test, cluster):
    """Redis lets a machine no more tell what it knows: that is told and counted, no lease is
    lost, and when it may again, the others hear of it."""
    first, second, _ = cluster.all()
    cluster.redis.ask("ACL", "SETUSER", USER, "-publish")
    first.ask("hold", "quiet.example")
    test.wait_for(lambda: first.cluster_row()["errors"]["permission"] > 0, "it is counted")
    test.check("error=permission" in first.log_text(), "it is told")
    test.equal(first.cluster_row()["state"], "joined", "limits are shared all the same")
    test.check("compare the Redis user with redis-postern.conf: " in first.cluster_row()["error_text"],
               f"with what to do: {first.cluster_row()['error_text']}")
    untold(test, first, "state joined, error permission")
    cluster.redis.ask("ACL", "SETUSER", USER, "+publish")
    test.wait_for(lambda: state(second, "quiet.example") == "held", "it is told after all")


def body(test):
    cluster = Cluster(test)
    for node in cluster.all():
        test.wait_for(lambda: node.cluster_row()["state"] == "joined", "it has joined")
    by_hand(test, cluster)
    ceilings(test, cluster)
    in_the_log(test, cluster)
    counter(test, cluster)
    refused(test, cluster)
    foreign(test, cluster)
    keys(test, cluster)
    away(test, cluster)
    lost(test, cluster)
    own(test, cluster)
    test.equal([node.cluster_row()["errors"]["protocol"] for node in cluster.all()], [0, 0, 0],
               "no connection was ended for what strangers had written")


main(body, seconds=60)
