#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""The slow line (XLA's README): three sessions with long messages fill the one
class of all hosts, in both directions, on a real Sendmail."""
from lib.leaving import PORT, Site, outbound_class
from lib.sendmail import find_root
from lib.smtp import Session
from lib.testing import main

LIMIT = 3
HOSTS = {"127.0.1.1": "far.example", "127.0.1.2": "near.example"}
NAMES = sorted(HOSTS.values())
# `inbound` counts both directions, as `sessions` does.
CLASSES = [outbound_class("line", '"*"', LIMIT, f"refuse_at = {LIMIT};")]


def slow_sessions(test):
    """In the middle of a long message each."""
    sessions = [Session(("127.0.0.1", PORT), f"127.0.7.{n}") for n in range(1, LIMIT + 1)]
    test.equal([session.long_message("b@near.example") for session in sessions], [True] * LIMIT,
               "three sessions from outside are in, with long messages")
    return sessions


def end(session):
    code = session.command(".")
    session.quit()
    return code[0]


def all_held(test, site):
    site.forget()
    for name in NAMES:
        site.submit(f"second@{name}")
    test.wait_for(lambda: site.postern.open("line") == 0, "and no session from here is left")
    sessions = slow_sessions(test)
    site.finish(site.runs(2))
    test.equal((site.sink.all, site.sendmail.queued()), ([], len(NAMES)),
               "mail that leaves is held, without a connection")
    test.check(f"deferred by Postern: class line has {LIMIT} of {LIMIT} sessions" in site.syslog(),
               "and the log says why")
    test.equal(Session(("127.0.0.1", PORT), "127.0.7.9").code, 421,
               "a fourth session from outside is refused")
    return sessions


def freed(test, site, sessions):
    test.equal(end(sessions.pop()), 250, "one of the three ends its message")
    test.wait_for(lambda: site.postern.open("line") == LIMIT - 1, "its place is free")
    site.sink.held = True
    runs = site.runs(2)
    site.finish_held(runs, 1)
    test.equal(site.postern.open("line"), LIMIT, "mail that leaves takes it")
    test.equal(Session(("127.0.0.1", PORT), "127.0.7.9").code, 421,
               "which holds sessions from outside off")
    site.sink.held = False
    site.finish(runs)
    test.wait_for(lambda: site.postern.open("line") == LIMIT - 1, "it has gone")
    late = Session(("127.0.0.1", PORT), "127.0.7.9")
    test.equal(late.code, 220, "then one from outside is let in")
    for session in [late, *sessions]:
        session.quit() if session is late else test.equal(end(session), 250, "a long message ends")
    test.within(1.0, lambda: site.postern.open("line") == 0, "line: 0 when all have left")
    site.drain()
    for name in NAMES:
        test.check(f"second@{name}" in site.delivered(), f"mail for {name} has gone")


def body(test):
    site = Site(test, CLASSES, list(HOSTS))
    for name in NAMES:
        site.submit(f"first@{name}")
    site.drain()
    test.equal(site.delivered(), [f"first@{name}" for name in NAMES],
               "one delivery to each destination")
    freed(test, site, all_held(test, site))


main(body, hosts=HOSTS, before=find_root)
