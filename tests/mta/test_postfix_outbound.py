#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""Real Postfix holds mail for a full class, once it has delivered there."""
from lib.outbound import MAIN, REMOTE, Outbound
from lib.postern import one_class
from lib.sink import Sink
from lib.testing import main

PORT, LIMIT = 2025, 2
HOSTS = {"192.0.2.11": "slow.example", "192.0.2.12": "slower.example",
         "192.0.2.13": "mapped.example"}
# What postern-lookup(8) states: messages that the queue manager has taken already are
# delivered by as many connections as its own limit of a destination allows.
BOUND = 20
FLOOD = 30


def not_before_a_delivery(test, site, sink):
    """Nothing is known of slow.example: its class is full, its mail goes."""
    sink.held = True
    site.postfix.send(PORT, "slow.example", LIMIT + 1)
    test.wait_for(lambda: len(sink.waiting()) == LIMIT + 1, "three deliveries wait")
    test.within(2, lambda: site.postern.open("others") == LIMIT + 1,
                "connections to a destination never delivered to go, counted by address alone")
    test.equal((site.ask("u@slow.example"), site.explain("slow.example")),
               ("NOTFOUND", ("none", "never-seen")), "no hint for what was never seen")
    sink.held = False
    test.wait_for(lambda: site.known() == 1 and site.postern.open("others") == 0,
                  "the deliveries are seen, the class is empty")


def emptied(test, site, sink):
    """Connections that Postfix keeps for the next message count until it closes them; those
    of the last moment may not have been counted yet."""
    test.wait_for(lambda: not sink.open and site.postern.open("slow") == 0 and
                  site.ask("u@slow.example") == "NOTFOUND", "the class is empty")


def fill(test, site, sink):
    """Both places taken by slow deliveries."""
    emptied(test, site, sink)
    before = len(sink.open)
    sink.held = True
    site.postfix.send(PORT, "slow.example", LIMIT, user="fill")
    test.wait_for(lambda: len(sink.waiting()) == before + LIMIT, "the class is filled")
    test.within(2, lambda: site.ask("u@slow.example").startswith("OK retry:4.7.1 Postern: "),
                "the hint says so soon after")


def drained(site, sink, count):
    site.drain("u@slow.example", lambda: len(sink.delivered) == count,
               f"{count} messages are delivered")


def holds(test, site, sink):
    fill(test, site, sink)
    text, _, tail = site.ask("U@Slow.Example").partition(" (")
    test.equal(text, f"OK retry:4.7.1 Postern: class slow has {LIMIT} of {LIMIT} sessions",
               f"its text, with an id: {tail}")
    test.equal((site.explain("slow.example"), site.explain("192.0.2.11")),
               (("retry", "none"), ("none", "odd-name")), "explain says so")
    for key in ("*", "slow.example", "u@other.example", "u@[192.0.2.11]", "@slow.example", "u@"):
        test.equal(site.ask(key), "NOTFOUND", f"no hint for {key}")
    site.postfix.send(PORT, "slow.example", FLOOD, user="flood")
    test.wait_for(lambda: site.held("slow") == FLOOD, "the flood is held")
    test.equal(len(sink.open), LIMIT, f"{FLOOD} messages more, and no connection more")
    sink.held = False
    test.within(3, lambda: site.ask("u@slow.example") == "NOTFOUND", "freed as they end")
    drained(site, sink, 2 * LIMIT + 1 + FLOOD)
    test.check(True, "all of it is delivered later")


def overshoot(test, site, sink):
    """A flood that the queue manager takes while the class is empty."""
    before = len(sink.delivered)
    emptied(test, site, sink)
    site.postfix.send(PORT, "slow.example", FLOOD, user="before")
    test.wait_for(lambda: len(sink.delivered) > before, "deliveries run")
    sink.held = True
    site.postfix.send(PORT, "slow.example", FLOOD, user="over")

    def full():
        if site.ask("u@slow.example") == "NOTFOUND":
            site.postfix.flush()
            test.poll(lambda: len(sink.waiting()) >= LIMIT, 0.5)
        return len(sink.waiting()) >= LIMIT and site.ask("u@slow.example") != "NOTFOUND"
    test.wait_for(full, "the class is full")
    held = site.held("slow")
    site.postfix.send(PORT, "slow.example", 10, user="late")
    test.wait_for(lambda: site.held("slow") >= held + 10, "later mail is held")
    most = len(sink.open)
    test.check(most <= BOUND, f"{most} connections for a limit of {LIMIT}: an overshoot of "
               f"{most - LIMIT}, not more than the stated {BOUND - LIMIT}")
    sink.held = False
    drained(site, sink, before + 2 * FLOOD + 10)


def own_maps(test, site, sink):
    """The site's own word about a domain stands, though it was delivered to before."""
    before = len(sink.delivered)
    emptied(test, site, sink)
    site.postfix.send(PORT, "mapped.example")
    test.wait_for(lambda: len(sink.delivered) == before + 1 and site.known() == 2,
                  "a delivery to mapped.example is seen")
    site.postfix.set(MAIN.replace("transport_maps =",
                                  "transport_maps = inline:{ mapped.example=discard: }"))
    found = site.read_site()
    test.equal([row["mask"] for row in found["excluded"] if row["setting"] == "transport_maps"],
               ["mapped.example"], "its entry is read")
    site.postfix.serve([*site.plain, found["lines"].replace(
        "/usr/local/sbin/postern-lookup", str(site.lookup))])
    site.postfix.reload()
    site.read_site()
    fill(test, site, sink)
    test.equal(site.explain("mapped.example"), ("none", "excluded"), "explain says so")
    site.postfix.send(PORT, "mapped.example", 3)
    test.within(5, lambda: site.postfix.log_text().count("/discard[") == 3,
                "mail for it goes where the site says while the class is full")
    test.equal(site.postfix.log_text().count("status=bounced"), 0, "nothing bounced")
    sink.held = False
    test.wait_for(lambda: len(sink.delivered) == before + 1 + LIMIT, "the places are free")


def without_postern(test, site, sink):
    before = len(sink.delivered)
    fill(test, site, sink)
    site.postern.kill()
    test.within(6, lambda: site.ask("u@slow.example") == "NOTFOUND",
                "Postern is gone: its hints are not believed for longer than 5 s")
    site.postfix.send(PORT, "slow.example", 3, user="alone")
    test.within(5, lambda: len(sink.waiting()) == LIMIT + 3, "all mail goes")
    site.state.with_name("state.hints").unlink()
    site.postfix.send(PORT, "slow.example", 3, user="nofile")
    sink.held = False
    test.wait_for(lambda: len(sink.delivered) == before + LIMIT + 6,
                  "without the file, too")


def body(test):
    sink = Sink(test, HOSTS, REMOTE)
    site = Outbound(test, PORT, [
        one_class("slow", LIMIT, match='"slow.example", "slower.example", "mapped.example"'),
        one_class("others", 100)], mta="lanes = [ ];")      # test_postfix_windows.py has them
    not_before_a_delivery(test, site, sink)
    holds(test, site, sink)
    overshoot(test, site, sink)
    own_maps(test, site, sink)
    without_postern(test, site, sink)


main(body, hosts=HOSTS, addresses=list(HOSTS))
