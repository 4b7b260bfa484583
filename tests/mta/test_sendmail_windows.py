#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""Windows of destinations, with real Sendmail: never more deliveries at once than a
window has places (the servers count), a dead destination is held without connecting,
all mail is delivered in the end, each once."""
import re
import socket
import threading

from lib.leaving import OUT, Site, outbound_class
from lib.sendmail import find_root
from lib.testing import main

HOSTS = {"198.51.100.11": "h1.slow.example", "198.51.100.12": "h2.slow.example",
         "198.51.100.13": "h3.slow.example", "198.51.100.14": "h4.slow.example",
         "198.51.100.21": "mx1.big.example",
         "198.51.100.22": "mx2.big.example", "198.51.100.19": "dead.slow.example"}
MX = {"one.cust.example": ["mx1.big.example"], "two.cust.example": ["mx2.big.example"]}
CLASSES = [outbound_class("all", '"*"', 1000)]
PROVIDERS = "/run/t/providers.conf"
TABLE = "/run/t/mailertable"
SETTINGS = f"""providers = "{PROVIDERS}";
window = {{ initial_destination_concurrency = 3; destination_concurrency_limit = 3; }};
destinations = ( {{ match = [ "h2.slow.example" ];
    window = {{ initial_destination_concurrency = 5; destination_concurrency_limit = 20; }}; }},
  {{ match = [ "h4.slow.example" ]; pace = "30/1m"; pace_burst = 2; }},
  {{ match = [ "provider:big" ];
    window = {{ initial_destination_concurrency = 1; destination_concurrency_limit = 1; }}; }} );
