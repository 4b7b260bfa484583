#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""Clients that no smtpd process serves yet: silent ones that postscreen holds, and
such as wait in the accept backlog.  None is a session: the class stays at 0 and a good
client gets in.  So it is right after the roles were killed, too."""
import os
import signal
import socket

from lib.postern import Postern, one_class
from lib.postfix import Postfix, conf_service
from lib.smtp import Session
from lib.testing import main

SCREENED, BARE, BUSY = 2025, 2026, 2027
CROWD = 500
LIMIT = 4
GOOD = "127.0.5.1"

# As postscreen(8) wants it: it takes the port, and hands good clients to smtpd.
SCREEN = f"""{SCREENED} inet n - n - 1 postscreen
  -o postscreen_greet_wait=60s
  -o postscreen_greet_action=enforce
  -o postscreen_access_list=cidr:/run/t/good
  -o postscreen_client_connection_count_limit=1000
  -o postscreen_pre_queue_limit=1000
  -o postscreen_post_queue_limit=1000
  -o postscreen_cache_map=
dnsblog unix - - n - 0 dnsblog
tlsproxy unix - - n - 0 tlsproxy
"""


def screened_smtpd():
    """The service lines of conf/ for the smtpd behind postscreen."""
    text = conf_service("postfix-both.master.cf", SCREENED)
    words, options = text.split("\n", 1)
    return "\t".join(["smtpd", "pass", "-", *words.split()[3:]]) + "\n" + options


def silent(port, count):
    """Clients that connect and say nothing."""
    clients = []
    for number in range(count):
        one = socket.socket()
        one.bind((f"127.0.{6 + number // 250}.{1 + number % 250}", 0))
        one.connect(("127.0.0.1", port))
        clients.append(one)
    return clients


def established(port, held):
    """Server ends on the port: those that a process holds, or that none does."""
    count = 0
    with open("/proc/net/tcp") as table:
        for line in list(table)[1:]:
            fields = line.split()
            if (fields[3] == "01" and int(fields[1].rsplit(":", 1)[1], 16) == port
                    and (fields[9] != "0") == held):
                count += 1
    return count


def zero(postern):
    return lambda: postern.open("limited") == 0


def good_client(test, postern, port, what):
    session = Session(("127.0.0.1", port), GOOD)
    test.equal(session.code, 220, f"{what}: a good client gets in")
    test.within(1.0, lambda: postern.open("limited") == 1, f"{what}: and it alone is counted")
    return session


def kill_roles(test, postern, kinds):
    before = postern.roles()
    for name, pid in before.items():
        if name.split(".")[0] in kinds:
            os.kill(pid, signal.SIGKILL)
    test.wait_for(lambda: postern.ready() and all(
        postern.roles().get(name) != pid for name, pid in before.items()
        if name.split(".")[0] in kinds), "the roles are back")


def after_a_gap(test, postern, what):
    """Who waited before a gap waits after it."""
    kill_roles(test, postern, {"policy", "milter"})
    test.throughout(2.0, lambda: postern.open("limited") <= 1, f"{what}: nor after a gap")


def by_postscreen(test, postern):
    waiting = silent(SCREENED, CROWD)
    test.wait_for(lambda: established(SCREENED, True) == CROWD,
                  f"postscreen holds {CROWD} clients")
    test.throughout(1.5, zero(postern), f"postscreen: {CROWD} silent clients, the class stays at 0")
    session = good_client(test, postern, SCREENED, "postscreen")
    after_a_gap(test, postern, "postscreen")
    test.equal(postern.open("limited"), 1, "postscreen: the good client still is")
    session.quit()
    for one in waiting:
        one.close()
    test.within(1.0, zero(postern), "postscreen: 0 after the good client has left")


def come_in_a_gap(test, postern):
    """What DESIGN section 6 leaves open: who comes to postscreen while the roles are
    away cannot be told from a session; it is forgotten with its connection."""
    roles = [pid for name, pid in postern.roles().items()
             if name.split(".")[0] in ("policy", "milter")]
    for pid in roles:
        os.kill(pid, signal.SIGSTOP)
    waiting = silent(SCREENED, 20)
    test.wait_for(lambda: all(pid not in postern.roles().values() for pid in roles)
                  and postern.ready(), "hung roles are replaced")
    test.wait_for(lambda: postern.open("limited") == 20, "20 that came in a gap are counted")
    test.say("20 clients that came to postscreen in a gap are counted as if they were sessions")
    for one in waiting:
        one.close()
    test.within(1.0, zero(postern), "postscreen: 0 after they have left")


def by_backlog(test, postern):
    """smtpd at its process limit of one."""
    first = Session(("127.0.0.1", BUSY), "127.0.5.2")
    test.equal(first.code, 220, "backlog: the one smtpd process serves a client")
    waiting = silent(BUSY, CROWD)
    # the kernel makes the server's end when it has the last packet of the three
    test.wait_for(lambda: established(BUSY, False) == CROWD, f"{CROWD} wait to be accepted")
    test.throughout(1.5, lambda: postern.open("limited") == 1, "backlog: none of them is counted")
    session = good_client_beside(test, postern)
    kill_roles(test, postern, {"policy", "milter"})
    test.throughout(2.0, lambda: postern.open("limited") == 2, "backlog: nor after a gap")
    session.quit()
    for one in waiting:
        one.close()
    first.quit()
    test.within(5.0, zero(postern), "backlog: 0 after all have left")


def good_client_beside(test, postern):
    session = Session(("127.0.0.1", BARE), GOOD)
    test.equal(session.code, 220, "backlog: a good client of another service gets in")
    test.within(1.0, lambda: postern.open("limited") == 2, "backlog: and is counted")
    return session


def body(test):
    test.deaths_expected = True
    (test.directory / "good").write_text(f"{GOOD}/32 permit\n")
    bare = conf_service("postfix-policy.master.cf", BARE)
    busy = conf_service("postfix-policy.master.cf", BUSY).replace(
        "-       -       smtpd", "-       1       smtpd", 1)
    postfix = Postfix(test, [SCREEN, screened_smtpd(),
                             bare, busy], main="default_process_limit = 1200\n")
    postern = Postern(test, [one_class("limited", LIMIT, [SCREENED, BARE, BUSY])],
                      spool=postfix.spool)
    postern.start()
    postfix.start(SCREENED, BARE, BUSY)
    by_postscreen(test, postern)
    by_backlog(test, postern)
    come_in_a_gap(test, postern)


main(body)
