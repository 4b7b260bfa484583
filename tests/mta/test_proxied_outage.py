#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""Clients that the kernel does not show (HAProxy's protocol, XCLIENT) and an outage of
Postern while they are in: neither counted twice, nor counted when they have left."""
import os
import signal

from lib.postern import one_class
from lib.postfix import conf_service
from lib.site import site
from lib.smtp import Session, proxy_v1, proxy_v2, xclient
from lib.testing import main

XCLIENT = "smtpd_authorized_xclient_hosts=127.0.0.0/8"
MILTER_LINES = ("smtpd_milters", "milter_connect_macros")
POLICY_LINES = ("smtpd_client_restrictions", "smtpd_recipient_restrictions")
SOON = 2.0          # seconds within which a counter is right
# Way in: its port, and the second byte of its clients' addresses.
WAYS = {"proxy policy": (2031, 1), "proxy milter": (2032, 2), "proxy both": (2033, 3),
        "xclient policy": (2034, 4), "xclient milter": (2035, 5), "xclient both": (2036, 6)}
OUTSIDE = 2525      # the port that the proxy says its clients came to
STAY, LEAVE = 3, 2
# Nobody says of these whose connection the kernel shows.
UNANNOUNCED = ("proxy policy", "proxy milter", "proxy both", "xclient milter")


def services():
    for way, (port, _) in WAYS.items():
        kind, asks = way.split()
        if kind == "xclient":
            yield conf_service(f"postfix-{asks}.master.cf", port, extra=[XCLIENT])
        else:
            yield conf_service("postfix-haproxy.master.cf", port, leave_out={
                "policy": MILTER_LINES, "milter": POLICY_LINES, "both": ()}[asks])


def name_of(way):
    return way.replace(" ", "-")


def classes():
    """The proxy has one of its own."""
    ports = [port for port, _ in WAYS.values()] + [OUTSIDE]
    for way, (_, net) in WAYS.items():
        yield one_class(name_of(way), 100, ports, match=f'"10.{net}.0.0/16"')
    yield one_class("carriers", 100, ports, match='"127.0.0.0/8"')


class Crowd:
    """Clients of all ways."""

    def __init__(self, test, postern):
        self.test, self.postern = test, postern
        self.inside = {way: [] for way in WAYS}
        self.port = 20000

    def come(self, count):
        for way, (port, net) in WAYS.items():
            for _ in range(count):
                self.port += 1
                address = f"10.{net}.0.{self.port % 250 + 1}"
                if way.startswith("xclient"):
                    session = Session(("127.0.0.1", port))
                    session.code = xclient(session, address, self.port)[0]
                else:
                    header = (proxy_v1, proxy_v2)[self.port % 2]
                    session = Session(("127.0.0.1", port), preamble=header(
                        address, self.port, "192.0.2.1", OUTSIDE))
                if session.code != 220:
                    self.test.check(False, f"{way}: {session.code} {session.text}")
                self.inside[way].append(session)

    def leave(self, count):
        for sessions in self.inside.values():
            for _ in range(count):
                sessions.pop(0).quit()

    def counts(self):
        """What the classes of the ways hold, and in the end the proxy's."""
        rows = self.postern.classes()
        return [rows[name_of(way)]["open"] for way in WAYS] + [rows["carriers"]["open"]]

    def right(self):
        return [len(sessions) for sessions in self.inside.values()] + [0]

    def are_right(self, text):
        if self.test.within(SOON, lambda: self.counts() == self.right(), text) is None:
            self.test.say(f"counted {self.counts()}, inside {self.right()}")
            for row in self.postern.sessions():
                self.test.say(str(row))

    def stay_right(self, seconds, text):
        self.test.throughout(seconds, lambda: self.counts() == self.right(), text)


def lost_roles(postern):
    """All roles that sessions were told to, at once."""
    for role, pid in postern.roles().items():
        if role.split(".")[0] in ("policy", "milter"):
            os.kill(pid, signal.SIGKILL)


def killed(postern):
    postern.kill()
    postern.start()


def another_size(postern):
    """The state file is made anew, from the text of its sessions."""
    postern.stop()
    postern.file.write_text(postern.file.read_text().replace('sessions = "64k"',
                                                             'sessions = "32k"'))
    postern.start()


OUTAGES = (("posternd killed", killed), ("policy and milter roles killed", lost_roles),
           ("restarted with another state file", another_size))


def body(test):
    test.deaths_expected = True
    _, postern = site(test, services(), classes(), [port for port, _ in WAYS.values()])
    crowd = Crowd(test, postern)
    for text, strike in OUTAGES:
        crowd.come(STAY + LEAVE)
        crowd.are_right(f"{text}: all are counted before it")
        learned = test.poll(lambda: all(
            f"carrier 127.0.0.1 {port}\n" in (postern.shared / "state.sessions").read_text()
            for way, (port, _) in WAYS.items() if way in UNANNOUNCED), 6.0)
        test.check(learned is not None, f"{text}: the proxy's connections are known")
        pids = postern.roles()
        strike(postern)
        test.wait_for(lambda: all(pid not in (None, pids[role]) for role, pid in
                                  postern.roles().items()
                                  if role.split(".")[0] in ("policy", "milter")),
                      "the roles are back")
        crowd.are_right(f"{text}: nobody is counted twice")
        crowd.stay_right(1.5, f"{text}: and all stay counted")
        crowd.leave(LEAVE)
        crowd.are_right(f"{text}: those that left are not counted")
        crowd.leave(STAY)
        crowd.are_right(f"{text}: 0 when all have left")


main(body, seconds=60)
