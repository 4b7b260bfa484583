#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""postern-simulate pace from outside: figures, names, options, bad input."""
import json
import os
import subprocess
from pathlib import Path

from lib.testing import main

BUILD = Path(os.environ.get("POSTERN_BUILD", ".")).resolve()
LAWS = ["slow", "snap-back", "two-modes", "suspend", "unpaced"]
OPTIONS = {"--law": "all", "--site-limit": "20/1m,40@10m", "--site-window": "fixed", "--count-refused": "yes",
           "--penalty": "50%", "--forgive": "10m", "--pace": "60/1m", "--burst": "3", "--by": "40%",
           "--floor": "60/1h", "--up": "20%/1m", "--low": "10/1m", "--low-for": "20m", "--suspend-for": "2m",
           "--messages": "300", "--arrivals": "60", "--concurrency": "5", "--service": "2s", "--refusal": "100ms",
           "--jitter": "10%", "--report-delay": "3s", "--retry": "60s", "--for": "1h", "--after": "1m",
           "--seed": "77", "--every": "10m"}
WRONG = {"--law": ["", "Slow"], "--site-limit": ["", "30", "0/1m", "30/0s", "30/1m,40", "30/1m,40@x", "x/1m",
                                                 "30/1m@5m,20@6m"],
         "--site-window": ["leaky"], "--count-refused": ["1"], "--penalty": ["2"], "--forgive": ["1"],
         "--pace": ["60", "0/1m", "1001/1s", "1/2d", "x"], "--burst": ["0", "1001"], "--by": ["0", "96%", "x"],
         "--floor": ["none", "0/1h"], "--up": ["10%", "0%/1m", "10%/1ms", "10%/", "/1m"], "--low": ["x"],
         "--low-for": ["0s"], "--suspend-for": ["x"], "--messages": ["-1"], "--arrivals": ["x"],
         "--concurrency": ["0"], "--service": ["0s"], "--refusal": ["1"], "--jitter": ["x"],
         "--report-delay": ["-1s"], "--retry": ["0s"], "--for": ["0s"], "--after": ["x"], "--seed": ["x"],
         "--every": ["1ms"]}


def run(*words):
    return subprocess.run([BUILD / "postern-simulate", *words], capture_output=True, text=True, timeout=30)


def laws(*words):
    data = json.loads(run("--json", "pace", *words).stdout)
    return {row["law"]: row for row in data["laws"]}


def figures(test):
    got = laws("--up", "10%/1m")
    test.equal(list(got), LAWS, "every algorithm")
    slow = got["slow"]
    test.check(slow["taken_percent"] >= 90 and slow["refused_percent"] <= 2,
               f"slow: {slow['taken_percent']} % taken, {slow['refused_percent']} % refused")
    for law in LAWS[1:]:
        row = got[law]
        test.check(row["taken_percent"] < 90 or row["refused_percent"] > 2,
                   f"{law}: {row['taken_percent']} % taken, {row['refused_percent']} % refused")
    below = laws("--pace", "600/1h", "--site-limit", "30/1m", "--messages", "1000", "--for", "1d")
    test.equal({(row["delivered"] + 50, row["refused"], row["early_refused"]) for row in below.values()},
               {(1000, 0, 0)}, "a pace below the limit: nothing is refused, by none of them")


def both_outputs(test):
    words = [word for pair in OPTIONS.items() for word in pair]
    text, data = run("pace", *words), run("--json", "pace", *words)
    test.equal((text.returncode, data.returncode), (0, 0), f"all options at once: {text.stderr}{data.stderr}")
    result = json.loads(data.stdout)
    test.equal(list(result), ["laws", "states"], "two tables")
    names = text.stdout.splitlines()[1].split()
    test.equal(names, list(result["laws"][0]), "the same names in both outputs")
    test.equal([state["time_s"] for state in result["states"]][:3], [0, 600, 1200], "a state each 10 minutes")
    test.equal(list(result["states"][0]), ["time_s", "pace_per_hour", "proven_per_hour", "delivered", "refused"],
               "what a state tells")
    test.equal(run("pace", *words).stdout, text.stdout, "the same again")
    test.check(run("pace", *words, "--seed", "78").stdout != text.stdout, "but for another seed")
    one = json.loads(run("--json", "pace", "--law", "suspend").stdout)
    test.equal([row["law"] for row in one["laws"]], ["suspend"], "one of them")
    nothing = laws("--messages", "0", "--law", "slow")["slow"]
    test.equal((nothing["refused_percent"], nothing["delivered"]), (None, 0), "without messages")
    short = run("pace", "--for", "1s")
    test.equal(short.returncode, 0, "an end before --after")


def bad_input(test):
    for option, values in WRONG.items():
        for value in values:
            done = run("pace", option, value)
            test.equal((done.returncode, done.stdout), (64, ""), f"{option} {value!r} is refused")
            if option not in done.stderr or len(done.stderr.splitlines()) != 2:
                test.check(False, f"{done.stderr!r} names {option}")
    test.equal(set(WRONG), set(OPTIONS), "of each option")
    done = run("pace", "--help")
    test.equal([option for option in OPTIONS if f"  {option} " not in done.stdout], [],
               "help tells every option")


def body(test):
    figures(test)
    both_outputs(test)
    bad_input(test)


main(body)
