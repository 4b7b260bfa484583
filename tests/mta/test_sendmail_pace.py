#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""Real Sendmail, whose queue Postern runs, and a destination with a pace: never more messages
in any time than the pace and its burst allow, hardly fewer while mail waits; other mail goes at
once; a message takes one token, however many recipients it has."""
import time

from lib.driven import Driven, hosts
from lib.pace import rate, worst
from lib.sendmail import find_root
from lib.testing import main

SITES = hosts(3)
NAMES = list(SITES.values())
PER_MINUTE, BURST, SLACK = 120, 2, 2
SETTINGS = f"""destinations = ( {{ match = [ "{NAMES[0]}" ]; pace = "{PER_MINUTE}/1m";
  pace_burst = {BURST}; }} );
"""


def at_the_pace(test, world, count):
    paced = [f"p{n}@{NAMES[0]}" for n in range(count)]
    others = [f"o{n}@{NAMES[1]}" for n in range(20)]
    begun = time.monotonic()
    world.submit_each(paced[:count // 2] + others + paced[count // 2:])
    test.wait_for(lambda: all(who in world.far.when() for who in others), "other mail goes")
    took = time.monotonic() - begun
    test.check(took < 5, f"other mail goes at once ({took:.1f} s)")
    world.wait_delivered(count + 20, 60)
    world.each_once(paced + others, "all is delivered, each once")
    times = sorted(world.far.when()[who] for who in paced)
    most = worst(times, PER_MINUTE)
    test.check(most <= BURST + SLACK,
               f"never more than the burst and {SLACK} above the pace ({most:.1f})")
    kept = rate(times[BURST:])
    test.check(kept >= 0.9 * PER_MINUTE, f"at {kept:.0f} a minute while mail waits")
    deferred = world.syslog().count("deferred by Postern: pace of ")
    test.check(deferred <= count // 5, f"{deferred} lines for {count} messages that waited")


def several_recipients(test, world):
    """Four messages of five each: two go at once, two a half and a whole second later."""
    world.far.forget()
    time.sleep(1.5)  # LINT-SLEEP: the bucket fills
    everybody = [[f"m{n}r{k}@{NAMES[0]}" for k in range(5)] for n in range(4)]
    for recipients in everybody:
        world.submit(*recipients)
    world.wait_delivered(20)
    times = [max(world.far.when()[who] for who in recipients) for recipients in everybody]
    took = max(times) - min(times)
    test.check(took < 2.5, f"four messages of five recipients: within {took:.1f} s")
    test.check(took > 0.7, "not before there are tokens")


def body(test):
    """--rounds N (soak): N messages."""
    world = Driven(test, SITES, processes=4, settings=SETTINGS)
    at_the_pace(test, world, test.rounds or 24)
    several_recipients(test, world)


main(body, hosts=SITES, addresses=list(SITES), before=find_root)
