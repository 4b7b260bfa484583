#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""Rates with a burst, limits of each client by prefix, who is exempt, and the
texts, on a real Postfix."""
import re

from lib.postern import one_class
from lib.postfix import conf_service
from lib.scenario import leave_all
from lib.site import site
from lib.smtp import Session, admitted
from lib.testing import main

PORT = 2025
TO, TO6 = ("127.0.0.1", PORT), ("2001:db8::1", PORT)
HOSTS = {"127.0.9.1": "mx.partner.example", "127.0.9.2": "partner.example",
         "127.0.9.3": "partner.example.net"}
SIX = ["2001:db8:6::1", "2001:db8:6::2", "2001:db8:6::3", "2001:db8:6:1::1"]
EXEMPT = '"*.partner.example", "127.0.10.0/24", "2001:db8:10::/48"'
USER = "2001:db8:10::1"
XCLIENT = "smtpd_authorized_xclient_hosts=127.0.12.0/24"


def classes():
    def net(name, limit, match, more):
        return one_class(name, limit, [PORT], match=match, more=more)
    # slow enough that none is earned anew while a few come, on a machine that stands still
    yield net("rate", 50, '"127.0.5.0/24"', 'rate = "20/1m"; burst = 3;')
    yield net("prefix", 50, '"127.0.6.0/23", "2001:db8:6::/47"',
              "client = { sessions = 2; ipv4 = 24; ipv6 = 64; };")
    yield net("each", 50, '"127.0.8.0/24"', 'client = { rate = "20/1m"; burst = 2; };'
              'text = "{class}: {client}, wait {retry} s, say {id}"; retry = "5m";')
    yield net("full", 1, '"127.0.9.0/24", "127.0.10.0/24", "127.0.11.0/24", "2001:db8:10::/48"', "")
    yield net("late", 1, '"127.0.12.0/24"', 'action = "defer"; retry = "120s";')


def codes(to, *clients):
    """One after the other."""
    sessions = [Session(to, client) for client in clients]
    return [session.code for session in sessions], sessions


def logged(postern, text, *words):
    """The log line whose id the text tells, with these words in it?"""
    found = re.search(r"[0-9a-hjkmnp-tv-z]{12}(?=\)|$)", text.splitlines()[0])
    return found is not None and any(
        f" id={found[0]} " in line and all(word in line for word in words)
        for line in postern.log_text().splitlines())


def rates(test, postern):
    got, sessions = codes(TO, *[f"127.0.5.{number}" for number in range(1, 6)])
    test.equal(got, [220] * 3 + [421] * 2, "rate 20/1m, burst 3: three at once are let in")
    test.say(f"421 {sessions[4].text}")
    test.check(logged(postern, sessions[4].text, "reason=class-rate", "count=3", "limit=3"),
               "the text tells the id of the log line, which tells class-rate")
    test.within(3.3, lambda: codes(TO, "127.0.5.9")[0] == [220], "one more three seconds later")
    test.equal(codes(TO, "127.0.5.9")[0], [421], "and not two")
    leave_all(admitted(sessions))


def client_rates(test, postern):
    got, sessions = codes(TO, *["127.0.8.1"] * 3, *["127.0.8.2"] * 3)
    test.equal(got, [220, 220, 421] * 2, "client.rate with burst 2: two of each client")
    test.check("each: 127.0.8.1, wait 300 s, say " in sessions[2].text,
               "a text of our own, with class, client and seconds")
    test.check(logged(postern, sessions[2].text, "reason=client-rate", "class=each"),
               "and the id of the log line")
    leave_all(admitted(sessions))


def prefixes(test, postern):
    got, sessions = codes(TO, "127.0.6.1", "127.0.6.2", "127.0.6.3", "127.0.7.1")
    test.equal(got, [220, 220, 421, 220], "client.sessions = 2 of a /24, and of the next /24")
    test.check(logged(postern, sessions[2].text, "reason=client-sessions", "class=prefix"),
               "the log tells client-sessions")
    sessions[0].quit()
    test.within(1.0, lambda: codes(TO, "127.0.6.4")[0] == [220], "one leaves: one comes in")
    leave_all(admitted(sessions[1:]))
    got, sessions = codes(TO6, *SIX)
    test.equal(got, [220, 220, 421, 220], "the same for a /64, and the next /64")
    leave_all(admitted(sessions))
    test.within(1.0, lambda: postern.open("prefix") == 0, "0 after all have left")


def exempt(test, postern):
    held = Session(TO, "127.0.11.1")
    test.equal(held.code, 220, "a class of one session is full")
    for client, how in (("127.0.9.1", "name"), ("127.0.9.2", "domain's own name"),
                        ("127.0.10.7", "prefix")):
        test.equal(codes(TO, client)[0], [220], f"exempt by {how}: comes in")
    test.equal(codes(TO6, USER)[0], [220], "exempt by IPv6 prefix: comes in")
    test.equal(codes(TO, "127.0.9.3", "127.0.11.2")[0], [421, 421], "others do not")
    test.equal(postern.open("full"), 1, "and only one is counted")
    held.quit()


def recipient(session, address, sender="a@example.org"):
    session.command("RSET")
    session.command(f"MAIL FROM:<{sender}>")
    return session.command(f"RCPT TO:<{address}>")


def authenticated(test, postern):
    held = Session(TO, "127.0.12.1")
    late = Session(TO, "127.0.12.2")
    late.command("EHLO client.example.org")
    code, text = recipient(late, "b@example.com")
    test.equal(code, 450, "action defer: a recipient above the limit is deferred")
    test.say(f"450 {text}")
    test.check("try again in 120 seconds (" in text and logged(postern, text, "event=deferred"),
               "with the seconds, and the id of the log line")
    test.equal([recipient(late, f"{user}@example.com")[0] for user in ("postmaster", "ABUSE")]
               + [recipient(late, "b@example.com", "")[0]], [250] * 3,
               "never postmaster@, abuse@, the null sender")
    late.command("RSET")
    test.equal(late.command("XCLIENT LOGIN=somebody")[0], 220, "the client has logged in")
    late.command("EHLO client.example.org")
    test.equal(recipient(late, "b@example.com")[0], 250, "nor authenticated mail")
    leave_all([held, late])


def body(test):
    services = [conf_service("postfix-policy.master.cf", PORT, extra=[
        XCLIENT, "smtpd_sasl_auth_enable=yes", "smtpd_sasl_security_options=noanonymous"])]
    _, postern = site(test, services, classes(), [PORT], exempt=EXEMPT)
    client_rates(test, postern)
    prefixes(test, postern)
    exempt(test, postern)
    authenticated(test, postern)
    rates(test, postern)        # last: a flood of refusals, of which not all are logged


main(body, hosts=HOSTS, addresses=["2001:db8::1", *SIX, USER])
