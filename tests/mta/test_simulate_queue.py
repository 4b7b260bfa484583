#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""postern-simulate queue from outside: what it prints, that it says what the document says,
bad input."""
import json
import os
import subprocess
from pathlib import Path

from lib.testing import main

BUILD = Path(os.environ.get("POSTERN_BUILD", ".")).resolve()
OPTIONS = {"--messages": "500", "--rate": "100", "--recipients": "3", "--deferred": "25%",
           "--attempts": "4", "--processes": "50", "--service": "2s"}
WRONG = {"--messages": ["0", "x", "1000001"], "--rate": ["0", "-1"], "--recipients": ["0", "1001"],
         "--deferred": ["2", "x", "101%"], "--attempts": ["0"], "--processes": ["0", "x"],
         "--service": ["0s", "2h", "5"]}


def run(*words):
    return subprocess.run([BUILD / "postern-simulate", *words], capture_output=True, text=True, timeout=60)


def simulate(**options):
    words = [word for name, value in options.items() for word in (f"--{name}", value)]
    return json.loads(run("--json", "queue", *words).stdout)


def as_the_document_says(test):
    one = simulate(messages="5000", deferred="40%")
    cost = {row["stored_as"]: row for row in one["costs"]}
    files, log, several = (cost[name] for name in ("file-per-message", "one-log", "log-per-interval"))
    test.equal(one["delivered"] + one["returned"], 10000, "every recipient has an end")
    test.check(log["syncs"] * 4 < files["syncs"],
               f"{log['syncs']} syncs of a log beside {files['syncs']} of files")
    test.check(several["read_mib"] < log["read_mib"] and several["syncs"] > log["syncs"],
               "with several logs less is read, and synced more often")
    test.check(log["restart_mib"] < files["restart_mib"], "a restart reads less than the queue")
    test.equal(simulate(messages="5000", deferred="40%"), one, "the same again gives the same")


def body(test):
    as_the_document_says(test)
    given = [word for pair in OPTIONS.items() for word in pair]
    test.equal(json.loads(run("--json", "queue", *given).stdout)["messages"], 500,
               "all options together")
    test.check("one-log" in run("queue", *given).stdout, "a table without --json")
    for name, values in WRONG.items():
        for value in values:
            done = run("queue", name, value)
            test.equal((done.returncode, f'{name}: "{value}" is not ' in done.stderr), (64, True),
                       f"{name} {value} is refused, with what it should be")
    done = run("queue", "--messages", "1000000", "--recipients", "5")
    test.equal((done.returncode, "more than 4000000 recipients" in done.stderr), (64, True),
               "too much together is refused")


main(body)
