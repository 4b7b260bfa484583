#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""Quotas per login on two real Postfix submission services (XCLIENT LOGIN stands for a login):
what is accepted, refused and given back, and that the counts are what Postfix delivered; a login
that is held for what its mail does; and clients without a login, by their class."""
import json
import os
import re
import signal
import socket
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor

from lib.journal import Journal
from lib.limiter import Limiter
from lib.login_log import LoginLog
from lib.postern import one_class
from lib.postfix import conf_service
from lib.site import site
from lib.smtp import Session
from lib.testing import Skipped, main

PORTS = (2087, 2088)
OUTSIDE = 2089
SINK = 2599
LIMIT = 20
EXTRA = ["smtpd_authorized_xclient_hosts=127.0.0.0/8", "smtpd_sasl_auth_enable=yes",
         "smtpd_sasl_security_options=noanonymous", "smtpd_relay_restrictions=permit_mynetworks,"
         "permit_sasl_authenticated,reject", "smtpd_client_connection_count_limit=0"]
ACCOUNTS = f"""
accounts = (
  {{ name = "staff"; match = [ "*@staff.example" ];
    each = {{ recipients = [ "{LIMIT}/1h", "1000/1d" ]; messages = "12/1h"; bytes = "64k/1h";
             recipients_per_message = 8; }};
    free = [ "example.org" ];
    text = "{{used}} of {{limit}} {{what}} in {{window}}, again in {{retry}} s ({{id}})"; }},
  {{ name = "many"; match = "bulk*"; action = "reject"; each = {{ recipients = "1000/1h"; }}; }},
  {{ name = "thieves"; match = [ "eve*", "bob" ]; health = {{ unknown = "15/1h"; of = 20; }}; }},
  {{ name = "seen"; match = "seen*"; observe = true; each = {{ recipients = "2/1h"; }}; }} );
