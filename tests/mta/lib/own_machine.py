# SPDX-License-Identifier: ISC
"""Tests on a machine that is theirs alone: what main() of lib.testing makes is not needed."""
import argparse
import signal
import subprocess
import sys

from lib.testing import Failed, Skipped, Test


def main(name, body, seconds, tell):
    """`body(test)` in so many seconds; `tell`: the shell command that shows why it failed, or a
    function of the test that gives it.  Ends with 0, 1, or 77 (skipped)."""
    test = Test(name, argparse.Namespace(rounds=0, seed=0))

    def too_long(*_):
        raise Failed(f"not done in {seconds} s")
    signal.signal(signal.SIGALRM, too_long)
    signal.alarm(seconds)
    skipped = False
    try:
        body(test)
    except Skipped as reason:
        print(f"skipped: {reason}")
        skipped = True
    except Failed as reason:
        test.check(False, str(reason))
    if test.failures > 0:
        subprocess.run(tell(test) if callable(tell) else tell, shell=True)
    test.end()
    print(f"{name}: {test.checks - test.failures} of {test.checks} checks passed", flush=True)
    sys.exit(1 if test.failures > 0 else 77 if skipped else 0)
