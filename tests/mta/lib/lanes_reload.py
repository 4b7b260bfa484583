# SPDX-License-Identifier: ISC
"""mta[].reload: Postfix is told to reload when mail waits in a lane that it must not leave
by any more, as its window fell, or its destination is suspended; once a minute at most."""
import re

from lib.limiter import Limiter
from lib.routing import REMOTE, Routing, Site
from lib.testing import main

PORT = 2025
HOSTS = {"192.0.2.11": "falls.example", "192.0.2.12": "stops.example",
         "192.0.2.13": "sender.example"}
SECONDS = 0.6                           # that a message takes
RELOAD = re.compile(r"postfix-\w/master\[\d+\]: reload -- version")


def reloads(site):
    return len(RELOAD.findall(site.postfix.log_text()))


def fill(test, routing, site, sink, domain):
    """Ten places are used, and more mail waits for one."""
    routing.round(site, [f"u@{domain}"])

    def wide():
        """Other lanes come to one that has mail: asked for again when that has drained."""
        routing.postern.ask("limit", domain, "--window", 10, "--ceiling", 10, "--for", "1h")
        return test.poll(lambda: routing.ask(site, f"u@{domain}") == "OK lane10:", 0.5)
    test.wait_for(wide, "a lane of 10")
    sink.clear()
    site.postfix.send(site.port, domain, 75)
    test.wait_for(lambda: sink.open == 10, f"{domain}: 10 deliveries at once")


def falls(test, routing, site, sink):
    """From 10 to 2."""
    fill(test, routing, site, sink, "falls.example")
    before = reloads(site)
    routing.postern.ask("limit", "falls.example", "--window", 2, "--ceiling", 2, "--for", "1h")
    test.within(4, lambda: reloads(site) == before + 1, "falls.example: Postfix reloads")
    test.wait_for(lambda: sink.open <= 2, "what was being delivered ends")
    sink.clear()
    before = sink.count("falls.example")
    test.wait_for(lambda: sink.count("falls.example") >= before + 4, "mail goes")
    test.equal(sink.most, 2, "by two connections, though 10 had it before")


def again(test, routing, site, sink):
    """Within the same minute."""
    before = reloads(site)
    routing.postern.ask("suspend", "falls.example", "--for", "1h")
    test.wait_for(lambda: routing.ask(site, "u@falls.example").startswith("OK retry:"),
                  "suspended by hand while mail waits")
    routing.postern.ask("resume", "falls.example")
    routing.postern.ask("limit", "falls.example", "--window", 1, "--ceiling", 1, "--for", "1h")
    test.throughout(2, lambda: reloads(site) == before,
                    "no other reload in the same minute")


def stops(test, routing, site, sink):
    """Suspended while mail waits: no more of it goes."""
    fill(test, routing, site, sink, "stops.example")
    before = reloads(site)
    routing.postern.ask("suspend", "stops.example", "--for", "1h", "--reason", "a test")
    test.within(4, lambda: reloads(site) == before + 1, "stops.example: Postfix reloads")
    test.wait_for(lambda: sink.open == 0, "what was being delivered ends")
    count = sink.count("stops.example")
    test.check(count < 74, f"{count} of 76 are delivered")
    test.wait_for(lambda: site.postfix.log_text().count(
        "status=deferred (Postern: stops.example is suspended") >= 76 - count,
        "all others are held")
    test.equal(sink.count("stops.example"), count, "none was delivered meanwhile")
    routing.postern.ask("resume", "stops.example")
    test.wait_for(lambda: sink.count("stops.example") == 76, "resumed: all is delivered", 40)


def run(domain, *cases):
    """The cases, one behind the other, with one site and its sink."""
    def body(test):
        address = next(address for address, name in HOSTS.items() if name == domain)
        sink = Limiter(test, [address], REMOTE, seconds=SECONDS)
        site = Site(test, "A", [PORT], "", mta=f"ports = [ {REMOTE} ]; reload = true;")
        routing = Routing(test, [site])
        routing.postern.start()
        routing.attach(site)
        for case in cases:
            case(test, routing, site, sink)
        names = [name for name, _ in sink.delivered]
        test.equal(len(names), len(set(names)), f"{len(names)} delivered, each once")
    main(body, hosts=HOSTS, addresses=list(HOSTS), seconds=90)
