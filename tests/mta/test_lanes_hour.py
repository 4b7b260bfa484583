#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""A lookup a second: none fails, and Postfix has nothing to warn of.  In its long form for longer
than spawn(8) lets a process live."""
import re
import time

from lib.limiter import Limiter
from lib.routing import REMOTE, Routing, Site
from lib.testing import main

PORT = 2025
HOSTS = {"192.0.2.11": "one.example", "192.0.2.12": "two.example", "192.0.2.13": "sender.example"}
ROUNDS = 8
DELIVERED = re.compile(r"lane\d+/smtp\[\d+\]: \w+: to=<u\d+-@(?:one|two)\.example>.* status=sent")
WARNING = re.compile(r"^.*(?:warning|error|fatal|panic): .*$", re.M)


def body(test):
    rounds = test.rounds or ROUNDS
    sink = Limiter(test, list(HOSTS)[:2], REMOTE, seconds=0)
    site = Site(test, "A", [PORT], "", mta=f"ports = [ {REMOTE} ];")
    routing = Routing(test, [site])
    routing.postern.start()
    routing.attach(site)
    for domain in ("one.example", "two.example"):
        routing.round(site, [f"u@{domain}"])
        test.wait_for(lambda: routing.ask(site, f"u@{domain}").startswith("OK lane"),
                      f"{domain}: a lane")
    before = len(site.postfix.log_text())
    start = time.monotonic()
    for number in range(rounds):
        site.postfix.send(site.port, ("one.example", "two.example")[number % 2], user=f"u{number}-")
        time.sleep(max(0, start + number + 1 - time.monotonic()))
    test.wait_for(lambda: len(sink.delivered) >= rounds + 2, "all is delivered")
    log = site.postfix.log_text()[before:]
    test.equal(len(DELIVERED.findall(log)), rounds,
               f"{rounds} messages in {time.monotonic() - start:.0f} s, each by a lane")
    test.equal(WARNING.findall(log)[:5], [], "Postfix warns of nothing")


main(body, hosts=HOSTS, addresses=list(HOSTS), seconds=4000)
