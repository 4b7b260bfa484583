#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""The safety net below a queue that Postern runs: with Postern stopped for good, or never
started, Sendmail's own queue run delivers all mail within one interval, local mail, too;
beside a Postern that runs it disturbs nothing."""
import time

from lib.driven import Driven, hosts
from lib.sendmail import find_root
from lib.testing import main

SITES = hosts(6)
NAMES = list(SITES.values())
INTERVAL = 3                            # seconds; 30 minutes as shipped


def beside(test, world):
    """Both run it, for three intervals."""
    world.far.forget()
    recipients = [f"b{n}@{NAMES[n % 6]}" for n in range(120)]
    world.far.tell(delay=0.1)
    world.submit(*recipients)
    world.wait_delivered(120)
    world.each_once(recipients, "beside Postern: each once")
    world.none_queued()


def stopped(test, world):
    """In the middle of bulk."""
    world.far.forget()
    recipients = [f"s{n}@{NAMES[n % 6]}" for n in range(100)]
    world.submit(*recipients)
    world.wait_delivered(10)
    world.postern.stop()
    accepted = world.submit("root", "t@" + NAMES[1])
    recipients.append("t@" + NAMES[1])
    test.wait_for(lambda: world.local() == ["root", "root"], "local mail is delivered")
    took = time.monotonic() - accepted
    test.check(took < INTERVAL + 2, f"Postern stopped: local mail goes within an interval of "
               f"{INTERVAL} s (after {took:.1f} s)")
    world.wait_delivered(len(recipients))
    world.each_once(recipients, "Postern stopped: each once")
    took = world.far.when()["t@" + NAMES[1]] - accepted
    test.check(took < INTERVAL + 5, f"Postern stopped: mail goes within an interval, and what it "
               f"takes (after {took:.1f} s)")
    world.none_queued()


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
    world.postern.start()
    beside(test, world)
    stopped(test, world)


main(body, hosts=SITES, addresses=list(SITES), before=find_root)
