#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""postern-simulate warm from outside: figures, names, options, bad input."""
import json
import os
import subprocess
from pathlib import Path

from lib.testing import main

BUILD = Path(os.environ.get("POSTERN_BUILD", ".")).resolve()
OPTIONS = {"--plan": "10,20,40,80,100", "--grow-used": "50%", "--grow-throttled": "3%", "--back-throttled": "10%",
           "--idle": "10d", "--messages": "500", "--weekend": "50%", "--tolerance": "15", "--growth": "60%",
           "--harm": "20%", "--jitter": "10%", "--days": "100", "--pause-after": "2", "--pause": "25",
           "--seed": "7"}
WRONG = {"--plan": ["", "0", "10,10", "10,5", "10,", "x", ",".join(map(str, range(1, 62)))], "--grow-used": ["2"],
         "--grow-throttled": ["0", "9%", "x"], "--back-throttled": ["1%", "x"], "--idle": ["1h", "32d"],
         "--messages": ["0"], "--weekend": ["x"], "--tolerance": ["0"], "--growth": ["2"], "--harm": ["-1"],
         "--jitter": ["x"], "--days": ["0"], "--pause-after": ["-1"], "--pause": ["x"], "--seed": ["x"]}


def run(*words):
    return subprocess.run([BUILD / "postern-simulate", *words], capture_output=True, text=True, timeout=30)


def warm(*words):
    return json.loads(run("--json", "warm", *words).stdout)


def figures(test):
    results, calendar = warm()["laws"]
    test.equal((results["law"], calendar["law"]), ("results", "calendar"), "two ways")
    test.check(results["reached"] and calendar["reached"], "both get there")
    test.check(2 * results["throttled"] <= calendar["throttled"] and results["days"] <= 1.3 * calendar["days"],
               f"{results['throttled']} throttled in {results['days']} days; calendar {calendar['throttled']} in "
               f"{calendar['days']}")
    days = warm("--trace", "--tolerance", "10000", "--weekend", "100%")["days"]
    test.equal([day["number"] for day in days], [50, 100, 200, 400, 800, 1500, 3000, 6000], "the plan, day by day")


def both_outputs(test):
    words = [word for pair in OPTIONS.items() for word in pair] + ["--trace"]
    text, data = run("warm", *words), run("--json", "warm", *words)
    test.equal((text.returncode, data.returncode), (0, 0), f"all options at once: {text.stderr}{data.stderr}")
    result = json.loads(data.stdout)
    test.equal(list(result), ["laws", "days"], "two tables")
    test.equal(text.stdout.splitlines()[1].split(), list(result["laws"][0]), "the same names in both outputs")
    test.equal(list(result["days"][0]), ["day", "verdict", "number", "sent", "throttled", "tolerance"],
               "what a day tells")
    days = result["days"]
    test.equal({day["sent"] for day in days[2:27]}, {0}, "a pause of 25 days")
    test.equal((days[1]["number"], days[27]["verdict"], days[27]["number"]), (20, "idle", 10), "and after it")
    test.equal(run("warm", *words).stdout, text.stdout, "the same again")
    test.check(run("warm", *words, "--seed", "8").stdout != text.stdout, "but for another seed")


def bad_input(test):
    for option, values in WRONG.items():
        for value in values:
            done = run("warm", option, value)
            test.equal((done.returncode, done.stdout), (64, ""), f"{option} {value!r} is refused")
            if option not in done.stderr or len(done.stderr.splitlines()) != 2:
                test.check(False, f"{done.stderr!r} names {option}")
    test.equal(set(WRONG), set(OPTIONS), "of each option")
    done = run("warm", "--help")
    test.equal([option for option in OPTIONS if f"  {option} " not in done.stdout], [],
               "help tells every option")


def body(test):
    figures(test)
    both_outputs(test)
    bad_input(test)


main(body)
