#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""tests/bench/cluster.py [--short]: what sharing limits through Redis costs.

Decisions of a machine whose class is shared with others, beside the same machine without a
cluster, in turn.  Commands that a real Redis gets for each 1,000 sessions of three machines,
at steady load below the limit and above it.  Time from a change by hand on one machine to
when the other two answer by it.  Private to itself: needs root, and redis-server.
"""
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import cpu

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "mta"))
from lib.cluster import Cluster, sleep_until        # noqa: E402
from lib.cluster_clients import Clients             # noqa: E402
from lib.control import Client                      # noqa: E402
from lib.postern import build_directory             # noqa: E402
from lib.testing import Failed, main     # noqa: E402

LEASE = 15              # as shipped
CONNECTIONS = 50
BUDGET = 1.05           # a decision with the cluster role, beside one without


def show(name, value, rest=""):
    print(f"{name:<58} {value:>10}{rest}", flush=True)


def load(node, units):
    """Figures of one run of the load generator, and the CPU time of all processes, in us."""
    before = cpu.used_ns(node.process.pid)
    done = subprocess.run([build_directory() / "tests/bench/load_policy", f"unix:{node.policy}",
                           "-c", str(CONNECTIONS), "-n", str(units), "-w", "5000"],
                          text=True, capture_output=True)
    if done.returncode != 0:
        raise Failed(f"load_policy: {done.stderr.strip()}")
    figures = {}
    for words in (line.split() for line in done.stdout.splitlines()):
        if words[0] == "answer" and words[1] != "DUNNO":
            raise Failed(f"load_policy: unexpected answers: {words}")
        if words[0] != "answer":
            figures[words[0]] = float(words[1])
    figures["cpu_us"] = (cpu.used_ns(node.process.pid) - before) / 1000 / (units + 5000)
    return figures


def decisions(test, cluster, rounds, units):
    """mx1 shares its class; mx2 has the same configuration without a cluster."""
    with_cluster, without = cluster.nodes["mx1"], cluster.nodes["mx2"]
    without.stop()
    without.clustered = False
    without.write()
    without.start()
    runs = {with_cluster: [], without: []}
    for _ in range(rounds):
        for node, those in runs.items():
            those.append(load(node, units))
    median = {node: {key: statistics.median(run[key] for run in those) for key in those[0]}
              for node, those in runs.items()}
    for key, what in (("cpu_us", "CPU us each, all processes"), ("p50_us", "p50 us"),
                      ("p99_us", "p99 us"), ("rate", "requests/s")):
        ours, other = median[with_cluster][key], median[without][key]
        pairs = statistics.median(a[key] / b[key] for a, b in zip(*runs.values()))
        budget = "" if key != "cpu_us" else \
            f"  budget <= {BUDGET} {'met' if pairs <= BUDGET else 'MISSED'}"
        show(f"shared decision, {CONNECTIONS} connections: {what}", f"{ours:.2f}",
             f"  alone {other:.2f}  ratio {pairs:.3f}{budget}")
    test.check(True, "decisions")
    without.stop()
    without.clustered = True
    without.write()
    without.start()


def steady(test, cluster, wanted, seconds, what):
    """Commands for 1,000 sessions, and by machine and second."""
    clients = Clients(test, {node.name: node.policy for node in cluster.all()}, test.seed)
    clients.demand(**wanted)
    sleep_until(time.monotonic() + 3.0)  # until the shares fit
    before, begun, begin = cluster.redis.commands(), clients.let_in(), time.monotonic()
    time.sleep(seconds)
    after, there, took = cluster.redis.commands(), clients.let_in(), time.monotonic() - begin
    ours = {name: after[name] - before.get(name, 0) for name in after
            if name in ("evalsha", "eval", "fcall", "publish", "ping")}
    calls, sessions = sum(ours.values()), there - begun
    show(f"{what}: Redis commands for 1,000 sessions", f"{calls * 1000 / sessions:.1f}",
         f"  {sessions / took:.0f} sessions/s")
    show(f"{what}: Redis commands a machine and second", f"{calls / took / 3:.2f}")
    refused = sum(clients.refused.values())
    test.check(sessions > 0, f"{what}: {sessions} sessions, {refused} refused, {ours}")
    clients.quiet()
    clients.stop()


def spread(test, cluster, count):
    """ms from a suspension by hand on mx1 until each of the others answers by it."""
    asking = {}
    for node in cluster.all():
        asking[node.name] = Client(node)
        asking[node.name].next()
        asking[node.name].ask("protocol=1", "build=bench", "command=ping")

    def stopped(name, domain):
        rows, end = asking[name].ask("command=explain destination", f"destination={domain}")
        if not rows:
            raise Failed(f"explain destination: {end}")
        return rows[0].get("stopped_by") not in (None, "nothing")
    times = {"suspend": [], "resume": []}
    for number in range(count):
        domain = f"d{number}.example"
        for command, wanted in (("suspend", True), ("resume", False)):
            begin = time.monotonic()
            _, end = asking["mx1"].ask(f"command={command}", f"name={domain}",
                                       *(["for=60", "reason=bench"] if command == "suspend" else []))
            if end["exit"] != "0":
                raise Failed(f"{command}: {end}")
            waiting = {"mx2", "mx3"}
            while waiting:
                for name in list(waiting):
                    if stopped(name, domain) == wanted:
                        times[command].append((time.monotonic() - begin) * 1000)
                        waiting.discard(name)
                if time.monotonic() - begin > 10:
                    raise Failed(f"{command} of {domain}: not at {waiting} within 10 s")
                time.sleep(0.001)
    for command, found in times.items():
        found.sort()
        show(f"{command} on one machine, until another has it: median ms",
             f"{statistics.median(found):.1f}",
             f"  p99 {found[min(len(found) - 1, int(len(found) * 0.99))]:.1f}")
    test.check(True, "changes spread")


def joined(test, cluster):
    test.wait_for(lambda: all(node.cluster_row()["state"] == "joined" for node in cluster.all()),
                  "all have joined", limit=60)


def body(test):
    short = test.arguments.short
    cluster = Cluster(test, limit=1000, ports=(25, 2025), lease=LEASE)
    print(f"{os.cpu_count()} processors, lease {LEASE} s", flush=True)
    joined(test, cluster)
    decisions(test, cluster, 1 if short else 7, 20000 if short else 400000)
    joined(test, cluster)
    seconds = 3 if short else 60
    steady(test, cluster, {"mx1": 60, "mx2": 60, "mx3": 60}, seconds, "below the limit")
    for node in cluster.all():
        node.write(limit=30)
        node.ask("reload")
    steady(test, cluster, {"mx1": 20, "mx2": 20, "mx3": 20}, seconds, "at the limit")
    spread(test, cluster, 5 if short else 200)


main(body, seconds=600, options=(("--short", {"action": "store_true"}),))
