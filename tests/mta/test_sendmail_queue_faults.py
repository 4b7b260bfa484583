#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""Real Sendmail, whose queue Postern runs: what is put off is tried again, a bounce goes at
once, a site that is dead is left alone and gets its mail at once when it is back."""
from lib.driven import Driven, hosts
from lib.sendmail import find_root
from lib.testing import main

SITES = hosts(10)
ADDRESSES, NAMES = list(SITES), list(SITES.values())
DEAD = 5
SETTINGS = """window = { initial_destination_concurrency = 3; destination_concurrency_limit = 3;
  suspend = "2s"; canary = "500ms"; };
"""


def dead_and_back(test, world):
    """Nobody listens: after a few tries it is left alone."""
    world.far.forget()
    world.far.close(ADDRESSES[DEAD])
    recipients = [f"d{n}@{NAMES[DEAD]}" for n in range(20)]
    world.submit_each(recipients)
    name = NAMES[DEAD]

    def row():
        return next((row for row in world.postern.ask("destinations", name)), {})
    test.wait_for(lambda: row().get("state") == "dead", "the site is known to be dead")
    world.submit("e@" + NAMES[0])
    world.wait_delivered(1)
    test.within(5.0, lambda: world.sendmail.queued() == 20,
                "other mail goes, that of the dead site waits")
    before = world.syslog().count(f"Connection refused by {name}")
    world.far.open(ADDRESSES[DEAD])
    test.within(6, lambda: world.far.count() >= 21, "it is back: all its mail goes")
    test.say(f"{before} tries were refused")
    world.each_once([*recipients, "e@" + NAMES[0]], "each once")
    world.none_queued()


def put_off_and_unknown(test, world):
    """A site that says 451 is asked again after `retry`; a bounce goes at once."""
    world.far.forget()
    world.far.tell([ADDRESSES[7]], does="refusing")
    world.submit("later@" + NAMES[7], "now@" + NAMES[8])
    world.submit("unknown@" + NAMES[8], sender="from@" + NAMES[9])
    world.wait_delivered(2)
    world.each_once(["now@" + NAMES[8], "from@" + NAMES[9]],
                    "one recipient is put off, the other gets it; a bounce is delivered")
    test.wait_for(lambda: "reply=451 4.3.0 not now" in world.syslog(), "it was put off")
    world.far.tell([ADDRESSES[7]], does="good")
    world.wait_delivered(3)
    world.each_once(["now@" + NAMES[8], "from@" + NAMES[9], "later@" + NAMES[7]],
                    "put off: tried again, and delivered")
    world.none_queued()


def body(test):
    world = Driven(test, SITES, processes=3, settings=SETTINGS, mta='retry = "1s"; stall = "1s";')
    put_off_and_unknown(test, world)
    dead_and_back(test, world)


main(body, hosts=SITES, addresses=ADDRESSES, before=find_root)
