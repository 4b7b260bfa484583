#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""Real Sendmail, whose queue Postern runs, on a machine whose load is above the site's QueueLA:
its runs deliver nothing, pause, and say so; below it again, all mail goes."""
from pathlib import Path

from lib.driven import Driven, hosts
from lib.sendmail import find_root
from lib.testing import main

SITES = hosts(4)
NAMES = list(SITES.values())


def set_queue_la(cf, limit):
    """Runs read sendmail.cf at their start.  Sendmail delivers nothing where 30000 is more than
    QueueFactor (600000) / (load - QueueLA + 1): with -30 at any load."""
    lines = [line for line in Path(cf).read_text().splitlines() if not line.startswith("O QueueLA")]
    Path(cf).write_text("\n".join([f"O QueueLA={limit}", *lines, ""]))


def body(test):
    world = Driven(test, SITES, processes=3)
    set_queue_la(world.sendmail.cf, -30)
    recipients = [f"u{n}@{NAMES[n % 4]}" for n in range(12)]
    world.submit_each(recipients)
    test.wait_for(lambda: "load average too high" in world.syslog(), "Sendmail says why in its log")
    test.wait_for(lambda: "as above its QueueLA" in world.postern.log_text(),
                  "the log of Postern says that its runs do nothing")
    rows = world.postern.ask("sendmail", "queue")
    test.equal({row["wait"] for row in rows}, {"paused"}, "queue shows that its runs pause")
    test.check("QueueLA" in rows[0]["waits_for"], "and why that may be")
    test.equal(world.far.count(), 0, "nothing is delivered")
    set_queue_la(world.sendmail.cf, 1000)
    test.within(40, lambda: world.far.count() == 12, "below it: all mail goes")
    world.each_once(recipients, "each once")
    world.none_queued()


main(body, hosts=SITES, addresses=list(SITES), before=find_root)
