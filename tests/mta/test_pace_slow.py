#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""Real Postfix, and a site that answers 421 4.7.28 to what is above its rate: a rule with the action
slow teaches the pace, which is kept, seen and remembered; the window stays open, other mail goes at
once; what was refused goes, too, though Postfix itself tries nothing again, and all is delivered."""
import re
import time

from lib.outbound import REMOTE, Outbound
from lib.pace import Limits
from lib.postern import one_class
from lib.sink import Sink
from lib.testing import main

PORT, MOST, SECONDS = 2025, 6, 3        # of the site, which takes two a second
SLOW, OTHER = "198.51.100.11", "198.51.100.12"
HOSTS = {SLOW: "slow.example", OTHER: "other.example"}
RULES = """version = 1;
replies = ( { name = "rate"; match = "^421 4\\\\.7\\\\.28"; action = "slow"; by = "50%";
  floor = "30/1m"; up = "10%/5s"; note = "above the rate of our address"; } );
"""
PATIENT = """queue_run_delay = 2h
minimal_backoff_time = 2h
maximal_backoff_time = 4h
"""


class World:
    def __init__(self, test):
        self.test = test
        self.sink = Sink(test, list(HOSTS), REMOTE)
        self.sink.replies = Limits({"slow.example": (MOST, SECONDS)},
                                   "421 4.7.28 unusual rate of mail from your address")
        self.limit = self.sink.replies["slow.example"]
        rules = test.directory / "rules.conf"
        rules.write_text(RULES)
        self.site = Outbound(test, PORT, [one_class("all", 10000)], main=PATIENT,
                             settings=f'providers = "{rules}";\n')
        self.postern, self.postfix = self.site.postern, self.site.postfix

    def taken(self, domain):
        return [address for address in self.sink.delivered if address.endswith("@" + domain)]

    def row(self):
        return next(row for row in self.postern.ask("destinations") if row["name"] == "slow.example")

    def explained(self):
        return self.postern.ask("explain", "destination", "slow.example")


def taught(test, world, count):
    begin = time.monotonic()
    world.postfix.send(PORT, "slow.example", count)
    test.wait_for(world.limit.refused, "the site refuses what is above its rate")
    test.wait_for(lambda: world.row()["pace"], "the pace is learned")
    world.postfix.send(PORT, "other.example", 20)
    test.within(5, lambda: len(world.taken("other.example")) == 20, "mail for others goes at once")
    test.wait_for(lambda: world.explained()["binds"] == "pace", "mail waits for the pace")
    explained = world.explained()
    test.check(explained["pace"] and explained["pace_limit"] is None, "a learned pace, none configured")
    test.wait_for(lambda: len(world.taken("slow.example")) >= count, "all is delivered", 120)
    took = time.monotonic() - begin
    late = [at for at in world.limit.refused() if at > begin + took / 2]
    test.say(f"{count} messages in {took:.0f} s, {len(world.limit.refused())} refused, {len(late)} of them "
             f"in the second half")
    test.equal((len(world.taken("slow.example")), len(set(world.taken("slow.example")))), (count, count),
               "none is lost, none is sent twice")
    test.check(len(late) <= count // 6, f"few are refused once it is learned: {len(late)}")
    test.check(took < 2.2 * count * SECONDS / MOST, f"{count} messages in {took:.0f} s")
    held = len(re.findall(r"status=deferred \(Postern: pace of slow\.example is \S+ \(learned\)\)",
                          world.postfix.log_text()))
    test.check(held <= count + 6, f"{held} lines for mail that waited")


def seen(test, world):
    row = world.row()
    test.check(row["state"] in ("open", "limited"), f"the window is {row['state']}")
    test.check(row["pace"].partition("/")[2] in ("1s", "1m", "1h"), f"its pace: {row['pace']}")
    head = world.postern.command("destinations", json_output=False).stdout.splitlines()[0]
    test.check("pace" in head.split(), "as text, too")
    why = world.postern.command("why", "slow.example", json_output=False).stdout
    test.check("pace of" in why and "421 4.7.28 unusual rate" in why, "why tells the reply")
    test.check("event=pace " in world.postern.log_text() and
               "destination=slow.example" in world.postern.log_text(), "the log tells it")
    counters = world.postern.status()["counters"]
    test.check(counters["paces_lowered"] > 0, f"lowered {counters['paces_lowered']} times")
    test.equal(counters["suspensions"], 0, "nothing was suspended")


def kept(test, world):
    pace = world.row()["pace"]
    world.postern.kill()
    world.postern.start()
    test.equal(world.row()["pace"], pace, "a restart keeps it")
    world.postern.ask("forget", "slow.example")
    test.equal(world.explained()["pace"], None, "forget forgets it")


def body(test):
    """--rounds N (soak): N messages."""
    test.deaths_expected = True
    world = World(test)
    taught(test, world, test.rounds or 44)
    seen(test, world)
    kept(test, world)


main(body, hosts=HOSTS, addresses=list(HOSTS))
