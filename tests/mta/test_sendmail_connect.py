#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""Real Sendmail asks by socket map at connect, and by milter: who is refused reads the text
of its class, with its ID, and a session counts once."""
import re

from lib.postern import Postern, one_class
from lib.scenario import fills, reads_as_explained, whole
from lib.sendmail import Sendmail, find_root
from lib.smtp import Session, admitted, open_sessions
from lib.testing import main

PORT, DELAYED, LIMIT = 2025, 2026, 8
CLIENTS6 = [f"2001:db8::{number}" for number in range(1, LIMIT + 7)]
LONG = "long" + 40 * "x"
TEXTS = {"odd": r'5% of \"<you>\", or %s (not [all]) \\ $#x; see  {id}!', LONG: "{class} " * 7,
         "plain": "Busy"}
# What Debian ships, which calls check_relay at connect for these two alone.
DEBIAN = """FEATURE(`access_db', `hash -o /nonexistent')dnl
FEATURE(`delay_checks', `friend', `n')dnl
FEATURE(`conncontrol', `nodelay', `terminate')dnl
FEATURE(`ratecontrol', `nodelay', `terminate')dnl
"""
# The site's own, behind ours.
OWN = """LOCAL_RULESETS
SLocal_check_relay
R$* $| 127.0.9.9	$#error $@ 5.7.1 $: "550 not you"
"""


def classes():
    found = [one_class(name, 1, [PORT], f'"127.0.6.{number}"', f'text = "{text}";')
             for number, (name, text) in enumerate(TEXTS.items(), 1)]
    return found + [one_class("limited", LIMIT, [PORT], match='"127.0.0.0/8"'),
                    one_class("delayed", LIMIT, [DELAYED], match='"127.0.0.0/8"'),
                    one_class("six", LIMIT, [PORT], match='"2001:db8::/32"')]


def reads(test, postern, address):
    """What the second client of a class of one reads, and the ID of its refusal."""
    first, second = Session(("127.0.0.1", PORT), address), Session(("127.0.0.1", PORT), address)
    test.equal((first.code, second.code, second.ended()), (220, 421, True),
               f"{address}: one is let in, the other reads 421 and is disconnected")
    why = postern.ask("why")
    number = next(row["id"] for row in why if row["id"] in second.text) if second.text else None
    test.check(number is not None, f"{address}: posternctl why knows the ID in {second.text!r}")
    first.quit()
    return second.text.removeprefix("4.7.0 "), number


def texts(test, postern):
    text, number = reads(test, postern, "127.0.6.1")
    test.equal(text, f'5% of "<you>", or %s (not [all]) \\ $#x; see  {number}!',
               "a text with all that means something to Sendmail is read as it was written")
    text, number = reads(test, postern, "127.0.6.2")
    test.check((7 * f"{LONG} ").startswith(text.removesuffix(f" (id={number})")) and len(text) == 240,
               f"of a long text {len(text)} bytes are read, and the ID")
    text, number = reads(test, postern, "127.0.6.3")
    test.equal(text, f"Busy (id={number})", "a plain text, and its ID")
    test.within(1.0, lambda: all(postern.open(name) == 0 for name in TEXTS), "nobody is left")


def one_decision(test, postern, sendmail):
    """The milter joins what the map has decided."""
    before = postern.classes()["limited"]
    held = open_sessions(("127.0.0.1", PORT), ["127.0.8.1"] * (LIMIT + 3))
    rows = [row for row in postern.sessions() if row["class"] == "limited"]
    test.equal((len(admitted(held)), len(rows)), (LIMIT, LIMIT), f"{LIMIT} sessions, in the table")
    after = postern.classes()["limited"]
    test.equal([after[name] - before[name] for name in ("admitted", "refused", "open")],
               [LIMIT, 3, LIMIT], "each of them was decided once")
    test.equal(len(re.findall(r"reject=421 4\.7\.0 .*127\.0\.8\.1.*closing connection|"
                              r"Milter: connect: host=.*reject", test.syslog())), 0,
               "the milter has refused nobody")
    refused = next(session for session in held if session.code == 421)
    test.check(f"reject=421 {refused.text}" in test.syslog(),
               "the log of Sendmail has the text, too")
    for session in admitted(held):
        session.quit()
    test.within(1.0, lambda: postern.open("limited") == 0, "they have left")


def delayed(test, postern):
    """check_relay at connect, and Local_check_relay at each RCPT: asked once."""
    fills(test, postern, ("127.0.0.1", DELAYED), "delayed", LIMIT)
    before = postern.status()["counters"]["questions"]
    session = Session(("127.0.0.1", DELAYED), "127.0.0.3")
    test.equal(session.send(["a@example.com", "b@example.com", "c@example.com"])[0], 250,
               "delay_checks: mail to three is taken")
    test.equal(postern.status()["counters"]["questions"] - before, 2,
               "delay_checks: the map was asked once, the milter once")
    session.quit()


def body(test):
    postern = Postern(test, classes())
    postern.start()
    paths = {"milter": postern.root / "milter", "connect": postern.root / "map"}
    sendmail = Sendmail(test, PORT, **paths, after=OWN)
    sendmail.start()
    Sendmail(test, DELAYED, name="delayed", before=DEBIAN, **paths).start()
    to = ("127.0.0.1", PORT)
    whole(test, postern, to, "limited", LIMIT)
    reads_as_explained(test, postern, to, "limited", LIMIT, "map")
    fills(test, postern, ("::1", PORT), "six", LIMIT, clients=CLIENTS6)
    texts(test, postern)
    one_decision(test, postern, sendmail)
    delayed(test, postern)
    test.equal(Session(to, "127.0.9.9").send()[0], 550,
               "the site's own Local_check_relay is asked, too")
    session = Session(to, "127.0.0.3")
    test.equal(session.send()[0], 250, "mail is taken")
    test.wait_for(lambda: sendmail.queued() == 1, "it is in the queue")
    session.quit()


main(body, before=find_root, addresses=CLIENTS6)
