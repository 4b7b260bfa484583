#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""Real Postfix asks by milter."""
from lib.postern import one_class
from lib.postfix import conf_service
from lib.scenario import reads_as_explained, whole
from lib.site import site
from lib.smtp import admitted, open_sessions
from lib.testing import main

PORT, OTHER, LIMIT = 2025, 2026, 8


def body(test):
    milter = "postfix-milter.master.cf"
    _, postern = site(test, [conf_service(milter, PORT), conf_service(milter, OTHER)],
                      [one_class("limited", LIMIT, [PORT])], [PORT, OTHER])
    whole(test, postern, ("127.0.0.1", PORT), "limited", LIMIT)
    other_service(test, postern)
    reads_as_explained(test, postern, ("127.0.0.1", PORT), "limited", LIMIT, "milter", "Postfix")


def other_service(test, postern):
    """A class with ports leaves the sessions of other services alone."""
    sessions = open_sessions(("127.0.0.1", OTHER), ["127.0.0.9"] * (LIMIT + 2))
    test.equal(len(admitted(sessions)), LIMIT + 2, "another port: all are let in")
    test.equal(postern.open("limited"), 0, "and none is in the count")


main(body)
