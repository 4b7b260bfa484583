#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""Quotas per login on a real Sendmail with sasldb: a milter socket of its own, beside the one
that is asked at connect alone.  What is refused and given back, a login that is held, and clients
without a login whose class has limits."""
import base64
import os
import signal

from lib.limiter import Limiter
from lib.postern import Postern, one_class
from lib.sasldb import AUTH, make_logins
from lib.sendmail import Sendmail, find_root
from lib.smtp import Session
from lib.testing import main

PORT, SINK, LIMIT = 2025, 2599, 10
ACCOUNTS = f"""
accounts = (
  {{ name = "all"; match = "*"; each = {{ recipients = "{LIMIT}/1h"; messages = "6/1h"; bytes = "64k/1h"; }};
    text = "{{used}} of {{limit}} {{what}}: 100% full"; }} );
"""
THIEVES = """
accounts = ( { name = "all"; match = "*"; health = { of = 15; }; } );
mta = ( { name = "s"; kind = "sendmail"; log = "SYSLOG"; log_start = "begin"; } );
"""
CLIENTS = [
    one_class("named", 100, [PORT], '"*.clients.example"', more='client = { recipients = "2/1h"; };'),
    one_class("printers", 100, [PORT], '"127.0.0.0/24"', more='recipients = "5/1h"; '
              'client = { recipients = "3/1h"; messages = "9/1h"; bytes = "64k/1h"; };'),
    one_class("elsewhere", 100, [587], more='client = { recipients = "1/1h"; };')]


class Unclean(Limiter):
    def is_unknown(self, recipient):
        return recipient.startswith("dead")


def login(name):
    session = Session(("127.0.0.1", PORT))
    session.command("EHLO client.example.org")
    plain = base64.b64encode(f"\0{name}@mta.example.com\0secret".encode()).decode()
    code, text = session.command(f"AUTH PLAIN {plain}")
    assert code == 235, (code, text)
    session.command("EHLO client.example.org")
    return session


def begin(session, *recipients):
    session.command("MAIL FROM:<sender@example.com>")
    return [session.command(f"RCPT TO:<{to}>") for to in recipients]


def send(session, *recipients, body="test"):
    codes = [code for code, _ in begin(session, *recipients)]
    if 250 not in codes:
        session.command("RSET")
        return codes
    session.command("DATA")
    return codes + [session.command(f"Subject: t\r\n\r\n{body}\r\n.")[0]]


def quotas(test, postern):
    def used(name):
        found = [row for row in postern.ask("accounts") if row["login"].startswith(name)]
        return found[0] if found else None
    ann = login("ann")
    test.equal(send(ann, *(f"a{i}@x.example" for i in range(8))), [250] * 9, "8 of 10 recipients")
    replies = begin(ann, *(f"b{i}@x.example" for i in range(3)))
    test.equal([code for code, _ in replies], [250, 250, 450], "then two, and a 450")
    test.say(f"450 {replies[2][1]}")
    test.check("10 of 10 recipients: 100% full" in replies[2][1], "with its text")
    test.equal(begin(login("bob"), "x@x.example")[0][0], 250, "another login is let in")
    ann.command("RSET")
    test.equal(send(ann, "c@x.example", "d@x.example"), [250] * 3, "what was given up is given back")
    ann.drop()
    row = used("ann@")
    test.equal((row["used"], row["limit"], row["what"]), (10, 10, "recipients"), "accounts shows it")
    bob = login("bob")
    test.equal(send(bob, "big@x.example", body="\r\n".join(["y" * 900] * 80)), [250, 552],
               "a message above the whole limit is refused at its end, for good")
    begin(bob, "gone@x.example")
    bob.drop()
    test.wait_for(lambda: used("bob@") is not None and used("bob@")["accepted"] == 0,
                  "a client that hangs up: what it was charged is given back")
    test.equal(Session(("127.0.0.1", PORT)).send()[0], 250, "without a login nothing is asked")
    test.check(len(postern.sessions()) >= 0, "sessions")


def stolen(test, postern, sendmail):
    Unclean(test, ["127.0.0.1"], SINK, seconds=0)
    eve = login("eve")
    for i in range(10):
        test.check(send(eve, f"dead{i}a@[127.0.0.1]", f"dead{i}b@[127.0.0.1]",
                        f"good{i}@[127.0.0.1]")[-1] == 250, f"message {i}")
    name = next(row["login"] for row in postern.ask("accounts") if row["login"].startswith("eve@"))
    queued = postern.ask("account", name)["queued"]
    test.equal(len(queued), 10, "its messages are listed")
    test.equal(queued[0]["remove"], None, "without a command to remove one: Sendmail has none")
    sendmail.run(*queued[0]["hold"].split())
    test.equal([file.name[2:] for file in (sendmail.root / "queue").glob("**/hf*")],
               [queued[0]["queue_id"]], "the command to hold one, as printed")
    sendmail.run("sendmail", "-qQ", "-Q", f"-qI{queued[0]['queue_id']}")
    run = sendmail.queue_run()
    test.wait_for(lambda: postern.ask("account", name)["unknown_recipients"] == 20, "all results are read")
    os.kill(postern.roles()["feed.0"], signal.SIGKILL)
    test.wait_for(lambda: postern.ask("account", name)["held_by"] is not None,
                  "a login with a bad list is held, though its log reader is killed before", limit=30)
    run.wait(30)
    replies = begin(eve, "x@x.example")
    test.say(f"{replies[0]}")
    test.check(replies[0][0] == 450 and "held" in replies[0][1], "and refused")
    test.wait_for(lambda: postern.ask("account", name)["queued"] == [], "no message of it waits")
    test.equal(postern.command("resume", "account", name).returncode, 0, "resume account")
    test.equal(send(eve, "x@x.example"), [250, 250], "it may send again")


def clients_of_a_class(test, postern):
    def client(source):
        session = Session(("127.0.0.1", PORT), source=source)
        session.command("EHLO client.example.org")
        return session
    test.equal(send(client("127.0.0.7"), "big@x.example", body="\r\n".join(["y" * 900] * 80)),
               [250, 552], "the body counts")
    test.equal(send(client("127.0.0.8"), "a@x.example", "b@x.example", "c@x.example", "d@x.example"),
               [250, 250, 250, 450, 250], "a client without a login: three recipients, then 450")
    second = client("127.0.0.9")
    begin(second, "e@x.example", "f@x.example")
    test.equal([code for code, _ in begin(client("127.0.0.10"), "g@x.example")], [450],
               "its class has a limit for all of them")
    test.equal(send(client("192.0.2.9"), "a@x.example", "b@x.example", "c@x.example"),
               [250, 250, 450, 250], "a client is known by its verified name")
    test.equal(send(login("bob"), *(f"a{i}@x.example" for i in range(6))), [250] * 7,
               "a login does not count for its client's class")
    test.equal(send(client("192.0.2.10"), *(f"a{i}@x.example" for i in range(6))), [250] * 7,
               "a class of another port does not concern it")
    used = {row["login"]: row["accepted"] for row in postern.ask("accounts")
            if row["login"].startswith("class:") and row["accepted"] > 0}
    test.equal(used, {"class:printers:127.0.0.8": 3, "class:printers:127.0.0.9": 2,
                      "class:named:192.0.2.9": 2}, "accounts lists them")
    test.equal(send(client("192.0.2.9"), "postmaster@x.example")[0], 250, "but never postmaster")
    second.drop()


def body(test):
    test.deaths_expected = True
    make_logins(test, "ann", "bob", "eve")
    def edit(accounts):
        return lambda text: text.replace("listen = {", f'listen = {{ milter_accounts = "unix:'
                                         f'{test.directory}/postern/accounts";') + accounts
    postern = Postern(test, [one_class("all", 100, [PORT])], edit=edit(ACCOUNTS))
    postern.start()
    sendmail = Sendmail(test, PORT, postern.root / "milter", accounts=postern.root / "accounts",
                        outbound=SINK, before=AUTH)
    sendmail.start()
    quotas(test, postern)
    syslog = test.logs / "syslog"
    postern.stop()
    postern.configure([one_class("all", 100, [PORT])],
                      edit(THIEVES.replace("SYSLOG", str(syslog))))
    postern.start()
    stolen(test, postern, sendmail)
    postern.stop()
    postern.configure(CLIENTS, edit(""))
    postern.start()
    clients_of_a_class(test, postern)
    postern.stop()
    test.equal(send(login("ann"), "late@x.example"), [250, 250], "without Postern mail is taken")


main(body, before=find_root, hosts={"192.0.2.9": "mx.clients.example"},
     addresses=["192.0.2.9", "192.0.2.10"])
