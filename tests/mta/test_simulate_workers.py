#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""postern-simulate workers from outside: the figures of the scheduler notes, each rule of
choice in a scenario of its own, what becomes of jobs, bad input."""
import json
import os
import subprocess
import time
from pathlib import Path

from lib.testing import main

BUILD = Path(os.environ.get("POSTERN_BUILD", ".")).resolve()
OPTIONS = {"--workers": "10", "--messages": "200,30@2s,5@4s", "--probes": "20@1s", "--sites": "4",
           "--hosts": "2,1", "--broken": "1.1,*.3@40s", "--routing": "no", "--connect": "200ms",
           "--service": "2s", "--jitter": "10%", "--close-after": "25", "--retry": "5s",
           "--max-message-concurrency": "3", "--scale-max-concurrency": "4",
           "--verify-max-concurrency": "1", "--verify-scale-concurrency": "2", "--backlog": "3",
           "--destination-limit": "2", "--active-age": "20s", "--idle-age": "3s",
           "--closed-keep": "1m", "--retry-keep": "10s", "--seed": "7", "--every": "5s"}
WRONG = {"--workers": ["0", "x", "100001"], "--messages": ["", "0", "x", "5,", "5,6@", "5@2s,6@1s", "5,6@x",
                                                         ",".join(["1"] * 65)],
         "--probes": ["x", "5@"], "--sites": ["-1", "x"], "--hosts": ["", "0", "2,", "33", "20,20"],
         "--broken": ["", "1", "1.0", "0.1", "x.1", "1.1@x", "1.1,", "1.1,,2.1"],
         "--routing": ["maybe"], "--connect": ["x", "5"], "--service": ["0s", "x"], "--jitter": ["2"],
         "--close-after": ["x"], "--retry": ["0s"], "--max-message-concurrency": ["0", "x"],
         "--scale-max-concurrency": ["x"], "--verify-max-concurrency": ["0"],
         "--verify-scale-concurrency": ["x"], "--backlog": ["0"], "--destination-limit": ["x"],
         "--active-age": ["x"], "--idle-age": ["-1s"], "--closed-keep": ["1"], "--retry-keep": ["x"],
         "--seed": ["-1"], "--every": ["0s"]}


def run(*words):
    return subprocess.run([BUILD / "postern-simulate", *map(str, words)], capture_output=True, text=True,
                          timeout=30)


def simulate(*flags, **options):
    words = [word for name, value in options.items()
             for word in ("--" + name.replace("_", "-"), value)]
    return json.loads(run("--json", "workers", *words, *flags).stdout)


def rules(row):
    return {rule["rule"]: rule["times"] for rule in row["rules"] if rule["times"]}


def decisions(row):
    return [(one["rule"], one["destination"]) for one in row["decisions"]]


def shares(row, at):
    return {state["message"]: state["percent"] for state in row["states"] if state["time_s"] == at}


def figures_of_the_notes(test):
    for routing in ("no", "yes"):
        one = simulate(workers=1000, messages="20000", max_message_concurrency=100, every="1s",
                       routing=routing)
        test.equal([shares(one, at) for at in (0, 5, 10)], [{"1": 91}] * 3,
                   "one big message levels at 91 % of the workers")
        two = simulate(workers=1000, messages="20000,20000@3s", max_message_concurrency=100, every="1s",
                       routing=routing)
        test.equal(shares(two, 3), {"1": 91, "2": 9}, "the second first takes the remaining 9 %")
        levels = [shares(two, at) for at in range(6, 30)]
        test.check(all(47 <= share <= 48.2 for level in levels for share in level.values()),
                   "and takes over until both have 47 %")
    start = time.monotonic()
    simulate(workers=1000, messages="500000", sites=3000)
    test.check(time.monotonic() - start < 10, "half a million jobs in seconds")


def each_rule_by_itself(test):
    # connections take a job at a time, so that every one is at its backlog at once
    def case(messages, want, *names, **options):
        options.setdefault("backlog", 1)
        options.setdefault("jitter", "0")
        row = simulate("--trace", messages=messages, **options)
        test.equal(decisions(row)[-len(want):], want, *names)
        return row

    case("3", [("unused", "1.1"), ("recent", "1.1"), ("recent", "1.1")],
         "the most recent connection below the backlog", sites=1, backlog=3)
    case("5", [("unused", "1.1"), ("unused", "2.1"), ("recent", "1.1"), ("recent", "2.1"), ("recent", "1.1")],
         "sites by turns", sites=2, backlog=3)
    case("3", [("unused", "1.1"), ("ride", "1.1"), ("ride", "1.1")],
         "above the maximum jobs ride", sites=1, max_message_concurrency=1, scale_max_concurrency=0)
    case("1,1@3s", [("unused", "1.1"), ("idle", "1.1")], "an idle connection", sites=1)
    case("1,1@20s", [("unused", "1.1"), ("closed", "1.1")], "closed by its age: the oldest closed",
         sites=1, idle_age="10s")
    case("2", [("unused", "1.1"), ("crowded", "1.1")], "no worker is free", sites=1, workers=1,
         max_message_concurrency=5)
    case("2", [("unused", "1.1"), ("one-more", "1.1")], "one more connection", sites=1)
    case("2", [("unused", "1.1"), ("full", "1.1")], "as many as one destination may have", sites=1,
         destination_limit=1)
    row = case("1,1@30s", [("unused", "1.1"), ("defer", None), ("retry", "1.1")],
               "broken until its retry time", sites=1, broken="1.1@20s", retry="25s")
    test.equal([(m["done"], m["deferred"]) for m in row["messages"]], [(0, 1), (1, 0)], "the first is deferred")
    row = case("1", [("unused", "1.2")], "the secondary", sites=1, hosts="1,1", broken="1.1")
    test.equal([one["list"] for one in row["decisions"]], [1, 2], "after the primary has failed")
    row = case("2", [("unused", "1.1"), ("wait", None), ("unused", "2.1")],
               "waits for a worker, and an idle connection is closed for it", sites=2, workers=1)
    test.equal(row["closed_for_new"], 1, "one was closed")


def what_becomes_of_jobs(test):
    row = simulate(messages="100", sites=1, close_after=10, destination_limit=1, max_message_concurrency=1)
    test.equal((row["messages"][0]["done"], row["closed_by_remote"]), (100, 10), "the remote closes each after 10")
    test.check(row["rescheduled"] >= 90, "what is pending is placed anew")
    row = simulate(messages="100", sites=10, hosts="2,1", broken="*.1,*.2")
    test.equal(row["messages"][0]["done"], 100, "all by the secondaries")
    test.equal(row["failed_connections"] >= 20, True, "each primary was tried")
    row = simulate(messages="100", sites=10, broken="3.1")
    test.equal((row["messages"][0]["done"], row["messages"][0]["deferred"]), (90, 10), "only what is broken is deferred")
    row = simulate(messages="40", probes=1000, workers=100, every="1s")
    test.equal(max(s["percent"] for s in row["states"] if s["message"] == "probes"), 50,
               "probes have settings of their own")
    test.equal(sum(m["done"] for m in row["messages"]), 1040, "nothing is lost")


def both_outputs(test):
    words = [word for pair in OPTIONS.items() for word in pair] + ["--trace"]
    text, data = run("workers", *words), run("--json", "workers", *words)
    test.equal((text.returncode, data.returncode), (0, 0), "all options at once")
    row = json.loads(data.stdout)
    names = [line.split()[0].rstrip(":") for line in text.stdout.splitlines()
             if line and not line[0].isspace()]
    test.equal(names, list(row), "the same names in both outputs")
    test.equal(list(row["decisions"][0]), ["time_s", "message", "job", "rule", "list", "destination",
                                           "connection", "opened"], "what a decision tells")
    test.equal(run("workers", *words).stdout, text.stdout, "the same again")
    test.check(run("workers", *words, "--seed", "78").stdout != text.stdout, "but for another seed")
    test.equal(set(simulate()) & {"states", "decisions"}, set(), "no states or decisions unless asked for")


def bad_input(test):
    for option, values in WRONG.items():
        for value in values:
            done = run("workers", option, value)
            test.equal((done.returncode, done.stdout), (64, ""), f"{option} {value!r} is refused")
            if option not in done.stderr or len(done.stderr.splitlines()) != 2:
                test.check(False, f"{done.stderr!r} names {option}")
    test.equal(run("workers", "--messages", "900000,900000").returncode, 64, "too many jobs")
    test.equal(run("workers", "--sites", "1000000", "--hosts", "9").returncode, 64, "too many hosts")
    test.equal(run("workers", "now").returncode, 64, "no arguments")
    test.equal(run("window", "--workers", "5").returncode, 64, "not for other commands")
    done = run("workers", "--help")
    test.equal([option for option in OPTIONS if f"  {option} " not in done.stdout], [],
               "the help tells every option")


def body(test):
    figures_of_the_notes(test)
    each_rule_by_itself(test)
    what_becomes_of_jobs(test)
    both_outputs(test)
    bad_input(test)


main(body)
