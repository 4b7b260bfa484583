#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""A Postfix with a content filter and re-injection: its mail goes by lanes behind the
filter, as it went without Postern.  The filter stopped for a while is the filter's own
failure: no domain's window or state changes."""
import socket
import threading

from lib.limiter import Limiter
from lib.routing import REMOTE, Routing, Site
from lib.testing import main

PORT, FILTER, BACK = 2025, 10025, 10026
NAMES = ("one.example", "two.example", "three.example", "sender.example", "relayed.example")
HOSTS = {f"192.0.2.{n}": name for n, name in enumerate(NAMES, 11)}
MAIN = f"""content_filter = smtp:[127.0.0.1]:{FILTER}
receive_override_options = no_address_mappings
mydestination = local.example
local_recipient_maps = inline:{{ postern=x }}
mail_spool_directory = /run/t/boxes
virtual_alias_maps = inline:{{ alias@one.example=u@two.example }}
relay_domains = relayed.example
minimal_backoff_time = 2h
maximal_backoff_time = 4h
queue_run_delay = 2h
"""
REINJECTED = f"""127.0.0.1:{BACK} inet n - n - - smtpd
  -o content_filter=
  -o receive_override_options=no_unknown_recipient_checks,no_header_body_checks
"""
DOMAINS = ("u@one.example", "u@two.example", "v@Three.Example")
RECIPIENTS = (*DOMAINS, "u+x@one.example", "alias@one.example", "postern@local.example",
              "ghost@local.example", "u@relayed.example")
OWN = f"[127.0.0.1]:{FILTER}"


class Filter:
    """It gives on what it gets; it may be stopped."""

    def __init__(self, test):
        self.listener = None
        self.connections, self.open = 0, []
        self.start()
        test.at_end(self.stop)

    def start(self):
        self.listener = socket.create_server(("127.0.0.1", FILTER), backlog=100)
        threading.Thread(target=self.run, args=(self.listener,), daemon=True).start()

    def stop(self):
        if self.listener is not None:
            self.listener.shutdown(socket.SHUT_RDWR)
            self.listener.close()
        self.listener = None
        for sock in self.open:          # one that Postfix kept is gone, too
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        self.open = []

    def run(self, listener):
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            self.connections += 1
            server = socket.create_connection(("127.0.0.1", BACK))
            self.open += [client, server]
            for one, other in ((client, server), (server, client)):
                threading.Thread(target=copy, args=(one, other), daemon=True).start()


def copy(source, to):
    try:
        while data := source.recv(65536):
            to.sendall(data)
        to.shutdown(socket.SHUT_WR)
    except OSError:
        pass


def windows(routing):
    """What is known of each destination but the filter."""
    return {row["name"]: {key: row[key] for key in ("law", "state", "window", "ceiling",
                                                    "fail_cohorts", "failure", "until", "reason")}
            for row in routing.postern.ask("destinations") if row["name"] != OWN}


def state(routing):
    return {row["name"]: row["state"] for row in routing.postern.ask("destinations")}.get(OWN)


def failed(routing):
    """Deliveries that are held against the filter."""
    return sum(row["failed"] for row in routing.postern.ask("destinations", "--relays")
               if row["name"] == OWN)


def all_read(routing):
    """Nothing is learned any more of what is in the log."""
    return all(row["log_unread"] == 0 for row in routing.postern.status()["mtas"])


