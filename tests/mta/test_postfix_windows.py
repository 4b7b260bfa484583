#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""Real Postfix keeps the windows of destinations: its mail goes by lanes as
conf/postfix-hints.master.cf has them, a suspended destination is held without a
connection, and comes back."""
from lib.limiter import Limiter
from lib.outbound import REMOTE, Outbound
from lib.postern import one_class
from lib.testing import main

PORT = 2025
HOSTS = {"192.0.2.11": "limited.example", "192.0.2.12": "gone.example",
         "192.0.2.13": "open.example"}
LANES = (1, 2, 3, 5, 10, 20)


def lines_of(site, domain):
    return [line for line in site.postfix.log_text().splitlines() if f"@{domain}>" in line]


def by_lane(site, domain):
    """width -> deliveries, tried ones; 0: the transport itself."""
    found = {}
    for line in lines_of(site, domain):
        for width in (0, *LANES):
            if f"postfix-A/lane{width}/smtp[" in line or width == 0 and "postfix-A/smtp[" in line:
                found[width] = found.get(width, 0) + 1
    return found


def seen(test, site, domain):
    """One delivery, by the lanes of a new window; then its own window has lanes."""
    test.wait_for(lambda: all("lane" in answer for answer in site.ask_often(f"u@{domain}", 3)),
                  f"{domain} has the lanes of a new window")
    site.postfix.send(PORT, domain)
    test.wait_for(lambda: site.explain(domain) == ("lane", "none"),
                  f"{domain} was delivered to, its window has lanes")


def carried(test, site, sink):
    """The window of 7, as two lanes; no connection more."""
    seen(test, site, "open.example")
    site.postern.ask("limit", "open.example", "--window", 7, "--ceiling", 7, "--for", "1h")
    test.within(0.5, lambda: set(site.ask_often("u@open.example", 9)) ==
                {"OK lane5:", "OK lane2:"}, "a window of 7 is the lanes of 5 and 2")
    sink.clear()
    site.postfix.send(PORT, "open.example", 60)
    test.wait_for(lambda: sink.count("open.example") == 61, "all of it is delivered")
    test.equal(sink.most, 7, "by 7 connections at once")
    # the sink has a mail before its line is in the log
    test.wait_for(lambda: sum(by_lane(site, "open.example").values()) == 61,
                  "all of it stands in the log")
    lanes = by_lane(site, "open.example")
    test.check(lanes.get(5, 0) + lanes.get(2, 0) == 61 and 36 <= lanes[5] <= 51,
               f"shared by their widths: {lanes}")


def fell(test, site, sink):
    """From 7 to 3: the lanes of before drain first."""
    sink.clear()
    site.postfix.send(PORT, "open.example", 40, user="fall")
    test.wait_for(lambda: sink.count("open.example") > 70, "deliveries run")
    test.check(4 <= sink.most <= 7, f"by {sink.most} connections at once")
    site.postern.ask("limit", "open.example", "--window", 3, "--ceiling", 3, "--for", "1h")
    test.wait_for(lambda: set(site.ask_often("u@open.example", 9)) in
                  ({"OK lane3:"}, {"OK lane2:", "OK lane1:"}), "lanes of 3 together are free")
    test.check(sink.count("open.example") >= 100 and sink.open <= 3,
               "when the others were empty")
    sink.clear()
    site.postfix.send(PORT, "open.example", 12, user="low")
    test.wait_for(lambda: sink.count("open.example") == 113, "all of it is delivered")
    test.equal(sink.most, 3, "3 at once, no more")


def suspended(test, site, sink):
    """No connection, 250 at smtpd, and all of it goes when it is resumed."""
    before, delivered = sink.connections, sink.count("open.example")
    site.postern.ask("suspend", "open.example", "--for", "1h", "--reason", "a test")
    test.within(0.5, lambda: site.ask("u@open.example").startswith(
        "OK retry:4.7.1 Postern: open.example is suspended until "), "the hint says so soon")
    site.postfix.send(PORT, "open.example", 10, user="held")    # ends with an error on 450
    test.wait_for(lambda: sum("status=deferred (Postern: open.example is suspended" in line
                              for line in lines_of(site, "open.example")) == 10,
                  "mail that smtpd takes is held")
    test.equal(sink.connections, before, "without a connection")
    site.postern.ask("resume", "open.example")
    test.within(5, lambda: sink.count("open.example") > delivered,
                "resumed: the first delivery")
    test.wait_for(lambda: sink.count("open.example") == delivered + 10, "and all of it")


def tried(site, domain):
    return sum("Connection refused)" in line for line in lines_of(site, domain)
               if "/smtp[" in line)


def deferred(test, site, count):
    """So many are, and Postern has read it: how soon, is the machine's."""
    def read():
        return site.postern.status()["counters"]["feed_deliveries"]
    test.wait_for(lambda: sum("status=deferred" in line for line in
                              lines_of(site, "gone.example")) >= count, f"{count} are deferred")
    test.wait_for(lambda: read() >= site.postfix.log_text().count(" status="), "and it was read")


def dead(test, site, sink, gone):
    """A server that refuses connections is suspended; when it is back, its mail goes."""
    seen(test, site, "gone.example")
    test.wait_for(lambda: gone.open == 0, "no connection to it is kept")
    gone.down()
    sent = 0
    while sent < 30 and "event=suspended" not in site.postern.log_text():
        site.postfix.send(PORT, "gone.example", 5, user=f"dead{sent}-")
        sent += 5
        deferred(test, site, sent)
    test.wait_for(lambda: site.ask("u@gone.example").startswith("OK retry:4.7.1 Postern: "
                                                                "gone.example is suspended"),
                  "suspended by failed cohorts")
    before = tried(site, "gone.example")
    test.check(before <= 10, f"when {before} were tried")
    site.postfix.send(PORT, "gone.example", 60 - sent, user="late")
    deferred(test, site, 60)
    test.equal(tried(site, "gone.example"), before, "and of those that came later none was tried")
    gone.up()
    site.postern.ask("resume", "gone.example")
    test.within(5, lambda: gone.count("gone.example") > 1, "resumed: the first delivery")
    test.wait_for(lambda: gone.count("gone.example") == 61, "and all of it", limit=40)
    names = [name for name, _ in gone.delivered]
    test.equal(len(names), len(set(names)), "each once")


def body(test):
    sink = Limiter(test, ["192.0.2.13"], REMOTE)
    gone = Limiter(test, ["192.0.2.12"], REMOTE, seconds=0.05)
    site = Outbound(test, PORT, [one_class("all", 1000)],
                    settings="window = { suspend = \"10m\"; };\n")
    carried(test, site, sink)
    fell(test, site, sink)
    suspended(test, site, sink)
    dead(test, site, sink, gone)
    for line in site.postfix.log_text().splitlines():
        if "fatal" in line or "mail transport unavailable" in line:
            test.check(False, line)


main(body, hosts=HOSTS, addresses=list(HOSTS), seconds=100)
