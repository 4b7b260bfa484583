#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""Postfix sites where an answer for a full address would change where mail goes, as that
hangs on its sender, or all of it goes by a map: they get no lanes and are told so, and
their mail goes as without Postern, though lines of an earlier time are attached."""
import json

from lib.limiter import Limiter
from lib.routing import REMOTE, Routing, Site
from lib.testing import main

PORT = 2025
NAMES = ("one.example", "two.example", "hop.example", "relay.example", "sender.example")
HOSTS = {f"192.0.2.{n}": name for n, name in enumerate(NAMES, 11)}
BASE = "mydestination = local.example\nlocal_recipient_maps = inline:{ postern=x }\n" \
    "mail_spool_directory = /run/t/boxes\n"
SERVICES = ["slow unix - - n - 1 smtp\n  -o syslog_name=postfix-A/slow\n"]
SENDERS = ("s@sender.example", "x@special.example")
RECIPIENTS = ("u@one.example", "u+x@Two.example", "postern@local.example",
              "ghost@local.example", "u@[192.0.2.11]")
# what it is refused for, the settings that bring it
SHAPES = (
    ("sender-dependent", "sender_dependent_relayhost_maps = "
                         "inline:{ x@special.example=[relay.example] }\n"),
    ("sender-dependent", "sender_dependent_default_transport_maps = "
                         "inline:{ x@special.example=slow:[hop.example] }\n"),
    ("default-transport", "default_transport = slow\n"),
    ("all-mail", "transport_maps = inline:{ two.example=smtp:[hop.example], "
                 "{ * = slow:[relay.example] } }\n"),
)


def shape(site, more):
    site.set(BASE + more)
    site.postfix.reload()


def rounds(site, routing):
    return {sender: routing.round(site, RECIPIENTS, sender=sender) for sender in SENDERS}


def told(test, routing, site, word):
    """By all commands that could."""
    found = routing.read_site(site)
    test.equal((found["exit"], found["refused"], found["lines"]), (69, word, None),
               f"postfix-lanes: {word}: {found['text']}")
    test.wait_for(lambda: routing.ask(site, "u@one.example") == "NOTFOUND", "no hint")
    done = routing.postern.command("check")
    notes = [row["text"] for row in json.loads(done.stdout) if found["text"] in row["text"]]
    test.equal((done.returncode, len(notes)), (0, 1), f"check: {''.join(notes)}")
    row = routing.postern.ask("explain", "destination", "one.example")
    test.equal((row["doubt"], row["hint"]), ("site-refused", "none"), "and explain")
    return found


def body(test):
    (test.directory / "boxes").mkdir()
    (test.directory / "boxes").chmod(0o777)
    sink = Limiter(test, list(HOSTS), REMOTE, seconds=0)
    site = Site(test, "A", [PORT], BASE, SERVICES, mta=f"ports = [ {REMOTE} ];")
    routing = Routing(test, [site])
    plain = {}
    for _, more in SHAPES:
        shape(site, more)
        plain[more] = rounds(site, routing)
    shape(site, "")
    routing.postern.start()
    routing.attach(site)
    routing.round(site, RECIPIENTS)
    test.wait_for(lambda: routing.ask(site, "u@one.example").startswith("OK lane") and
                  routing.ask(site, "u@two.example").startswith("OK lane"), "it has lanes")
    # the resolver remembers the last address that it was asked for, whichever that was
    routing.round(site, ["w@one.example"])
    routing.widths.clear()
    routing.round(site, RECIPIENTS)
    test.equal(set(routing.widths), {"u@one.example", "u+x@Two.example"},
               "without such settings, mail goes by lanes")
    routing.widths.clear()
    for word, more in SHAPES:
        shape(site, more)
        found = told(test, routing, site, word)
        if word == "all-mail":          # the lines have the maps of before
            test.equal(found["attached"], "outdated", "its lines are to be taken out")
            people = routing.postern.command("postfix-lanes", json_output=False)
            test.check("remove them" in people.stderr, "and people are told so")
            site.postfix.serve(site.plain)
            site.postfix.reload()
        for sender, outcomes in rounds(site, routing).items():
            routing.same(site, plain[more][sender], outcomes,
                         f"{more.split(' = ')[0]}, from {sender}")
    test.equal(routing.widths, {}, "no lane was used")
    test.say(f"{len(sink.delivered)} deliveries")


main(body, hosts=HOSTS, addresses=list(HOSTS), seconds=60)
