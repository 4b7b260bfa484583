#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""Real Postfix, and 60 messages at once for a site that takes 3 sessions: it is not suspended, its
limit is found, all is delivered.  A site where nobody listens is suspended as ever, and so is
one that says no to all, after a few tries."""
from lib.limiter import Limiter
from lib.outbound import REMOTE, Outbound
from lib.postern import one_class
from lib.testing import main

PORT, BURST, LIMIT = 2025, 60, 3
FULL, DEAD, NO = "192.0.2.11", "192.0.2.12", "192.0.2.13"
HOSTS = {FULL: "full.example", DEAD: "dead.example", NO: "no.example"}
SETTINGS = 'window = { suspend = "10m"; };\n'


def row_of(site, name):
    return next((row for row in site.postern.ask("destinations") if row["name"] == name), {})


def suspensions(site, name):
    return [line for line in site.postern.log_text().splitlines()
            if "event=suspended" in line and f"destination={name} " in line]


def burst(test, site, server):
    site.postfix.send(PORT, "full.example", BURST)
    test.wait_for(lambda: row_of(site, "full.example").get("ceiling") == LIMIT, "its limit is found", 20)
    # those few that were refused wait for Postfix, as they would without Postern
    test.poll(lambda: server.count("full.example") >= BURST, 20)
    early = server.count("full.example")
    if early < BURST:
        site.postfix.flush()
    test.wait_for(lambda: server.count("full.example") >= BURST, "all are delivered", 20)
    test.say(f"{early} of {BURST} before a queue run; {server.refused} refused")
    test.check(early >= BURST * 3 // 4, "most of them at once")
    test.equal(suspensions(site, "full.example"), [], "a site that takes 3 was not suspended")
    test.equal(server.most, LIMIT, "sessions at once")


def no_answer(test, site):
    site.postfix.send(PORT, "dead.example", BURST)
    test.wait_for(lambda: suspensions(site, "dead.example"), "nobody listens: suspended", 10)
    test.equal(row_of(site, "dead.example").get("state"), "dead", "and is dead")


def always_no(test, site, server):
    """Postfix suspends the lane, and one message after the other is tried by another."""
    site.postfix.send(PORT, "no.example", BURST)
    test.wait_for(lambda: suspensions(site, "no.example"), "it says no to all: suspended", 30)
    test.say(f"after {server.connections} connections")
    test.check(server.connections <= BURST, "not all of the burst was tried")


def body(test):
    full = Limiter(test, [FULL], REMOTE, LIMIT, seconds=0.1)
    no = Limiter(test, [NO], REMOTE, 0)
    site = Outbound(test, PORT, [one_class("all", 1000)], settings=SETTINGS)
    test.wait_for(lambda: site.ask("u@full.example") == "OK lane5:", "lanes for what was never seen")
    burst(test, site, full)
    no_answer(test, site)
    always_no(test, site, no)


main(body, hosts=HOSTS, addresses=list(HOSTS), seconds=100)
