#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""Real Postfix, and a site that refuses nothing: above five sessions each message takes two
seconds more.  Its ceiling is found from the log's durations, and its mail goes faster for it."""
import time

from lib.limiter import Limiter
from lib.outbound import REMOTE, Outbound
from lib.postern import one_class
from lib.testing import main

PORT, LIMIT, SLOW, WAVE, WAVES = 2025, 5, 2, 40, 10
TARPIT = "192.0.2.11"
HOSTS = {TARPIT: "tarpit.example"}


class Tarpit(Limiter):
    slow = 0                            # messages that took longer

    def take(self):
        if self.open > LIMIT:
            self.slow += 1
            time.sleep(SLOW)            # LINT-SLEEP: what makes it a tarpit
        super().take()


def row_of(site):
    return next((row for row in site.postern.ask("destinations") if row["name"] == "tarpit.example"),
                {})


def has_ceiling(site):
    return 0 < (row_of(site).get("ceiling") or 0) <= LIMIT + 1


def found(test, site, server):
    """A wave comes when the one before is nearly delivered, until one goes by wider lanes."""
    sent = 0
    while sent < WAVES * WAVE and not has_ceiling(site):
        site.postfix.send(PORT, "tarpit.example", WAVE, user=f"w{sent}-")
        sent += WAVE
        test.wait_for(lambda: has_ceiling(site) or server.count("tarpit.example") >= sent - 10,
                      "a wave is delivered, or the ceiling is found", 60)
    test.wait_for(lambda: has_ceiling(site), "its ceiling is found", 30)
    test.say(f"ceiling {row_of(site)['ceiling']} after {server.slow} slow messages of {sent}")
    test.wait_for(lambda: server.count("tarpit.example") == sent, "all are delivered", 60)
    test.wait_for(lambda: server.open == 0, "no connection is kept", 20)


def used(test, site, server):
    server.clear()
    server.slow, before = 0, server.count("tarpit.example")
    site.postfix.send(PORT, "tarpit.example", 60, user="later")
    test.wait_for(lambda: server.count("tarpit.example") == before + 60, "all are delivered", 60)
    test.say(f"{server.slow} of 60 slow, {server.most} at once")
    test.check(server.most <= LIMIT + 1, "by its ceiling, and a canary")
    test.check(server.slow <= 6, "few of them were slow")


def body(test):
    server = Tarpit(test, [TARPIT], REMOTE)
    site = Outbound(test, PORT, [one_class("all", 1000)])
    test.wait_for(lambda: site.ask("u@tarpit.example") == "OK lane5:",
                  "lanes for what was never seen")
    found(test, site, server)
    used(test, site, server)
    test.equal(server.refused, 0, "refused")


main(body, hosts=HOSTS, addresses=list(HOSTS), seconds=200)
