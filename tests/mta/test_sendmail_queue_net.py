#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""The safety net below a queue that Postern runs: with Postern never started, Sendmail's own
queue run delivers all mail within one interval, local mail, too."""
import time

from lib.driven import Driven, hosts
from lib.sendmail import find_root
from lib.testing import main

SITES = hosts(6)
NAMES = list(SITES.values())
INTERVAL = 3                            # seconds; 30 minutes as shipped


def never_started(test, world):
    accepted = world.submit("root", *(f"n{n}@{NAMES[n % 6]}" for n in range(60)))
    world.wait_delivered(60)
    took = time.monotonic() - accepted
    test.wait_for(lambda: world.local() == ["root"], "local mail is delivered")
    test.check(took < INTERVAL + 5, f"Postern was never started: all is delivered {took:.1f} s "
               f"later, the interval being {INTERVAL} s")
    world.each_once([f"n{n}@{NAMES[n % 6]}" for n in range(60)], "never started: each once")
    world.none_queued()


def body(test):
    world = Driven(test, SITES, processes=4, interval=f"{INTERVAL}s", start=False)
    never_started(test, world)


main(body, hosts=SITES, addresses=list(SITES), before=find_root)