"""


class Deaf:
    """A server that hangs up at once, and counts."""

    def __init__(self, test, address):
        self.connections, self.serves = 0, False
        self.listener = socket.create_server((address, OUT), backlog=128)
        test.at_end(self.listener.close)
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while True:
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            self.connections += 1
            sock.close()


def destination(site, name):
    rows = [row for row in site.postern.ask("destinations") if row["name"] == name]
    return rows[0] if rows else {}


def no_more_than_the_window(test, site):
    recipients = [f"u{n}@h1.slow.example" for n in range(8)]
    for recipient in recipients:
        site.submit(recipient)
    site.sink.held = True
    runs = site.runs(8)
    site.finish_held(runs, 3)
    row = destination(site, "h1.slow.example")
    test.equal((row["window"], row["in_flight"]), (3, 3), "window 3: three are in flight")
    log = site.syslog()
    test.check("451 4.7.1 deferred by Postern: h1.slow.example has 3 of 3 "
               "deliveries id " in log, "the log of Sendmail says which destination, and why")
    number = re.search(r"3 of 3 deliveries id ([0-9a-z]{12})", log).group(1)
    told = site.postern.ask("why", number)
    test.equal([told[name] for name in ("reason", "count", "limit", "window_of")],
               ["window-full", 3, 3, "h1.slow.example"], "the id in it tells what was counted")
    test.check(re.search(r"event=deferred .*destination=h1\.slow\.example .*"
                         r"window=h1\.slow\.example .*queue_id=\w+ .*count=3 limit=3 "
                         r"reason=window-full", site.postern.log_text()), "and ours")
    site.sink.held = False
    site.finish(runs)
    site.drain()
    test.equal(site.delivered(), sorted(recipients), "all is delivered, each once")
    test.equal(site.sink.most_processes, 3, "never more than 3 processes connected")
    test.within(1.0, lambda: destination(site, "h1.slow.example")["in_flight"] == 0,
                "none is in flight when all is sent")


def a_server_with_a_limit(test, site):
    """It takes two connections: found out by refusals, and then kept to."""
    site.forget()
    site.sink.limits["198.51.100.12"] = 2
    recipients = [f"u{n}@h2.slow.example" for n in range(40)]
    for recipient in recipients:
        site.submit(recipient)
    site.sink.delay = 0.03
    runs = []
    test.wait_for(lambda: site.keep_running(runs, 6), "all is delivered", 25)
    site.sink.delay = 0
    site.learn()
    row = destination(site, "h2.slow.example")
    test.say(f"40 deliveries, {site.sink.refused} refused, ceiling {row['ceiling']}")
    test.equal(row["ceiling"], 2, "the ceiling is learned")
    test.check(site.sink.refused <= 16, f"{site.sink.refused} connections refused, 16 at most")
    test.equal(site.delivered(), sorted(recipients), "a limiter: all is delivered, each once")


def dead(test, site):
    """It hangs up: after a cohort of failures no connection is made."""
    site.forget()
    deaf = Deaf(test, "198.51.100.19")
    for n in range(6):
        site.submit(f"u{n}@dead.slow.example")
        site.finish(site.runs())        # a process that failed does not connect again
        site.learn()
    test.equal(destination(site, "dead.slow.example")["state"], "dead", "dead after a cohort")
    test.check(deaf.connections <= 4, f"of {deaf.connections} connections, the window being 3")
    before = deaf.connections
    for _ in range(3):
        site.finish(site.runs(3))
    test.equal(deaf.connections, before, "dead: no connection is made any more")
    test.check(re.search(r"451 4\.7\.1 deferred by Postern: dead\.slow\.example is "
                         r"suspended until \d\d:\d\dZ id [0-9a-z]{12} - ", site.syslog()),
               "dead: the log says so")
    message = re.search(r"(?m)^M(.*)", site.sendmail.queue_text())
    test.check("is suspended until" in message[1][:60],
               f"and so does mailq, which shows 60 characters of it: {message[1]}")
    site.submit("u@h3.slow.example")
    site.finish(site.runs())
    test.equal(site.delivered(), ["u@h3.slow.example"], "other mail goes")
    deaf.listener.shutdown(socket.SHUT_RDWR)
    deaf.listener.close()
    site.sink.listen(test, "198.51.100.19", OUT)
    test.equal(site.postern.command("resume", "dead.slow.example").returncode, 0, "resume")
    site.drain()
    test.equal(len(set(site.delivered())), 7, "resumed: all is delivered")
    test.equal(len(site.delivered()), 7, "each once")


def paced(test, site):
    """Two go at once, the others when they have tokens; its deliveries take none again."""
    site.forget()
    recipients = [f"u{n}@h4.slow.example" for n in range(4)]
    for recipient in recipients:
        site.submit(recipient)
    site.finish(site.runs(2))
    test.equal(len(site.delivered()), 2, "paced: as many as the burst go")
    test.check(re.search(r"451 4\.7\.1 deferred by Postern: pace of h4\.slow\.example is 30/1m id "
                         r"[0-9a-z]{12}", site.syslog()), "paced: the log says so")
    site.learn()

    def more():
        site.finish(site.runs())
        return len(site.delivered()) > 2
    test.within(2.5, more, "paced: another one goes within two seconds")
    test.wait_for(lambda: more() and len(site.delivered()) == 4, "paced: all is delivered")
    test.equal(site.delivered(), recipients, "each once")


def held_by_hand(test, site):
    site.forget()
    hold = ("hold", "h3.slow.example", "--reason", "moving house (again)")
    test.equal(site.postern.command(*hold).returncode, 0, "hold")
    site.submit("u@h3.slow.example")
    site.submit("v@h1.slow.example")
    site.finish(site.runs())
    test.equal(site.delivered(), ["v@h1.slow.example"], "held by hand: other mail goes")
    test.check(re.search(r"deferred by Postern: h3\.slow\.example is suspended until it is resumed "
                         r"id [0-9a-z]{12} - moving house _again_", site.syslog()),
               "and the log says why")
    site.postern.ask("resume", "h3.slow.example")
    site.drain()
    site.postern.ask("hold", "w@h1.slow.example", "--for", "1h")
    site.submit("w@h1.slow.example", "x@h1.slow.example")
    site.finish(site.runs())
    test.equal(site.delivered(), ["u@h3.slow.example", "v@h1.slow.example", "x@h1.slow.example"],
               "one recipient is held, the other of the message is delivered")
    test.check(re.search(r"this recipient is held until \d\d:\d\dZ", site.syslog()),
               "and the log says so")
    told = site.postern.ask("explain", "destination", "w@h1.slow.example")
    test.equal((told["verdict"], told["reason"], told["why"]),
               ("defer", "recipient-held", f"posternctl why {told['id']}"), "explain: it is held")
    test.equal(site.postern.ask("explain", "destination", "x@h1.slow.example")["verdict"], "admit",
               "explain: the other one is not")
    site.postern.ask("resume", "w@h1.slow.example")
    site.drain()
    test.check("w@h1.slow.example" in site.delivered(), "resumed: it goes")
    site.postern.ask("hold", "--class", "all", "--reason", "line cut")
    told = site.postern.ask("explain", "destination", "h1.slow.example")
    test.equal((told["verdict"], told["reason"]), ("defer", "class-held"),
               "explain: mail of a held class does not go")
    test.check("line cut" in site.postern.command("why", told["id"]).stdout,
               "explain names what holds it")
    site.postern.ask("resume", "--class", "all")


def a_provider(test, site):
    """Two domains of one provider, which is known by the server that answers."""
    site.forget()
    site.submit("u@one.cust.example")
    site.sink.held = True
    first = site.runs()
    site.finish_held(first, 1)
    site.submit("u@two.cust.example")
    site.finish(site.runs())
    seen = [c for c in site.sink.all if c.server[0] == "198.51.100.22"]
    test.equal((len(seen), site.delivered()), (1, []),
               "a domain of a provider: connected, and deferred when it is known whose it is")
    test.check(re.search(r"ruleset=tls_server, .*reject=450 4\.7\.1 .*deferred by Postern: "
                         r"provider:big has 1 of 1 deliveries", site.syslog()),
               "and the log says so")
    site.finish(site.runs())
    test.equal(len([c for c in site.sink.all if c.server[0] == "198.51.100.22"]), 1,
               "the next time no connection is made")
    site.sink.held = False
    site.finish(first)
    site.drain()
    test.equal(site.delivered(), ["u@one.cust.example", "u@two.cust.example"],
               "a provider: all is delivered")


def by_mailertable(test, site):
    """Domains that go by a relay: Sendmail asks about that, its log names the domain."""
    site.forget()
    for n in range(4):
        site.submit(f"u{n}@far.example")
    site.sink.held = True
    runs = site.runs(4)
    site.finish_held(runs, 3)
    row = destination(site, "far.example")
    test.equal((row["window"], row["in_flight"]), (3, 3), "by a relay: the domain's window counts")
    site.sink.held = False
    site.finish(runs)
    site.drain()
    site.learn()
    test.within(1.0, lambda: destination(site, "far.example")["in_flight"] == 0,
                "by a relay: none is in flight when all is sent")
    site.postern.ask("hold", "far.example")
    site.submit("held@far.example")
    site.submit("u@near.example")
    site.finish(site.runs())
    test.equal(sorted(site.delivered()), [f"u{n}@far.example" for n in range(4)]
               + ["u@near.example"], "by a relay: a domain is held, another one goes")
    test.check("deferred by Postern: far.example is suspended" in site.syslog(),
               "by a relay: the log says so")
    site.postern.ask("resume", "far.example")
    site.drain()
    test.check("held@far.example" in site.delivered(), "by a relay: resumed, it goes")


def observed(test, site):
    site.configure(SETTINGS, observe=True)
    site.forget()
    before = site.postern.status()["counters"]["window_holds_observed"]
    for n in range(6):
        site.submit(f"u{n}@h1.slow.example")
    site.sink.held = True
    runs = site.runs(6)
    site.finish_held(runs, 6)
    test.check(True, "observe mode: all are let through")
    test.check(site.postern.status()["counters"]["window_holds_observed"] > before,
               "observe mode: what would have been held is counted")
    test.check(re.search(r"event=observed .*reason=window-full", site.postern.log_text()),
               "and logged")
    site.sink.held = False
    site.finish(runs)
    site.drain()


def body(test):
    with open(TABLE, "w") as file:
        file.write("far.example esmtp:[198.51.100.13]\nnear.example esmtp:[198.51.100.13]\n")
    with open(PROVIDERS, "w") as file:
        file.write('version = 1;\nproviders = ( { name = "big"; relays = [ "*.big.example" ]; } );\n')
    site = Site(test, CLASSES, [a for a in HOSTS if a != "198.51.100.19"], exchangers=MX,
                settings=SETTINGS, before=f"FEATURE(`mailertable', `text -v1 {TABLE}')dnl\n")
    no_more_than_the_window(test, site)
    a_server_with_a_limit(test, site)
    dead(test, site)
    paced(test, site)
    held_by_hand(test, site)
    a_provider(test, site)
    by_mailertable(test, site)
    observed(test, site)


main(body, hosts=HOSTS, addresses=list(HOSTS), before=find_root)
