#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""Real Sendmail, whose queue Postern runs: kill -9 of posternd while its runs deliver.  They go
on, and end with nobody there to see it: what they leave is no failure, and waits for no retry
time (5 minutes).  --rounds N: so many times."""

from lib.driven import Driven, hosts
from lib.sendmail import find_root
from lib.testing import main

SITES = hosts(10)
NAMES = list(SITES.values())
MESSAGES, KILLS = 50, 3


def kill_and_start(world):
    world.postern.kill()
    world.postern.start_again()


def late(test, world, number):
    world.far.forget()
    recipients = []
    for n in range(MESSAGES):
        pair = [f"r{number}a{n}@{NAMES[n % 10]}", f"r{number}b{n}@{NAMES[(n * 7 + 3) % 10]}"]
        recipients += pair
        world.submit(*pair)
    for n in range(KILLS):
        test.wait_for(lambda n=n: world.far.count() >= (n + 1) * 25, "mail goes on", 30)
        kill_and_start(world)
    took = test.poll(lambda: world.sendmail.queued() == 0, 20)
    waiting = [row["waits_for"] for row in world.postern.ask("sendmail", "queue")]
    test.check(took is not None, f"round {number}: {KILLS} kills of posternd: nothing waits for a "
               f"retry time ({waiting})")
    world.each_once(recipients, f"round {number}: each of {len(recipients)} recipients once")
    return took is not None


def body(test):
    test.deaths_expected = True
    world = Driven(test, SITES, processes=4, delay=0.05)
    for number in range(test.rounds or 2):
        if not late(test, world, number):
            break


main(body, hosts=SITES, addresses=list(SITES), before=find_root)
