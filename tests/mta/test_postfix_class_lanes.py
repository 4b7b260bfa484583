#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""Lanes of a real Postfix are bounded by the class of their destinations: all of them together
have no more connections than its sessions, and 2, whatever comes at once."""
from concurrent.futures import ThreadPoolExecutor

from lib.limiter import Limiter
from lib.outbound import REMOTE, Outbound
from lib.postern import one_class
from lib.testing import main

PORT, LIMIT = 2025, 2
HOSTS = {f"192.0.2.{11 + number}": f"{name}.slow.example"
         for number, name in enumerate("abcdef")}
HOSTS["192.0.2.30"] = "open.example"
SLOW = [name for name in HOSTS.values() if name.endswith(".slow.example")]


def seen(test, site, sink):
    """One delivery to each; one after the other, as first-time destinations are not bounded."""
    for number, domain in enumerate(SLOW):
        site.postfix.send(PORT, domain, user="first")
        test.wait_for(lambda: len(sink.delivered) == number + 1, f"{domain} has its first mail")
    test.wait_for(lambda: all(site.explain(domain) == ("lane", "none") for domain in SLOW),
                  "all are known and have lanes")
    emptied(test, site, sink)


def emptied(test, site, sink):
    test.wait_for(lambda: sink.open == 0 and site.postern.open("slow") == 0 and
                  site.ask("u@a.slow.example").startswith("OK lane"), "the class is empty")
    sink.clear()


def all_of_it(test, site, sink, count, domains):
    def run():
        if len(sink.delivered) < count and not any(site.is_held(f"u@{name}") for name in domains):
            site.postfix.flush()
            test.poll(lambda: len(sink.delivered) == count, 0.5)
        return len(sink.delivered) == count
    test.wait_for(run, f"all {count} messages are delivered", limit=40)


def one(test, site, sink):
    """A flood for one destination, which comes while the class is empty."""
    before = len(sink.delivered)
    site.postfix.send(PORT, "a.slow.example", 30, user="one")
    all_of_it(test, site, sink, before + 30, ["a.slow.example"])
    test.check(sink.most <= LIMIT + 2, f"30 messages for one destination: {sink.most} at once")


def many(test, site, sink):
    """For all destinations at the same moment."""
    before, each = len(sink.delivered), 6
    emptied(test, site, sink)
    with ThreadPoolExecutor(len(SLOW)) as pool:
        list(pool.map(lambda name: site.postfix.send(PORT, name, each, user="many"), SLOW))
    all_of_it(test, site, sink, before + each * len(SLOW), SLOW)
    test.check(sink.most <= LIMIT + 2,
               f"{each * len(SLOW)} messages for {len(SLOW)} destinations: {sink.most} at once")
    names = [name for name, _ in sink.delivered]
    test.equal(len(names), len(set(names)), "each was delivered once")


def body(test):
    sink = Limiter(test, [address for address, name in HOSTS.items() if name in SLOW], REMOTE,
                   seconds=0.3)
    Limiter(test, ["192.0.2.30"], REMOTE)
    site = Outbound(test, PORT, [one_class("slow", LIMIT, match='"*.slow.example"'),
                                 one_class("others", 1000)])
    seen(test, site, sink)
    one(test, site, sink)
    many(test, site, sink)
    test.equal(site.postfix.log_text().count("status=bounced"), 0, "nothing bounced")


main(body, hosts=HOSTS, addresses=list(HOSTS))
