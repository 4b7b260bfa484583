#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""Real Sendmail asks before it connects: a class's `sessions` holds mail back, by
domain, by prefix, and by the server that really takes the mail."""
import re

from lib.leaving import Site, outbound_class
from lib.sendmail import find_root
from lib.testing import main

HOSTS = {f"127.0.1.{n}": f"h{n}.slow.example" for n in range(1, 6)}
NET = [f"127.0.2.{n}" for n in range(1, 6)]
HOSTS |= {"127.0.3.1": "mx1.provider.example", "127.0.3.2": "direct.provider.example",
          "127.0.4.1": "a.pair.example", "127.0.4.2": "b.pair.example",
          "127.0.5.1": "one.example"}
CLASSES = [outbound_class("domain", '"*.slow.example"', 2),
           outbound_class("prefix", '"127.0.2.0/24"', 2),
           outbound_class("provider", '"*.provider.example"', 1),
           outbound_class("customer", '"*.cust.example"', 5),
           outbound_class("pair", '"*.pair.example"', 2),
           outbound_class("one", '"one.example"', 1)]
MX = {"mail.cust.example": ["mx1.provider.example"]}


def two_at_most(test, site, name, recipients):
    """Five queue runs at once for five slow servers of a class of two."""
    site.forget()
    for recipient in recipients:
        site.submit(recipient)
    site.sink.held = True
    runs = site.runs(5)
    site.finish_held(runs, 2)
    test.equal(site.open(name), 2, f"{name}: 2 counted")
    rows = [row for row in site.postern.sessions() if row["class"] == name]
    test.equal([(row["direction"], row["proof"]) for row in rows],
               [("outbound", "owner")] * 2, f"{name}: posternctl sessions shows them")
    text = f"451 4.7.1 deferred by Postern: class {name} has 2 of 2 sessions id "
    log = site.syslog()
    test.check(text in log, f"{name}: the log of Sendmail says why: {text}")
    test.check(re.search(rf"event=deferred .*class={name} destination=\S+ found_by=\w+ .*"
                         rf"queue_id=\w+ pid=\d+ .*reason=class-sessions",
                         site.postern.log_text()), f"{name}: and ours, for which mail")
    site.sink.held = False
    site.finish(runs)
    site.drain()
    test.equal(site.delivered(), sorted(recipients), f"{name}: all is delivered, each once")
    test.equal(site.sink.most_processes, 2, f"{name}: never more than 2 processes connected")
    site.none_open(name)


def by_the_server(test, site):
    """The domain is one class, its mail exchanger another one, which is full."""
    site.forget()
    site.submit("x@direct.provider.example")
    site.sink.held = True
    first = site.runs()
    site.finish_held(first, 1)
    explained = site.postern.ask("explain", "destination", "mail.cust.example")
    test.equal(explained["class"], "customer", "explain: by the domain, nothing else is known")
    site.submit("u@mail.cust.example")
    site.finish(site.runs())
    connections = [c for c in site.sink.all if c.server[0] == "127.0.3.1"]
    test.equal((len(connections), site.sink.delivered), (1, []),
               "MX elsewhere: connected, and then deferred by its name")
    test.check(re.search(r"ruleset=tls_server, .*reject=450 4\.7\.1 .*deferred by Postern: "
                         r"class provider has 1 of 1 sessions", site.syslog()),
               "MX elsewhere: the log of Sendmail says so")
    test.within(1.0, lambda: "stage=connected" in site.postern.log_text(),
                "MX elsewhere: our log, too")
    test.within(1.0, lambda: site.open("customer") == 0, "MX elsewhere: customer holds nothing")
    site.finish(site.runs())
    test.equal(len([c for c in site.sink.all if c.server[0] == "127.0.3.1"]), 1,
               "MX elsewhere: the next time no connection is made")
    explained = site.postern.ask("explain", "destination", "mail.cust.example")
    test.equal((explained["class"], explained["found_by"]), ("provider", "relay"),
               "explain: provider, by the relay seen")
    site.sink.held = False
    site.finish(first)
    site.drain()
    test.equal(site.delivered(), ["u@mail.cust.example", "x@direct.provider.example"],
               "MX elsewhere: all is delivered")
    site.none_open("provider")


def cached_connections(test, site):
    site.forget()
    site.submit("u@a.pair.example")
    site.submit("u@b.pair.example")
    site.sink.held = True
    runs = site.runs()
    site.finish_held(runs, 1)
    first = list(site.sink.open)[0]
    first.let_go = True
    test.wait_for(lambda: len(site.sink.open) == 2 and any(
        c.at_dot for c in site.sink.open if c is not first), "the second connection is made")
    test.equal((len(site.sink.open), len(site.sink.pids()), site.open("pair")), (2, 1, 1),
               "one process with two cached connections counts once")
    site.sink.held = False
    site.finish(runs)
    site.none_open("pair")


def twenty_recipients(test, site):
    site.forget()
    recipients = [f"u{n}@one.example" for n in range(20)]
    site.submit(*recipients)
    site.finish(site.runs())
    test.equal(site.delivered(), sorted(recipients), "20 recipients of a host with hold_at = 1: "
               "one queue run")
    test.equal(len(site.sink.all), 1, "in one connection")
    site.none_open("one")


def killed(test, site):
    site.submit("u@one.example")
    site.sink.held = True
    runs = site.runs()
    site.finish_held(runs, 1)
    test.equal(site.open("one"), 1, "one is held")
    site.kill(runs[0])
    test.within(1.0, lambda: site.open("one") == 0, "kill -9 of a delivering process: free")
    runs = site.runs()
    site.finish_held(runs, 1)
    test.check(True, "the next one is let in")
    site.sink.held = False
    site.finish(runs)
    site.none_open("one")


def body(test):
    site = Site(test, CLASSES, [*HOSTS, *NET], exchangers=MX)
    two_at_most(test, site, "domain", [f"u@{name}" for name in list(HOSTS.values())[:5]])
    two_at_most(test, site, "prefix", [f"u@[{address}]" for address in NET])
    by_the_server(test, site)
    cached_connections(test, site)
    twenty_recipients(test, site)
    killed(test, site)


main(body, hosts=HOSTS, before=find_root)
