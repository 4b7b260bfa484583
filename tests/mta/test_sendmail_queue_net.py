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
    test.within(INTERVAL + 2, lambda: world.local() == ["root", "root"],
                f"Postern stopped: local mail goes within an interval of {INTERVAL} s")
    test.within(INTERVAL + 5 - (time.monotonic() - accepted),
                lambda: "t@" + NAMES[1] in world.far.when(),
                "Postern stopped: mail goes within an interval, and what it takes")
    world.wait_delivered(len(recipients))
    world.each_once(recipients, "Postern stopped: each once")
    world.none_queued()


def never_started(test, world):
    world.submit("root", *(f"n{n}@{NAMES[n % 6]}" for n in range(60)))
    test.within(INTERVAL + 5, lambda: world.far.count() >= 60, "Postern was never started: all is "
                f"delivered, the interval being {INTERVAL} s")
    test.wait_for(lambda: world.local() == ["root"], "local mail is delivered")
    world.each_once([f"n{n}@{NAMES[n % 6]}" for n in range(60)], "never started: each once")
    world.none_queued()


def body(test):
    world = Driven(test, SITES, processes=4, interval=f"{INTERVAL}s", start=False)
    never_started(test, world)
    world.postern.start()
    beside(test, world)
    stopped(test, world)


main(body, hosts=SITES, addresses=list(SITES), before=find_root)
