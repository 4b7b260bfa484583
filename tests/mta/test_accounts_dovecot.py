#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""Quotas per login where Dovecot checks the passwords: a real Postfix submission service with
Dovecot SASL, as conf/ attaches it.  Several logins from one address, as webmail has them."""
import base64
import re

from lib.dovecot import SASL, dovecot
from lib.postern import one_class
from lib.postfix import conf_service
from lib.site import site
from lib.smtp import Session
from lib.testing import main

PORT, LIMIT = 2087, 6
LOGINS = ("alice@staff.example", "bob@staff.example", "carol@staff.example")
ACCOUNTS = f"""
accounts = ( {{ name = "staff"; match = [ "*@staff.example" ];
  each = {{ recipients = [ "{LIMIT}/1h" ]; }}; }} );
"""


def plain(login, password):
    return base64.b64encode(f"\0{login}\0{password}".encode()).decode()


def login(name, password="secret"):
    session = Session(("127.0.0.1", PORT))
    session.command("EHLO client.example.org")
    return session, session.command(f"AUTH PLAIN {plain(name, password)}")[0]


def rcpt(session, *recipients, sender="anybody@elsewhere.example"):
    session.command(f"MAIL FROM:<{sender}>")
    return [session.command(f"RCPT TO:<{to}>")[0] for to in recipients]


def body(test):
    postfix, postern = site(
        test, [conf_service("postfix-accounts.master.cf", PORT, extra=SASL)],
        [one_class("some", 100, match='"198.51.100.0/24"')], [PORT],
        main="relay_transport = discard:\ndefault_transport = discard:\nmynetworks =\n",
        edit=lambda text: text + ACCOUNTS)
    dovecot(test, postfix, LOGINS)
    sessions = {}
    for name in LOGINS:
        sessions[name], code = login(name)
        test.equal(code, 235, f"{name} logs in")
    stranger, code = login(LOGINS[0], "wrong")
    test.equal(code, 535, "a wrong password")
    test.equal(rcpt(stranger, "x@example.com"), [554], "is no login, and may not relay")
    for name, session in sessions.items():
        test.equal(rcpt(session, *(f"{name[0]}{i}@example.com" for i in range(LIMIT + 1))),
                   [250] * LIMIT + [450], f"{name}: {LIMIT} recipients, whoever the sender is")
        session.command("DATA")
        test.equal(session.command("Subject: t\r\n\r\nt\r\n.")[0], 250, "are taken")
    for name in LOGINS:
        delivered = re.compile(rf"to=<{name[0]}\d@example.com>.*status=sent")
        test.wait_for(lambda: len(delivered.findall(postfix.log_until_now())) == LIMIT,
                      f"{LIMIT} are delivered for {name}")
        test.equal(postern.ask("account", name)["limits"][0]["used"], LIMIT, "and as many count")
    test.check("alice@staff.example" in postern.log_text(), "the log names the login")
    again, code = login(LOGINS[0])
    test.equal((code, rcpt(again, "one@example.com")), (235, [450]), "another session of alice")


main(body)
