#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""Milter clients that break the protocol at each step.  Nobody else is hindered,
no limit is passed by, and no session stays behind."""
import fcntl
import re
import select
import socket
import struct
import termios
import time

from lib.postern import Postern, one_class
from lib.postfix import connected
from lib.testing import main

LIMIT = 4
STALLED = 100
CONTINUE, REPLY_CODE = b"c", b"y"


def packet(command, data=b""):
    return struct.pack(">I", len(data) + 1) + command + data


def negotiation(version=6, actions=0x1ff, steps=0x1fffff):
    return packet(b"O", struct.pack(">III", version, actions, steps))


def macros(**values):
    return packet(b"D", b"C" + b"".join(f"{{{name}}}\0{value}\0".encode()
                                        for name, value in values.items()))


def connect(address, port, name="mail.example.org", family=b"4"):
    return packet(b"C", name.encode() + b"\0" + family + struct.pack(">H", port) +
                  address.encode() + b"\0")


class Client:
    """One milter connection, as an MTA makes it."""

    def __init__(self, place):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(10)
        self.socket.connect(str(place))

    def send(self, data):
        try:
            self.socket.sendall(data)
        except OSError:
            pass                    # it was closed on us, as it should be

    def is_taken(self):
        """Has the other side read all that was sent?"""
        return fcntl.ioctl(self.socket, termios.TIOCOUTQ, b"\0" * 4) == b"\0" * 4

    def take(self, count):
        data = b""
        while len(data) < count:
            try:
                piece = self.socket.recv(count - len(data))
            except ConnectionResetError:
                return None
            if not piece:
                return None
            data += piece
        return data

    def read(self):
        """One packet: (command, data), or None at the end."""
        head = self.take(4)
        body = head and self.take(struct.unpack(">I", head)[0])
        return body and (body[:1], body[1:])

    def negotiate(self):
        self.send(negotiation())
        return self.read()

    def open(self, address, port, **more):
        """Negotiates and connects; the answer's command and data."""
        self.negotiate()
        self.send(connect(address, port, **more))
        return self.read()

    def ends(self, seconds=5.0):
        """Does the other side close, whatever it says before?"""
        end = time.monotonic() + seconds
        while select.select([self.socket], [], [], max(0.0, end - time.monotonic()))[0]:
            try:
                if not self.socket.recv(65536):
                    return True
            except OSError:
                return True
        return False

    def close(self):
        self.socket.close()


class Judge:
    def __init__(self, test, postern, place):
        self.test, self.postern, self.place = test, postern, place
        self.port = 1024
        self.times = []

    def bad(self, step):
        """A client that has come to a step; those behind connect hold a session."""
        client = Client(self.place)
        self.port += 1
        if step == "the start":
            return client
        client.negotiate()
        if step in ("macros", "connect"):
            client.send(macros(client_resolve="OK", daemon_port="25"))
        if step == "connect":
            client.send(connect("10.0.0.1", self.port))
            client.read()
        return client

    def others_are_served(self):
        client = Client(self.place)
        self.port += 1
        start = time.monotonic()
        answer = client.open("10.9.9.9", self.port)
        self.times.append(time.monotonic() - start)
        client.send(packet(b"Q"))
        client.close()
        return answer == (CONTINUE, b"")

    def limit_holds(self, what):
        # what somebody said before he left may be read, and begin a session, still
        self.test.wait_for(lambda: connected(self.place) == 0, f"{what}: who left is gone")
        self.test.within(1.0, lambda: self.postern.open("ten") == 0, f"{what}: none before")
        clients = [Client(self.place) for _ in range(LIMIT + 2)]
        answers = [client.open(f"10.0.0.{n}", 600 + n) for n, client in enumerate(clients, 1)]
        self.test.check(answers[:LIMIT] == [(CONTINUE, b"")] * LIMIT and all(
            answer[0] == REPLY_CODE and re.fullmatch(
                rb"421 4\.7\.0 100%% full, %%s too \(id=[0-9a-z]{12}\)\0", answer[1])
            for answer in answers[LIMIT:]),
            f"{what}: exactly {LIMIT} of {LIMIT + 2} are let in")
        self.test.equal(self.postern.open("ten"), LIMIT, f"{what}: {LIMIT} counted")
        for client in clients:
            client.close()
        self.test.within(1.0, lambda: self.postern.open("ten") == 0, f"{what}: 0 afterwards")