account_overrides = "OVERRIDES";
"""


def login(name, port=PORTS[0]):
    session = Session(("127.0.0.1", port))
    session.command("EHLO client.example.org")
    assert session.command(f"XCLIENT LOGIN={name}")[0] == 220
    session.command("EHLO client.example.org")
    return session


def begin(session, *recipients):
    session.command("MAIL FROM:<sender@example.com>")
    return [session.command(f"RCPT TO:<{to}>") for to in recipients]


def send(session, *recipients, body="test"):
    """The codes of its recipients, then of the message."""
    codes = [code for code, _ in begin(session, *recipients)]
    if 250 not in codes:
        session.command("RSET")
        return codes
    session.command("DATA")
    return codes + [session.command(f"Subject: t\r\n\r\n{body}\r\n.")[0]]


class Unclean(Limiter):
    """Knows 7 of 10 recipients."""

    def is_unknown(self, recipient):
        return hash(recipient) % 10 < 3 and not recipient.startswith("friend")


class Site:
    def __init__(self, test):
        overrides = test.directory / "overrides"
        overrides.write_text("# who may less\nfew@staff.example recipients=3/1h\nfew2@staff.example recipients=3/1h\nx@staff.example lots=1\n")
        overrides.chmod(0o644)
        services = [conf_service("postfix-accounts.master.cf", port, extra=EXTRA)
                    for port in PORTS]
        services.append(conf_service("postfix-policy.master.cf", OUTSIDE,
                                     take=["smtpd_end_of_data_restrictions"]))
        self.test = test
        self.postfix, self.postern = site(
            test, services, [one_class("mtas", 100, match='"198.51.100.0/24"', more='recipients = "4/1h"; '
                                       'client = { recipients = "3/1h"; };'),
                             one_class("strangers", 100, [OUTSIDE], '"127.0.0.0/8"',
                                       more='client = { recipients = "3/1h"; messages = "9/1h"; bytes = '
                                            '"64k/1h"; };')], (*PORTS, OUTSIDE),
            main=f"transport_maps = inline:{{list.example=smtp:[127.0.0.1]:{SINK}}}\n"
                 "relay_transport = discard:\ndefault_transport = discard:\n",
            edit=lambda text: text.replace("listen = {", 'listen = { metrics = "inet:127.0.0.1:9471";') + ACCOUNTS.replace("OVERRIDES", str(overrides)) +
            f'mta = ( {{ name = "a"; log = "{test.logs}/postfix-A"; log_start = "begin"; '
            f'syslog_name = "postfix-A"; config_directory = "{test.directory}/A/etc"; }} );\n')

    def used(self, name, what="recipients", window="1h"):
        limits = self.postern.ask("account", name)["limits"]
        return next(row["used"] for row in limits
                    if (row["what"], row["window"], row["of"]) == (what, window, "each") or
                    (row["what"], row["window"], row["of"]) == (what, window, "override"))

    def is_used(self, name, wanted, what):
        self.test.wait_for(lambda: self.used(name) == wanted,
                           f"{what}: {wanted} recipients of {name} count")

    def sent(self, user):
        """Recipients of this local part that Postfix delivered."""
        return len(re.findall(rf"to=<{user}[^>]*>.*status=sent", self.postfix.log_text()))


def to_the_limit(test, it):
    name, session = "a@staff.example", login("A@Staff.example")
    for i in range(3):
        test.equal(send(session, *(f"one{i}x{j}@example.com" for j in range(6))), [250] * 7,
                   f"message {i} of 6 recipients")
    it.is_used(name, 18, "three messages")
    replies = begin(session, *(f"onelast{j}@example.com" for j in range(3)))
    test.equal([code for code, _ in replies], [250, 250, 450], "20 of 20: then 450")
    text = replies[2][1]
    test.say(f"450 {text}")
    found = re.search(r"20 of 20 recipients in 1h, again in (\d+) s \((\w+)\)", text)
    test.check(found and 3300 <= int(found[1]) <= 3900, "with what is used, and when it is free")
    log = it.postern.log_text()
    test.check(re.search(rf"event=account .*id={found[2]} account=staff login=A@Staff.example "
                         r".*what=recipients count=20 limit=20 window=1h", log), "and a log line")
    why = it.postern.ask("why", found[2])
    test.equal((why["kind"], why["name"], why["class"], why["count"], why["limit"]),
               ("account", "A@Staff.example", "staff", 20, 20), "why tells of it")
    test.check(why["undo"].endswith("forget account A@Staff.example"), "and how to undo it")
    session.command("RSET")
    test.equal(begin(login("other@staff.example", PORTS[1]), "x@example.com")[0][0], 250,
               "another login is let in")
    # the transaction that was given up: 18 again
    test.equal([code for code, _ in begin(session, *(f"z{j}@example.com" for j in range(3)))],
               [250, 250, 450], "what was given up is given back")
    # it tells nobody; its smtpd ends when it is idle for 100 s, or at once
    session.drop()
    it.postfix.reload()
    it.is_used(name, 18, "a client that hung up, when its smtpd ends")
    return name


def per_message_and_free(test, it):
    session = login("b@staff.example")
    replies = begin(session, *(f"p{j}@example.com" for j in range(9)))
    test.equal([code for code, _ in replies], [250] * 8 + [452], "8 recipients in one message")
    test.check("Recipients of one message are limited to 8; send the others in another message (id="
               in replies[8][1], f"452 does not say when there is room again: {replies[8][1]}")
    session.command("RSET")
    test.equal(send(session, "free@example.org", "two@example.com", "postmaster@example.com"),
               [250] * 4, "own domains, postmaster")
    it.is_used("b@staff.example", 1, "free recipients do not count")
    session.command("MAIL FROM:<>")
    test.equal(session.command("RCPT TO:<bounce@example.com>")[0], 250, "nor do bounces")
    session.command("RSET")
    test.equal(send(session, "big@example.com", body="x" * 900 + ("\r\n" + "y" * 900) * 80), [250, 552],
               "more than 64 KiB in an hour: refused at its end, for good")
    it.is_used("b@staff.example", 1, "and its recipient is given back")
    few = login("few@staff.example")
    test.equal([code for code, _ in begin(few, *(f"f{j}@example.com" for j in range(4)))],
               [250] * 3 + [450], "a login with a line of its own")
    few.quit()
    seen = login("seen1")
    test.equal(send(seen, *(f"o{j}@example.com" for j in range(4))), [250] * 5, "observe mode")
    it.is_used("seen1", 2, "counts what enforcement would let in")
    session.quit()
    seen.quit()


def bare_postmaster(test, it):
    """smtpd does not ask about this recipient, only at the end of its message."""
    session = login("few2@staff.example")
    test.equal(send(session, "postmaster"), [250, 250], "to postmaster, without a domain")
    test.equal(send(session, "Postmaster"), [250, 250], "in any case")
    it.is_used("few2@staff.example", 0, "neither counts")
    test.equal(send(session, *(f"p{j}@example.com" for j in range(3))), [250] * 4, "to the limit")
    test.equal(begin(session, "p4@example.com")[0][0], 450, "no more")
    session.command("RSET")
    test.equal(send(session, "postmaster"), [250, 250], "to postmaster above the limit")
    it.is_used("few2@staff.example", 3, "which counts nothing")
    session.quit()


def pipelined(test, it):
    """8 clients, two services, commands in one piece, some give up: as many count as arrived."""
    def client(number):
        session = login("bulk", PORTS[number % 2])
        for message in range(6):
            recipients = [f"pipe{number}x{message}x{i}@example.com" for i in range(12)]
            gives_up = message % 3 == 1
            commands = ["MAIL FROM:<sender@example.com>",
                        *(f"RCPT TO:<{to}>" for to in recipients), "RSET" if gives_up else "DATA"]
            session.socket.sendall("".join(f"{line}\r\n" for line in commands).encode())
            codes = [session.reply()[0] for _ in commands]
            assert codes == [250] * 13 + [250 if gives_up else 354], codes
            if not gives_up:
                assert session.command("Subject: t\r\n\r\nt\r\n.")[0] == 250
        session.drop()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(client, range(8)))
    it.is_used("bulk", 8 * 4 * 12, "8 clients")
    test.wait_for(lambda: it.sent("pipe") == 8 * 4 * 12, "as many recipients as were delivered")


def large(test, it):
    """A message that is given up in its text, then 1,000 recipients at once, by BDAT."""
    session = login("bulk2")
    begin(session, *(f"given{i}@example.com" for i in range(10)))
    session.command("DATA")
    session.socket.sendall(b"Subject: t\r\n\r\nhalf of")
    session.drop()
    session = login("bulk3")
    recipients = [f"chunk{i}@example.com" for i in range(1000)]
    commands = ["MAIL FROM:<sender@example.com>", *(f"RCPT TO:<{to}>" for to in recipients)]
    session.socket.sendall("".join(f"{line}\r\n" for line in commands).encode())
    codes = {session.reply()[0] for _ in commands}
    text = b"Subject: t\r\n\r\nin chunks\r\n"
    session.socket.sendall(b"BDAT %d\r\n%sBDAT %d LAST\r\n%s" % (len(text), text, 4, b"end\n"))
    test.equal((codes, session.reply()[0], session.reply()[0]), ({250}, 250, 250), "1,000 recipients in chunks")
    it.is_used("bulk3", 1000, "all of them")
    test.wait_for(lambda: it.sent("chunk") == 1000, "as many as were delivered", limit=40)
    test.equal(begin(session, "more@example.com")[0][0], 550, "and no more")
    session.drop()
    it.postfix.reload()
    it.is_used("bulk2", 0, "what was given up in its text, when its smtpd has ended")


def stolen(test, it):
    """A list of which the site does not know 3 of 10; bob sends to friends meanwhile."""
    Unclean(test, ["127.0.0.1"], SINK, seconds=0)
    eve, bob, answers, friends, fifteenth = login("Eve"), login("bob"), [], [], None

    def bounces():
        return len(re.findall(r"to=<victim.*status=bounced", it.postfix.log_text()))

    def asks():
        nonlocal fifteenth
        answers.append(send(eve, f"victim{len(answers)}@list.example")[0])
        friends.append(send(bob, f"friend{len(answers)}@list.example"))
        if fifteenth is None and bounces() >= 15:
            fifteenth = time.monotonic()
        return answers[-1] == 450
    test.wait_for(asks, "a login with a bad list is held", limit=40)
    test.equal(set(map(tuple, friends)), {(250, 250)}, "another login is left alone")
    test.check(fifteenth and time.monotonic() - fifteenth < 30, "within 30 s of the 15th bounce")
    test.say(f"{len(answers) - 1} recipients, {bounces()} bounced; refused "
             f"{time.monotonic() - fifteenth:.2f} s after the 15th bounce line was seen")
    session = login("eve")
    text = begin(session, "victim@list.example")[0][1]
    test.say(f"450 {text}")
    test.check("This login is held" in text, "with a text of its own")
    session.command("RSET")
    test.equal(begin(session, "postmaster@list.example")[0][0], 250, "postmaster can be asked")
    session.command("RSET")
    shown = it.postern.ask("account", "eve")
    test.equal((shown["unknown_recipients"] >= 15, shown["failed_percent"] >= 20), (True, True),
               "account shows what led to it")
    why = it.postern.ask("why", shown["held_by"])
    test.equal((why["kind"], why["name"], why["reason"]),
               ("account-held", "eve", "account-unknown"), "and why")
    test.check(why["undo"].endswith("resume account eve"), "and how to end it")
    it.postfix.set(f"transport_maps = inline:{{list.example=smtp:[127.0.0.1]:{SINK}}}\n"
                   "defer_transports = smtp\n")
    it.postfix.reload()
    waiting = login("eve2")
    send(waiting, "waits@list.example")
    test.wait_for(lambda: len(it.postern.ask("account", "eve2")["queued"]) == 1 and
                  it.postern.ask("account", "eve")["queued"] == [],
                  "a message that waits is listed, and none that left")
    row = it.postern.ask("account", "eve2")["queued"][0]
    where = ["postqueue", "-c", it.postfix.etc, "-j"]
    test.wait_for(lambda: json.loads(test.run(where))["queue_name"] == "deferred", "it is deferred")
    usual = it.postern.file.read_text()
    it.postern.file.write_text(usual.replace('mta = ( { name = "a";', 'mta = ( { name = "renamed";'))
    test.equal(it.postern.command("reload").returncode, 0, "its mail server is renamed")
    other = it.postern.ask("account", "eve2")["queued"][0]
    test.equal((other["hold"], other["remove"]), (None, None), "then there is no command for it")
    it.postern.file.write_text(usual)
    test.equal(it.postern.command("reload").returncode, 0, "and named again")
    test.run(row["hold"].split())
    test.equal(json.loads(test.run(where))["queue_name"], "hold", "the command to hold it, as printed")
    test.run(row["remove"].split())
    test.equal(test.run(where), "", "the command to remove it, as printed")
    session.quit()


def is_held(test, it, when):
    session = login("eve")
    test.equal(begin(session, "victim@list.example")[0][0], 450, f"{when}: a held login is held")
    session.quit()


def resumed(test, it):
    test.equal(it.postern.command("resume", "account", "eve").returncode, 0, "resume account")
    test.equal(it.postern.command("resume", "account", "eve").returncode, 68, "which it is no more")
    session = login("eve")
    test.equal(send(session, "victim@list.example"), [250, 250], "it may send again")
    session.quit()


def by_class(test, it):
    """A client that has not logged in, by its class: what smtpd would ask."""
    def ask(client, recipient, number, **more):
        fields = {"request": "smtpd_access_policy", "protocol_state": "RCPT", "sender": "a@b.example",
                  "recipient": recipient, "client_address": client, "client_name": "unknown",
                  "server_port": "2587", "instance": f"{client.replace(chr(46), str())}.{number}", **more}
        # each client has an smtpd, which keeps its connection
        asking = sockets.setdefault(client, socket.socket(socket.AF_UNIX))
        if asking.fileno() not in connected:
            asking.connect(str(it.postfix.private / "postern"))
            connected.add(asking.fileno())
        asking.sendall("".join(f"{name}={value}\n" for name, value in fields.items()).encode() + b"\n")
        return asking.recv(4096).decode()
    sockets, connected = {}, set()
    answers = [ask("198.51.100.9", f"r{i}@x.example", 1) for i in range(4)]
    test.check(["450" in answer for answer in answers] == [False, False, False, True],
               f"3 recipients of a client an hour: {answers[-1]}")
    test.check("450" not in ask("198.51.100.10", "r@x.example", 2), "another client")
    test.check("450" in ask("198.51.100.11", "r@x.example", 3), "4 of the class")
    test.check("450" not in ask("198.51.100.9", "postmaster@x.example", 4), "never postmaster")
    test.check("450" not in ask("198.51.100.9", "q@x.example", 5, sender=""), "a bounce counts, too: there is room")
    rows = {row["login"]: row for row in it.postern.ask("accounts", "class:")}

    def scrape():
        with urllib.request.urlopen("http://127.0.0.1:9471/metrics") as answer:
            return answer.read().decode()
    test.wait_for(lambda: 'postern_account_held{login="eve"} 1\n' in scrape(), "metrics name who is held")
    metrics = scrape()
    group = 'account="class:mtas",what="recipients",window="1h"'
    test.check("postern_accounts_held 1\n" in metrics and
               'postern_account_used_ratio{login="' in metrics, "and of the logins that matter most")
    test.check(f"postern_account_group_limit{{{group}}} 4\n" in metrics and
               f"postern_account_group_used{{{group}}} 2\n" in metrics and
               re.search(r"^postern_accounts [1-9]", metrics, re.M), "metrics tell of groups")
    row = rows["class:mtas:198.51.100.9"]
    test.equal((row["used"], row["limit"], row["refused"]), (1, 3, 1),
               "accounts lists them; what was begun and not ended is given back")


def outside(test, it):
    """Without a login, by the lines of postfix-policy.master.cf."""
    session = Session(("127.0.0.1", OUTSIDE), source="127.0.0.8")
    session.command("EHLO client.example.org")
    test.equal(send(session, "s1@example.com"), [250, 250], "a client of a class: one message")
    test.equal(send(session, "s2@example.com"), [250, 250], "and another")
    limits = it.postern.ask("account", "class:strangers:127.0.0.8")["limits"]
    test.equal(sorted((row["what"], row["used"]) for row in limits),
               [("KiB", 2), ("messages", 2), ("recipients", 2)], "both count")
    test.equal(send(session, "s3@example.com", "s4@example.com"), [250, 450, 250], "then 450")
    session.quit()
    session = Session(("127.0.0.1", OUTSIDE), source="127.0.0.9")
    session.command("EHLO client.example.org")
    test.equal(send(session, "s5@example.com", body="\r\n".join(["x" * 900] * 80)), [250, 552],
               "a message above the limit is refused at its end")
    session.quit()


def replayed(test, it):
    made = LoginLog(test.random)
    log = test.directory / "old.log"
    log.write_text(made.text())
    rows = [json.loads(line) for line in it.postern.command("analyze", "--accounts", log).stdout.splitlines()]
    found = {(row["login"], row["what"], row["window"]):
             (row["p50"], row["p99"], row["max"], row["messages"])
             for row in rows if row["event"] == "login"}
    wanted = made.uses()
    wrong = {key: (found.get(key), wanted[key]) for key in wanted if found.get(key) != wanted[key]}
    test.equal((wrong, len(found)), ({}, len(wanted)), f"replay: {len(wanted)} rows as generated")
    block = rows[-1]["accounts"]
    test.check("user30@example.org recipients=" in block, "who sent far more gets a line of its own")
    file = test.directory / "proposed.conf"
    file.write_text("version = 1; classes = ();\n" + block)
    test.equal(it.postern.command("check", file).returncode, 0, "the block can be pasted")
    log.write_text("no log\n")
    test.equal(it.postern.command("analyze", "--accounts", log).returncode, 65, "nothing to say")


def killed(test, it, name):
    for role, pid in it.postern.roles().items():
        if role.startswith("policy"):
            os.kill(pid, signal.SIGKILL)
    test.wait_for(it.postern.ready, "policy workers are back")
    session = login("c@staff.example", PORTS[1])
    test.equal(send(session, "c1@example.com"), [250, 250], "a session goes on")
    session.quit()
    test.equal(it.used(name), 18, "counts survive kill -9 of the workers")
    it.postern.kill()
    it.postern.start_again()
    test.equal((it.used(name), it.used("c@staff.example")), (18, 1),
               "and kill -9 of the whole daemon")
    is_held(test, it, "kill -9 of everything")
    test.wait_for(lambda: '"c@staff.example"' in it.postern.command(
        "journal", "dump", "--type", "account").stdout, "the journal has it a second later")
    it.postern.kill()
    Journal(test, it.postern).lose_state()
    it.postern.start_again()
    test.equal((it.used(name), it.used("c@staff.example")), (18, 1),
               "and the loss of the state, as by a reboot")
    is_held(test, it, "the loss of the state")


def seen(test, it, name):
    rows = {row["login"]: row for row in it.postern.ask("accounts")}
    test.equal((rows[name]["used"], rows[name]["limit"], rows[name]["account"]),
               (18, 20, "staff"), "accounts lists the login with its tightest limit")
    test.equal(it.postern.ask("explain", "account", name)["verdict"], "accept", "explain account")
    test.equal([row["login"] for row in it.postern.ask("accounts", "--over")], ["bulk3", "class:strangers:127.0.0.8",
                                                                                   "few2@staff.example", "seen1"],
               "--over: those at a limit")
    found = [row["accepted"] for row in it.postern.ask("accounts", "--sort", "accepted")]
    test.equal(found, sorted(found, reverse=True), "--sort accepted")
    test.equal(it.postern.command("accounts", "--sort", "luck").returncode, 64, "--sort luck")
    notes = json.loads(it.postern.command("check", it.postern.file).stdout)
    test.check([note["line"] for note in notes if note["file"].endswith("overrides")] == [4],
               "check names the bad line of overrides")
    test.equal(it.postern.command("account", "nobody").returncode, 68, "a login without an entry")
    test.equal((it.postern.command("forget", "account", name).returncode, it.used(name)), (0, 0),
               "forget account")


def body(test):
    it = Site(test)
    session = login("x")
    if begin(session, "x@example.com")[0][0] != 250:
        raise Skipped("this Postfix has no SASL")
    session.quit()
    test.deaths_expected = True
    name = to_the_limit(test, it)
    per_message_and_free(test, it)
    bare_postmaster(test, it)
    pipelined(test, it)
    large(test, it)
    stolen(test, it)
    by_class(test, it)
    outside(test, it)
    replayed(test, it)
    killed(test, it, name)
    resumed(test, it)
    seen(test, it, name)


main(body)
