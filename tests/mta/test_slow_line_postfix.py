#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""The slow line: three sessions of long messages, and further mail waits both ways.
Class * 3/3 on a real Postfix; one delivery to each destination went before."""
from lib.outbound import REMOTE, Outbound
from lib.postern import one_class
from lib.postfix import conf_service
from lib.sink import Sink
from lib.smtp import Session
from lib.testing import main

OWN, OUTSIDE, LIMIT = 2026, 2025, 3
HOSTS = {"192.0.2.11": "one.example", "192.0.2.12": "two.example"}


def long_message(test):
    """A session from outside that is in the middle of its message."""
    session = Session(("127.0.0.1", OUTSIDE), "127.0.0.1")
    test.check(session.long_message("u@one.example"), "a long message comes in")
    return session


def knocks():
    session = Session(("127.0.0.1", OUTSIDE), "127.0.0.1")
    session.close()
    return session.code


def body(test):
    sink = Sink(test, HOSTS, REMOTE)
    site = Outbound(test, OWN, [one_class("line", LIMIT)],
                    [conf_service("postfix-policy.master.cf", OUTSIDE)])
    for count, domain in enumerate(HOSTS.values(), 1):
        site.postfix.send(OWN, domain)
        test.wait_for(lambda: site.known() == count, f"a delivery to {domain} is seen")
    # lanes keep a connection for a moment
    test.wait_for(lambda: not sink.open and site.postern.open("line") == 0, "the line is free")

    sessions = [long_message(test) for _ in range(LIMIT)]
    test.within(1, lambda: site.postern.open("line") == LIMIT, "three long messages come in")
    test.equal(knocks(), 421, "no further session from outside")
    test.within(1, lambda: all(site.ask(f"u@{domain}").startswith("OK retry:4.7.1 ")
                               for domain in HOSTS.values()), "mail for outside is held")
    before = len(sink.delivered)
    for domain in HOSTS.values():
        site.postfix.send(OWN, domain, 5)
    test.wait_for(lambda: site.held("line") == 10, "all ten messages are held")
    test.equal((len(sink.open), len(sink.delivered)), (0, before), "no connection was made")

    sessions.pop().drop()
    test.within(2, lambda: site.ask("u@one.example").startswith("OK lane"),
                "one ends: mail may go out")
    sink.held = True
    site.postfix.send(OWN, "one.example", user="last")
    test.wait_for(lambda: sink.waiting(), "one message goes out, slowly")
    test.within(2, lambda: site.postern.open("line") == LIMIT and knocks() == 421,
                "the line is full again: it counts like a session from outside")
    test.within(1, lambda: site.ask("u@two.example").startswith("OK retry:"),
                "the rest stays held")

    for session in sessions:
        session.drop()
    sink.held = False
    test.within(2, lambda: site.postern.open("line") == 0, "all end: the line is free")
    test.equal(knocks(), 220, "sessions from outside come in")

    site.drain("u@one.example", lambda: len(sink.delivered) == before + 11,
               "queue runs deliver the rest")
    test.check(True, "what was held is delivered")


main(body, hosts=HOSTS, addresses=list(HOSTS))
