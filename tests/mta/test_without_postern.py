#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""The lines of conf/ while Postern is away, and while it hangs: mail goes on; and
changed as their comments say, it does not."""
import socket
import time

from lib.postfix import Postfix, conf_service
from lib.sendmail import Sendmail, find_root, have_root
from lib.smtp import Session
from lib.stalls import Stalls
from lib.testing import SOURCE, main

OPEN = {"policy": 2025, "milter": 2026, "both": 2027}
CLOSED = {"policy": 2028, "milter": 2029}
SENDMAIL, SENDMAIL_CLOSED = 2030, 2031
# What the comments of conf/ say about failing closed.
CLOSING = {"policy": ("default_action=DUNNO", "{ default_action = 421 4.7.0 Service unavailable }"),
           "milter": ("default_action=accept", "default_action=tempfail")}


def visit(port):
    """The greeting, the reply to a mail, and how long it took."""
    start = time.monotonic()
    session = Session(("127.0.0.1", port), "127.0.0.2")
    mail = session.send()[0] if session.code == 220 else 0
    session.close()
    return session.code, mail, time.monotonic() - start


def goes_on(test, port, what, limit):
    stalls = Stalls(test)
    code, mail, seconds = visit(port)
    if seconds >= limit and (lost := stalls.since(0)) > 0:
        test.say(f"{what}: {seconds:.1f} s, the machine stood still for {lost:.1f} s; once more")
        code, mail, seconds = visit(port)
    test.equal((code, mail), (220, 250), f"{what}: let in, and the mail is taken")
    test.check(seconds < limit, f"{what}: in {seconds:.1f} s")


def closed(name):
    old, new = CLOSING[name]
    text = (SOURCE / f"conf/postfix-{name}.master.cf").read_text()
    service = conf_service(f"postfix-{name}.master.cf", CLOSED[name])
    assert old in service and new.strip("{ }").split("=")[1].strip() in text
    return service.replace(old, new)


def hang(path):
    """Connections are taken by the kernel, and nobody answers."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    path.chmod(0o666)
    listener.listen(100)
    return listener


def body(test):
    services = [conf_service(f"postfix-{way}.master.cf", port) for way, port in OPEN.items()]
    postfix = Postfix(test, services + [closed(name) for name in CLOSED])
    postfix.start(*OPEN.values(), *CLOSED.values())
    # A policy check asks again after a second.
    for way, port in OPEN.items():
        goes_on(test, port, f"{way}: Postern is away", 0.9 if way == "milter" else 1.9)
    test.equal(visit(CLOSED["policy"])[0], 421, "policy, closed: 421")
    test.equal(visit(CLOSED["milter"])[:2], (220, 451), "milter, closed: 451 at MAIL")
    if have_root():
        sendmail = Sendmail(test, SENDMAIL, test.directory / "postern-milter")
        sendmail.start()
        goes_on(test, SENDMAIL, "Sendmail: Postern is away", 0.9)
        Sendmail(test, SENDMAIL_CLOSED, test.directory / "postern-milter", "sendmail-closed",
                 ("milter, T=", "milter, F=4, T=")).start()
        test.equal(visit(SENDMAIL_CLOSED)[0], 421, "Sendmail, closed: 421")
    sockets = [hang(postfix.private / "postern"), hang(postfix.private / "postern-milter"),
               hang(test.directory / "postern-milter")]
    # Two questions at CONNECT, a second apart, and one for the recipient; one to the
    # milter.
    for way, port, limit in (("policy", OPEN["policy"], 4.9), ("milter", OPEN["milter"], 3.9),
                             ("both", OPEN["both"], 7.9)):
        goes_on(test, port, f"{way}: Postern hangs", limit)
    if have_root():
        goes_on(test, SENDMAIL, "Sendmail: Postern hangs", 3.9)
    for one in sockets:
        one.close()


main(body, before=lambda: find_root(required=False))
