#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""Real Sendmail asks by milter."""
from lib.postern import Postern, one_class
from lib.scenario import fills, reads_as_explained, whole
from lib.sendmail import Sendmail, find_root
from lib.smtp import Session, admitted, open_sessions
from lib.testing import main

PORT, LIMIT = 2025, 8
CLIENTS6 = [f"2001:db8::{number}" for number in range(1, LIMIT + 7)]


def body(test):
    postern = Postern(test, [one_class("limited", LIMIT, [PORT], match='"127.0.0.0/8"'),
                             one_class("six", LIMIT, [PORT], match='"2001:db8::/32"')])
    postern.start()
    sendmail = Sendmail(test, PORT, postern.root / "milter")
    sendmail.start()
    whole(test, postern, ("127.0.0.1", PORT), "limited", LIMIT)
    reads_as_explained(test, postern, ("127.0.0.1", PORT), "limited", LIMIT, "milter", "Sendmail")
    fills(test, postern, ("::1", PORT), "six", LIMIT, clients=CLIENTS6)
    session = Session(("127.0.0.1", PORT), "127.0.0.3")
    test.equal(session.send()[0], 250, "mail is taken")
    test.wait_for(lambda: sendmail.queued() == 1, "it is in the queue")
    session.quit()
    without_postern(test, postern)


def without_postern(test, postern):
    postern.stop()
    sessions = open_sessions(("127.0.0.1", PORT), ["127.0.0.4"] * (LIMIT + 2))
    test.equal(len(admitted(sessions)), LIMIT + 2, "without Postern all are let in")
    test.equal(sessions[0].send()[0], 250, "and their mail is taken")


main(body, before=find_root, addresses=CLIENTS6)
