#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""Classes with action = "defer": let in, and each recipient decided anew."""
from lib.postern import one_class
from lib.postfix import conf_service
from lib.scenario import leave_all, sources
from lib.site import site
from lib.smtp import Session, open_sessions
from lib.testing import main

PORTS = {"policy": 2025, "milter": 2026, "both": 2027}
LIMIT = 2


def begin(session, sender="a@example.org"):
    session.command("EHLO client.example.org")
    return session.command(f"MAIL FROM:<{sender}>")[0]


def recipient(session, address="b@example.com"):
    return session.command(f"RCPT TO:<{address}>")


def deferred(test, postern, way):
    name = f"defer-{way}"
    to = ("127.0.0.1", PORTS[way])
    first = open_sessions(to, sources(LIMIT))
    late = [Session(to, "127.0.1.50"), Session(to, "127.0.1.51")]
    test.equal([s.code for s in first + late], [220] * 4, f"{way}: all are let in")
    test.equal(postern.open(name), LIMIT, f"{way}: only {LIMIT} are in the count")
    for session in first + late:
        begin(session)
    test.equal([recipient(session)[0] for session in first], [250] * LIMIT,
               f"{way}: the first {LIMIT} may send")
    replies = [recipient(session) for session in late]
    test.equal([code for code, _ in replies], [450, 450], f"{way}: the others are deferred")
    test.say(f"450 {replies[0][1]}")
    test.equal([recipient(late[0], f"{user}@example.com")[0]
                for user in ("postmaster", "abuse", "Postmaster")], [250] * 3,
               f"{way}: never for postmaster@ and abuse@")
    late[1].command("RSET")
    begin(late[1], "")
    test.equal(recipient(late[1])[0], 250, f"{way}: nor for the null sender")
    test.check(postern.classes()[name]["deferred"] >= 2, f"{way}: deferrals are counted")
    first.pop().quit()
    test.within(1.0, lambda: postern.open(name) == LIMIT - 1, f"{way}: one place is free")
    test.equal(recipient(late[0], "c@example.com")[0], 250,
               f"{way}: a deferred session takes it at its next recipient")
    test.equal(postern.open(name), LIMIT, f"{way}: and is in the count")
    late[1].command("RSET")
    begin(late[1])
    test.equal(recipient(late[1])[0], 450, f"{way}: the other is not")
    test.equal(late[0].command("DATA")[0], 354, f"{way}: it may send")
    test.equal(late[0].command("Subject: x\r\n\r\nx\r\n.")[0], 250, f"{way}: its mail is taken")
    leave_all(first + late)
    test.within(1.0, lambda: postern.open(name) == 0, f"{way}: 0 after all have left")


def milter_alone(test, postern):
    to = ("127.0.0.1", PORTS["milter"])
    sessions = [Session(to, f"127.0.1.{number}") for number in range(1, LIMIT + 2)]
    test.equal([s.code for s in sessions], [220] * LIMIT + [421],
               "milter: where only a connect-stage hook is attached it means 421")
    leave_all(sessions[:LIMIT])


def body(test):
    services = [conf_service(f"postfix-{way}.master.cf", port) for way, port in PORTS.items()]
    classes = [one_class(f"defer-{way}", LIMIT, [port], more='action = "defer";')
               for way, port in PORTS.items()]
    _, postern = site(test, services, classes, PORTS.values())
    deferred(test, postern, "policy")
    deferred(test, postern, "both")
    milter_alone(test, postern)
    done = postern.command("check", json_output=False)
    test.check("421" in done.stdout + done.stderr and "defer" in done.stdout + done.stderr,
               "check says that it means 421 there")


main(body)
