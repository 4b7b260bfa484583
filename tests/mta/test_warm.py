#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""Real Postfix, and a source address that is warmed up: mail goes by its transport while the number
of the day lasts, through kills of each role, and of all of Postern; then it waits.  Another source
has what is above the number of the first.  Without Postern mail takes its usual route."""
import os
import re
import signal

from lib.outbound import REMOTE, Outbound
from lib.postern import one_class
from lib.sink import Sink
from lib.testing import main

PORT, FIRST, SECOND, RAISED = 2025, 12, 8, 14
ONE, OTHER = "198.51.100.11", "198.51.100.12"
HOSTS = {ONE: "one.example", OTHER: "other.example"}
SETTINGS = """hints = { group = "nogroup"; };
sources = ( { name = "ip2"; transport = "smtp-ip2"; warm = { plan = [ %d, 100 ]; per = "source"; }; },
  { name = "ip3"; transport = "smtp-ip3"; warm = { plan = [ %d, 100 ]; per = "source"; }; } );
"""
SERVICES = [f"smtp-ip{n} unix - - n - - smtp\n  -o syslog_name=postfix-A/smtp-ip{n}\n"
            f"  -o smtp_bind_address=127.0.0.{n}\n" for n in (2, 3)]
# Postfix itself tries nothing again meanwhile.
PATIENT = """queue_run_delay = 2h
minimal_backoff_time = 2h
maximal_backoff_time = 4h
"""
WAITS = "OK retry:4.7.1 Postern: warm-up of ip3: the number of the day is used"


class World:
    def __init__(self, test):
        self.test = test
        self.sink = Sink(test, list(HOSTS), REMOTE)
        self.site = Outbound(test, PORT, [one_class("all", 10000)], main=PATIENT,
                             services=SERVICES, settings=SETTINGS % (FIRST, SECOND))
        self.postfix = self.site.postfix
        test.wait_for(lambda: self.sent(self.given()) == (0, 0) and self.left() >= FIRST,
                      "the journal has the first numbers, and postern-lookup")

    def given(self):
        return self.postfix.log_until_now()

    def sent(self, text=None):
        """By each of the sources."""
        text = self.postfix.log_until_now() if text is None else text
        return tuple(len(re.findall(fr"smtp-ip{n}/smtp\[\d+\]: .*status=sent", text)) for n in (2, 3))

    def left(self):
        """Numbers that are released: read as they lie in the file, at 64 bytes, 16 each."""
        with open(f"{self.site.state}.hints.given", "rb") as file:
            data = file.read()
        at = 56
        return sum(int.from_bytes(data[at + 16 * n + 8:at + 16 * n + 12], "little") for n in (0, 1))


def used(test, world):
    """All at once, and nobody was ever sent to."""
    count = FIRST + SECOND + 6
    world.postfix.send(PORT, "one.example", count, user="a")
    test.wait_for(lambda: world.sent() == (FIRST, SECOND), "each has its number", 30)
    test.wait_for(lambda: world.postfix.log_text().count("Postern: warm-up of ip3") >= 6,
                  "the rest waits, and its log line says why")
    test.equal(world.site.ask("x@one.example"), WAITS, "new mail waits, too")
    test.equal(world.site.ask("x@other.example"), WAITS, "that for others as well")


def raised(test, world):
    """By a reload: what waits goes, without a queue run."""
    file = world.site.postern.file
    file.write_text(file.read_text().replace(f"plan = [ {SECOND}, ", f"plan = [ {RAISED}, "))
    world.site.postern.ask("reload")
    test.wait_for(lambda: world.sent() == (FIRST, RAISED), "what waited goes", 30)
    test.equal((len(world.sink.delivered), len(set(world.sink.delivered))),
               (FIRST + RAISED, FIRST + RAISED), "each message once")


def killed(test, world):
    """Each role, and all of it: the number stays used."""
    for role in ("keeper.0", "feed.0", "policy.0", "keeper.0"):
        os.kill(world.site.postern.roles()[role], signal.SIGKILL)
        test.wait_for(lambda: world.site.postern.roles().get(role), f"{role} is back")
        world.postfix.send(PORT, "one.example", 2, user=role[0])
    world.site.postern.kill()
    world.site.postern.start()
    test.wait_for(lambda: world.site.ask("x@one.example") == WAITS, "it is known after a restart")
    world.postfix.flush()
    test.equal(world.sent(), (FIRST, RAISED), "and no message more went")


def without(test, world):
    world.site.postern.kill()
    test.wait_for(lambda: world.site.ask("x@one.example") == "NOTFOUND", "the hints are stale", 15)
    before = len(world.sink.delivered)
    world.postfix.send(PORT, "other.example", 5)
    test.within(10, lambda: len(world.sink.delivered) == before + 5,
                "without Postern mail takes its usual route")
    test.equal(world.sent(), (FIRST, RAISED), "and not that of the sources")


def body(test):
    test.deaths_expected = True
    world = World(test)
    used(test, world)
    raised(test, world)
    killed(test, world)
    without(test, world)


main(body, hosts=HOSTS, addresses=list(HOSTS))