STEPS = ("the start", "negotiation", "macros", "connect")
# libmilter closes whoever sends these.
BROKEN = {
    "a length of 4 GiB": b"\xff\xff\xff\xff" + b"C" * 100,
    "text": b"EHLO there\r\n",
    "an unknown command": packet(b"\x01", b"abc"),
}
# These it may take or not; the client goes away in the end.
ODD = {
    "a length of 0": b"\0\0\0\0",
    "a recipient out of order": packet(b"R", b"<a@b>\0"),
    "an end of body out of order": packet(b"E"),
    "a short negotiation": packet(b"O", b"\0\0"),
    "nothing": b"",
    "half a length": b"\0\0",
    "half a packet": struct.pack(">I", 60) + b"Cmail.example.org\0",
    "a second negotiation": negotiation(),
    "a negotiation of version 0": negotiation(version=0),
    "a negotiation that offers nothing": negotiation(actions=0, steps=0),
    "a connect without data": packet(b"C"),
    "a connect without an end": packet(b"C", b"mail.example.org"),
    "a connect without an address": packet(b"C", b"mail.example.org\x004\0\x19"),
    "a connect from nonsense": connect("nonsense", 25),
    "a connect of an unknown family": connect("10.0.0.1", 25, family=b"X"),
    "a connect of no family": packet(b"C", b"mail.example.org\0U"),
    "a connect from a socket": connect("/var/run/socket", 0, family=b"L"),
    "an IPv4 connect from an IPv6 address": connect("2001:db8::1", 25),
    "macros without values": packet(b"D", b"C{client_resolve}"),
    "macros without end": packet(b"D", b"C" + b"{a}\0b\0" * 5000),
    "an abort": packet(b"A"),
    "a quit and more": packet(b"Q") + packet(b"R", b"<a@b>\0"),
}


def misdeeds(test, postern, judge):
    for step in STEPS:
        for what, text in {**BROKEN, **ODD}.items():
            client = judge.bad(step)
            client.send(text)
            good = what not in BROKEN or client.ends()
            client.close()
            served = judge.others_are_served()
            test.check(good and served, f"after {step}, {what}: " +
                       ("the others are served" if good and served else
                        "it is not closed" if not good else "the others are not served"))
        test.within(1.0, lambda: postern.open("ten") == 0, f"after {step}: 0 open")


def random_bytes(test, judge):
    pieces = [*BROKEN.values(), *ODD.values(), negotiation(), connect("10.0.0.3", 4000),
              macros(client_resolve="FAIL")]
    served = 0
    for number in range(200):
        client = judge.bad(STEPS[number % len(STEPS)])
        text = b"".join(test.random.choice(pieces)
                        for _ in range(test.random.randrange(1, 5)))
        at = test.random.randrange(len(text) + 1)
        client.send(text[:at] + test.random.randbytes(test.random.randrange(3)) + text[at + 1:])
        client.close()
        served += number % 20 != 0 or judge.others_are_served()
    test.equal(served, 200, "200 random misdeeds: the others are served")


def stalled(test, postern, judge):
    """They hold half a packet each and do not go away.

    libmilter counts a thread that it has woken as idle until it runs: on a busy machine two
    connections that speak at once may get one thread, and who comes second waits until the
    first has said all.  So each half is read before the next one speaks; a first packet
    has no thread before it is whole."""
    clients = []
    for number in range(STALLED):
        step = STEPS[number % len(STEPS)]
        client = judge.bad(step)
        client.send(b"\0\0\0\x20C")
        if step != "the start":
            test.wait_for(client.is_taken, "half a packet is read")
        clients.append(client)
    served = all(judge.others_are_served() for _ in range(20))
    test.check(served, f"beside {STALLED} clients that stop in the middle others are served")
    for client in clients:
        client.close()
    test.within(2.0, lambda: postern.open("ten") == 0, "their sessions are over when they go")


def names(test, postern, judge):
    """Only a verified name makes somebody a member of a class by name."""
    for what, macro, name, wanted in (
            ("verified", {"client_resolve": "OK"}, "mail.named.example", 1),
            ("no word about it", {}, "mail.named.example", 1),
            ("forged", {"client_resolve": "FORGED"}, "mail.named.example", 0),
            ("not found", {"client_resolve": "FAIL"}, "mail.named.example", 0),
            ("not found now", {"client_resolve": "TEMP"}, "mail.named.example", 0),
            ("an address", {"client_resolve": "OK"}, "[10.9.9.9]", 0)):
        client = Client(judge.place)
        client.negotiate()
        client.send(macros(**macro) if macro else b"")
        judge.port += 1
        client.send(connect("10.9.9.9", judge.port, name=name))
        client.read()
        test.equal(postern.open("named"), wanted, f"a name that is {what}: "
                   f"{'counts' if wanted else 'does not count'}")
        client.close()
        test.within(1.0, lambda: postern.open("named") == 0, "0 afterwards")


def body(test):
    def edit(text):
        return (text.replace("version = 1;", 'version = 1;\nsession_proof = "lease";', 1)
                .replace("ports = [ 25 ]; match = [ \"*\" ]", "match = [ \"198.51.100.1\" ]"))
    postern = Postern(test, [one_class("ten", LIMIT, match='"10.0.0.0/24"',
                                       more='text = "100% full, %s too";'),
                             one_class("named", 1000, match='"*.named.example"'),
                             one_class("rest", 1000)], edit=edit)
    postern.start()
    roles = postern.roles()
    judge = Judge(test, postern, postern.spool / "private/postern-milter")
    wanted = Client(judge.place).negotiate()
    test.equal(wanted and wanted[0], b"O", "negotiation is answered")
    judge.limit_holds("before")
    names(test, postern, judge)
    misdeeds(test, postern, judge)
    random_bytes(test, judge)
    judge.limit_holds("between")
    stalled(test, postern, judge)
    judge.limit_holds("after")
    test.check("from=milter" in postern.log_text() and
               "before a usable CONNECT" in postern.log_text(), "it stands in the log")
    test.at_most(2.0, judge.times, "a good client never waits for the others")
    test.equal(postern.roles(), roles, "no role died of it")


main(body)
