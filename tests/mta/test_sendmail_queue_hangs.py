#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""Real Sendmail, whose queue Postern runs: a site that accepts and never greets holds up
nobody else for longer than a run with several sites waits for one."""
import time

from lib.driven import Driven, hosts
from lib.sendmail import find_root
from lib.testing import main

SITES = hosts(10)
ADDRESSES, NAMES = list(SITES), list(SITES.values())
HANGS, FRESH = 3, 8
SETTINGS = """window = { initial_destination_concurrency = 3; destination_concurrency_limit = 3; };
"""


def behind_it(test, world):
    """In one file: twelve recipients at the site that hangs, and eight at another one, of
    which nothing is known; then the same when it is known that the site hangs."""
    world.far.forget()
    world.far.tell([ADDRESSES[HANGS]], does="silent")
    others = [f"behind{n}@{NAMES[FRESH]}" for n in range(8)]
    begun = time.monotonic()
    world.submit(*(f"hangs{n}@{NAMES[HANGS]}" for n in range(12)), *others)
    took = test.poll(lambda: world.far.count() >= 8, 40)
    test.check(took is not None, f"what stands in one file with a site that hangs, behind it, "
               f"goes {time.monotonic() - begun:.1f} s later")
    others += [f"again{n}@{NAMES[0]}" for n in range(4)]
    world.submit(*(f"hangs{n}@{NAMES[HANGS]}" for n in range(12, 24)), *others[8:])
    test.within(3.0, lambda: world.far.count() >= 12, "the next time it does not wait for it")
    world.each_once(others, "each once")


def one_hangs(test, world):
    """All ten get mail in one message and in many; the other nine have theirs soon."""
    world.far.forget()
    world.far.tell([ADDRESSES[HANGS]], does="silent")
    recipients = [f"u{n}@{NAMES[n % 10]}" for n in range(60)]
    others = [who for who in recipients if not who.endswith(NAMES[HANGS])]
    begun = time.monotonic()
    world.submit(*recipients[:30])
    world.submit_each(recipients[30:])
    took = test.poll(lambda: world.far.count() >= len(others), 25)
    test.check(took is not None, f"a site that hangs: the mail of the nine others is "
               f"delivered, {world.far.count()} of {len(others)} in {time.monotonic() - begun:.1f} s")
    world.each_once(others, "each once")
    state = world.far.state()[ADDRESSES[HANGS]]
    test.check(state["open"] <= 3, f"the site that hangs has {state['open']} connections, "
               "its window being 3")


def body(test):
    world = Driven(test, SITES, processes=3, settings=SETTINGS, mta='retry = "1s"; stall = "1s";')
    behind_it(test, world)
    one_hangs(test, world)


main(body, hosts=SITES, addresses=ADDRESSES, before=find_root)
