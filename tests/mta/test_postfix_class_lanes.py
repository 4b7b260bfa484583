#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""Lanes of a real Postfix are bounded by the class of their destinations: all of them together
have no more connections than its sessions, and 2, whatever comes at once."""
from concurrent.futures import ThreadPoolExecutor

from lib.limiter import Limiter
from lib.outbound import REMOTE, Outbound
from lib.postern import one_class
from lib.testing import main

PORT, LIMIT, FLOOD = 2025, 2, 12
HOSTS = {f"192.0.2.{11 + number}": f"{name}.slow.example"
         for number, name in enumerate("abcd")}
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
    """Queue runs, as an admin would make them.  A queue manager remembers for 30 s what it was
    told of the last address: where that is all that is left, a new one asks again."""
    def left():
        return len(sink.delivered) < count

    def run():
        if left() and not any(site.is_held(f"u@{name}") for name in domains):
            site.postfix.flush()
            if test.poll(lambda: not left() or sink.open > 0, 0.5) is None and left():
                site.postfix.reload()
        return not left()
    test.wait_for(run, f"all {count} messages are delivered", limit=40)


def one(test, site, sink):
    """A flood for one destination, which comes while the class is empty."""
    before = len(sink.delivered)
    site.postfix.send(PORT, "a.slow.example", FLOOD, user="one")
    all_of_it(test, site, sink, before + FLOOD, ["a.slow.example"])
    test.check(sink.most <= LIMIT + 2,
               f"{FLOOD} messages for one destination: {sink.most} at once")


def many(test, site, sink):
    """For all destinations at the same moment."""
    before, each = len(sink.delivered), 3
    emptied(test, site, sink)
    with ThreadPoolExecutor(len(SLOW)) as pool:
        list(pool.map(lambda name: site.postfix.send(PORT, name, each, user="many"), SLOW))
    all_of_it(test, site, sink, before + each * len(SLOW), SLOW)
    test.check(sink.most <= LIMIT + 2,
               f"{each * len(SLOW)} messages for {len(SLOW)} destinations: {sink.most} at once")


def slow(test, site, sink):
    """To sites that take so long that nothing is heard of one before all have begun."""
    before, sink.seconds = len(sink.delivered), 1.5
    emptied(test, site, sink)
    for name in SLOW:
        site.postfix.send(PORT, name, user="slow")
    all_of_it(test, site, sink, before + len(SLOW), SLOW)
    test.check(sink.most <= LIMIT + 2,
               f"slow mail for {len(SLOW)} destinations: {sink.most} at once")
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
    slow(test, site, sink)
    test.equal(site.postfix.log_text().count("status=bounced"), 0, "nothing bounced")


main(body, hosts=HOSTS, addresses=list(HOSTS))