def by_lanes(test, routing, site, plain):
    routing.same(site, plain, routing.round(site, RECIPIENTS), "nothing is known")
    test.wait_for(lambda: all(routing.ask(site, name).startswith("OK lane") for name in DOMAINS),
                  "the domains have lanes")
    routing.postern.ask("limit", "two.example", "--window", 2, "--ceiling", 2)
    test.wait_for(lambda: routing.ask(site, "u@two.example") == "OK lane2:", "a window of two")
    # the resolver remembers the last address that it was asked for
    routing.round(site, ["w@one.example"])
    routing.widths.clear()
    routing.same(site, plain, routing.round(site, RECIPIENTS), "by lanes")
    test.check(routing.widths.get("u@two.example") == {2} and "u@one.example" in routing.widths,
               f"behind the filter, by lanes: {sorted(routing.widths)}")
    test.check(not any(f"/lane{width}/" in line and f"]:{FILTER}," in line
                       for line in site.postfix.log_text().splitlines()
                       for width in (1, 2, 3, 5, 10, 20)), "none to the filter goes by a lane")


def stopped(test, routing, site, filter_, plain):
    """More mail than its own cohorts bear; its destination dies, and no other."""
    test.wait_for(lambda: all_read(routing), "the log is read")
    before = windows(routing)
    filter_.stop()
    replies = {}
    for serial in range(8):
        replies |= site.send([name.replace("u", f"u{serial}", 1) for name in DOMAINS])
        found = routing.outcomes(site, replies)
        test.poll(lambda: state(routing) == "dead", 0.3)
    test.check(all(results[0][5] == "deferred" for _, results in found.values()),
               f"{len(found)} messages wait for the filter")
    test.within(5, lambda: failed(routing) >= 3, f"the failures are those of {OWN}")
    test.say(f"which is {state(routing)} after {failed(routing)}")
    test.equal(windows(routing), before, "no domain's window or state has changed")
    test.within(5, lambda: all(routing.ask(site, name).startswith("OK lane") for name in DOMAINS),
                "their mail has lanes still")
    test.equal(routing.postern.ask("explain", "destination", "one.example")["state"], "open",
               "explain says so, too")
    past_the_filter(test, routing, site)
    filter_.start()
    routing.postern.command("resume", OWN)

    def flushed():
        site.postfix.flush()
        found.update(routing.outcomes(site, replies, settled=True, limit=3, must=False))
        return len(found) == len(replies)
    found = {}
    test.wait_for(flushed, "all is settled")
    test.check(all(results[-1][5] == "sent" and any(result[3].startswith("127.0.0.1[")
                                                    for result in results)
                   for _, results in found.values()),
               "the filter is back: all goes, through it")
    test.equal({key: {**row, "failure": 0, "window": 0} for key, row in windows(routing).items()},
               {key: {**row, "failure": 0, "window": 0} for key, row in before.items()},
               "all as before")
    test.equal(plain["u@one.example"][1][1][3], found["u1@one.example"][1][1][3],
               "by the same relay")


def past_the_filter(test, routing, site):
    """Mail that the filter has passed goes meanwhile."""
    replies = site.send(["past@one.example"], port=BACK)
    (_, results), = routing.outcomes(site, replies).values()
    test.equal(results[0][5], "sent", "what the filter had passed is delivered meanwhile")


def body(test):
    (test.directory / "boxes").mkdir()
    (test.directory / "boxes").chmod(0o777)
    sink = Limiter(test, list(HOSTS), REMOTE, seconds=0)
    filter_ = Filter(test)
    site = Site(test, "A", [PORT, REINJECTED], MAIN, mta=f"ports = [ {REMOTE} ];")
    routing = Routing(test, [site], settings='window = { suspend = "10m"; };\n')
    plain = routing.round(site, RECIPIENTS)
    test.equal(plain["ghost@local.example"][0][:4], "550 ", "an unknown local user is refused")
    test.check(filter_.connections >= 1 and len(plain["u@one.example"][1]) == 2,
               "mail goes through the filter")
    routing.postern.start()
    routing.attach(site)
    by_lanes(test, routing, site, plain)
    stopped(test, routing, site, filter_, plain)
    names = [name for name, _ in sink.delivered if name.startswith("u") and name[1].isdigit()]
    test.equal(len(names), len(set(names)), "none twice")


main(body, hosts=HOSTS, addresses=list(HOSTS), seconds=60)
