#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""Real Postfix, and a destination with a pace: never more messages in any time than the pace
and its burst allow, hardly fewer while mail waits, the oldest first, none lost and none twice;
other mail is not held.  Roles are killed meanwhile; without Postern mail goes at once."""
import os
import re
import signal
import time

from lib import web
from lib.outbound import REMOTE, Outbound
from lib.pace import rate, worst
from lib.postern import one_class
from lib.sink import Sink
from lib.testing import main

PORT, PER_MINUTE, BURST, SLACK = 2025, 120, 3, 2
PACED, OTHER = "198.51.100.11", "198.51.100.12"
HOSTS = {PACED: "paced.example", OTHER: "other.example"}
SETTINGS = f"""destinations = ( {{ match = [ "paced.example" ];
  pace = "{PER_MINUTE}/1m"; pace_burst = {BURST}; }} );
"""
# Postfix itself tries nothing again meanwhile.
PATIENT = """queue_run_delay = 2h
minimal_backoff_time = 2h
maximal_backoff_time = 4h
"""


class Times(list):
    """When mail for paced.example was taken, beside what was taken."""

    def __init__(self):
        super().__init__()
        self.at = []

    def __iadd__(self, addresses):
        self.at += [time.monotonic() for address in addresses
                    if address.endswith("@paced.example")]
        return super().__iadd__(addresses)


class World:
    def __init__(self, test):
        self.test = test
        self.sink = Sink(test, list(HOSTS), REMOTE)
        self.site = Outbound(test, PORT, [one_class("all", 10000)], settings=SETTINGS,
                             main=PATIENT, metrics=True)
        self.postfix = self.site.postfix
        self.fresh()
        for name in ("paced.example", "other.example"):
            self.postfix.send(PORT, name, 1, user="first")
        test.wait_for(lambda: len(self.sink.delivered) == 2, "each was delivered to once")
        test.wait_for(lambda: not self.sink.open, "no connection is kept any more")
        test.wait_for(self.is_paced, "the hints have its pace")

    def fresh(self):
        self.sink.delivered = Times()

    def is_paced(self):
        answers = self.site.ask_often("x@paced.example", BURST + 2)
        return answers[-1].startswith("OK retry:4.7.1 Postern: pace of paced.example is ")

    def paced(self):
        return [address for address in self.sink.delivered if address.endswith("@paced.example")]

    def send(self, count, user):
        self.postfix.send(PORT, "paced.example", count, user=user)

    def deferred(self):
        return re.findall(r"(\w+): to=<[^>]*@paced\.example>.* status=deferred",
                          self.postfix.log_text())


def judge(test, world, count, text, least=None):
    at = world.sink.delivered.at
    most, kept = worst(at, PER_MINUTE), rate(at[BURST:])
    test.check(most <= BURST + SLACK,
               f"{text}: never more than the burst and {SLACK} above the pace ({most:.1f})")
    test.equal((len(world.paced()), len(set(world.paced()))), (count, count),
               f"{text}: none is lost, none is sent twice")
    if least:
        test.check(kept >= least * PER_MINUTE, f"{text}: at {kept:.0f} a minute")


def delays():
    """Deliveries, those within a second, and seconds of all."""
    name, got = "postern_delivery_delay_seconds", web.metrics()
    return (got[f"{name}_count", "provider", "other"],
            got[f"{name}_bucket", "le", "1", "provider", "other"],
            got[f"{name}_sum", "provider", "other"])


def steady(test, world, count):
    """All at once, others beside it."""
    told, oldest = delays(), ("postern_waiting_oldest_seconds", "reason", "pace")
    world.send(count, "one")
    world.postfix.send(PORT, "other.example", 30)
    test.within(5, lambda: len(world.sink.delivered) - len(world.paced()) == 30,
                "mail for others is not held")
    test.wait_for(lambda: len(world.deferred()) >= count - BURST - 3, "the rest waits")
    world.send(3, "late")
    test.wait_for(lambda: 1 <= web.metrics()[oldest] < 60, "metrics have the age of the oldest")
    test.wait_for(lambda: len(world.paced()) >= count + 3, "all is delivered", 60)
    test.wait_for(lambda: web.metrics()[oldest] == 0, "nothing waits")
    test.wait_for(lambda: delays()[0] - told[0] == count + 33, "the delay of each is counted")
    got = delays()
    test.check(got[1] - told[1] >= 30 and got[2] > told[2] and got[1] < got[0],
               "some took longer than a second")
    judge(test, world, count + 3, "steady", 0.9)
    late = [n for n, address in enumerate(world.paced()) if "late" in address]
    test.check(min(late) >= count - 3, f"the oldest went first: the last ones were {late}")
    again = len(world.deferred()) - len(set(world.deferred()))
    test.check(again <= max(1, count // 20), f"{again} messages were deferred more than once")


def manual(test, world):
    """At 3 a.m.: other.example, which has none."""
    ask, count = world.site.postern.ask, len(world.sink.delivered)
    row = ask("limit", "other.example", "--pace", "30/1m")
    test.equal(row["pace"], "30/1m", "a manual pace")
    test.wait_for(lambda: world.site.ask_often("x@other.example", 3)[-1].startswith(
        "OK retry:4.7.1 Postern: pace of other.example is 30/1m (manual)"), "the hints have it")
    world.postfix.send(PORT, "other.example", 5, user="slow")
    test.wait_for(lambda: "(Postern: pace of other.example is 30/1m (manual))" in
                  world.postfix.log_text(), "mail waits for it")
    explained = ask("explain", "destination", "other.example")
    test.equal((explained["pace"], explained["pace_by"], explained["pace_rises"]), ("30/1m", "hand", None),
               "explain tells whose it is")
    test.equal(ask("explain", "destination", "paced.example")["pace_by"], "setting", "and of a configured one")
    test.check("pace set to 30/1m by an administrator" in world.site.postern.log_text(), "the log tells it")
    world.site.postern.kill()
    world.site.postern.start()
    test.equal(ask("explain", "destination", "other.example")["pace_by"], "hand", "a restart keeps it")
    ask("limit", "other.example", "--pace", "none")
    test.wait_for(lambda: len(world.sink.delivered) == count + 5, "all goes when it is ended")
    test.equal(ask("explain", "destination", "other.example")["pace"], None, "and there is none any more")


def killed(test, world, count):
    """Each role, while mail waits."""
    world.fresh()
    world.send(count, "two")
    for number, role in enumerate(("feed.0", "keeper.0", "policy.0", "feed.0")):
        test.wait_for(lambda: len(world.paced()) > 4 + 3 * number, "mail goes")
        os.kill(world.site.postern.roles()[role], signal.SIGKILL)
        test.wait_for(lambda: world.site.postern.roles().get(role), f"{role} is back")
    test.wait_for(lambda: len(world.paced()) >= count, "all is delivered", 60)
    judge(test, world, count, "killed")


def without(test, world, count):
    """Postern ends: what comes goes at once when its last sign of life is old."""
    world.fresh()
    world.site.postern.kill()
    test.wait_for(lambda: not world.is_paced(), "the hints are stale", 10)
    world.send(count, "three")
    test.within(10, lambda: len(world.paced()) == count, "without Postern all goes at once")


def body(test):
    """--rounds N (soak): N messages."""
    test.deaths_expected = True
    world = World(test)
    world.fresh()
    steady(test, world, test.rounds or 14)
    manual(test, world)
    killed(test, world, 16)
    without(test, world, 20)


main(body, hosts=HOSTS, addresses=list(HOSTS))
