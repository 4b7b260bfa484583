#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""Sendmail asks by socket map and by milter, and one of them is away, or both, or roles are
killed in between: limits hold by the one that is there, nothing stays counted, mail flows."""
import os
import signal

from lib.postern import Postern, one_class
from lib.scenario import fills
from lib.sendmail import Sendmail, find_root
from lib.smtp import LEAVE, Session, admitted, open_sessions
from lib.testing import main

LIMIT = 5
PORTS = {"both": 2025, "map": 2026, "milter": 2027}     # what is there
MAIL = ("b@example.com",)


def address(name):
    return "127.0.0.1", PORTS[name]


def text_of(test, name):
    """What the client reads who is one too many."""
    held = open_sessions(address(name), ["127.0.2.1"] * LIMIT)
    text = Session(address(name), "127.0.2.1").text
    for session in held:
        session.quit()
    return text


def takes_mail(test, name, text, count=LIMIT + 2):
    """Everybody is let in, and their mail is taken."""
    sessions = open_sessions(address(name), ["127.0.4.1"] * count)
    test.equal(len(admitted(sessions)), count, f"{name}: {text}: all {count} are let in")
    test.equal({session.send(MAIL)[0] for session in sessions}, {250},
               f"{name}: {text}: and their mail is taken")
    return sessions


def leave(sessions):
    for number, session in enumerate(sessions):
        LEAVE[number % len(LEAVE)](session)


def one_is_away(test, postern):
    fills(test, postern, address("map"), "map", LIMIT)
    test.check("Too many sessions" in text_of(test, "map"), "milter away: Postern's text is read")
    fills(test, postern, address("milter"), "milter", LIMIT)
    test.check("closing connection" in text_of(test, "milter"), "map away: Sendmail's text is read")
    for name in PORTS:
        test.within(1.0, lambda: postern.open(name) == 0, f"{name}: nobody is left")


def killed(test, postern, kinds):
    """All roles of these kinds, while sessions are open on each of them."""
    held = {name: open_sessions(address(name), ["127.0.3.1"] * (LIMIT - 1)) for name in PORTS}
    old = {role: pid for role, pid in postern.roles().items() if role.split(".")[0] in kinds}
    for pid in old.values():
        os.kill(pid, signal.SIGKILL)
    test.wait_for(lambda: all(postern.roles().get(role, pid) != pid for role, pid in old.items())
                  and postern.ready(), f"{kinds}: they are back")
    text = f"{' and '.join(kinds)} killed"
    for name in PORTS:
        test.equal(postern.open(name), LIMIT - 1, f"{name}: {text}: who was in is counted")
        more = open_sessions(address(name), ["127.0.3.1"] * 3)
        test.equal(len(admitted(more)), 1, f"{name}: {text}: one more is let in")
        leave(held[name] + admitted(more))
        test.within(1.0, lambda: postern.open(name) == 0, f"{name}: {text}: 0 after all have left")


def forks(test, postern):
    """A delivering Sendmail closes its maps, and goes on with its client."""
    sessions = open_sessions(address("map"), ["127.0.3.1"] * LIMIT)
    for session in sessions:
        session.send(MAIL)
    test.equal(postern.open("map"), LIMIT, "map: Sendmail has forked to deliver: all are counted")
    test.equal(Session(address("map"), "127.0.3.1").code, 421, "map: and the next one is refused")
    leave(sessions)
    test.within(1.0, lambda: postern.open("map") == 0, "map: 0 after all have left")


def body(test):
    test.deaths_expected = True
    postern = Postern(test, [one_class(name, LIMIT, [port]) for name, port in PORTS.items()])
    postern.start()
    there = {"milter": postern.root / "milter", "connect": postern.root / "map"}
    away = {"milter": postern.root / "no-milter", "connect": postern.root / "no-map"}
    sendmails = {name: Sendmail(test, port, name=name, **{
        "milter": (away if name == "map" else there)["milter"],
        "connect": (away if name == "milter" else there)["connect"]})
        for name, port in PORTS.items()}
    sendmails["map"].set_option("DeliveryMode", "background")
    for sendmail in sendmails.values():
        sendmail.start()
    one_is_away(test, postern)
    forks(test, postern)
    for kinds in (["policy"], ["milter"], ["milter", "policy"], ["keeper"]):
        killed(test, postern, kinds)
    postern.stop()
    inside = [session for name in PORTS for session in takes_mail(test, name, "Postern stopped")]
    postern.start_again()
    leave(inside)
    for name in PORTS:
        test.within(1.0, lambda: postern.open(name) == 0, f"{name}: started again, nobody is left")
        fills(test, postern, address(name), name, LIMIT)


main(body, before=find_root)
