#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""Policy clients that do everything wrong: malformed, oversized, slow, half-closed
and pipelined requests, clients that never read, too many of them.  Each: an error
in the log, counted, nobody else hindered, no limit passed by."""
import select
import socket
import time

from lib.postern import Postern, one_class
from lib.postfix import connected
from lib.testing import Failed, main

LIMIT = 5
CAP = 60                # policy.connections, of each of 2 processes
PATIENCE = 10.0         # seconds that an unfinished request or an unread reply has
HEAD = b"request=smtpd_access_policy\n"
DUNNO = b"action=DUNNO\n\n"
MALFORMED = {
    "an empty request": b"\n",
    "no request=": b"protocol_state=CONNECT\nclient_address=10.0.0.1\n\n",
    "another request=": b"request=junk\n\n",
    "a line without =": HEAD + b"protocol_state\n\n",
    "a line without a name": HEAD + b"=CONNECT\n\n",
    "CR LF": HEAD.replace(b"\n", b"\r\n") + b"\r\n",
    "a NUL": HEAD + b"sender=a\0b\n\n",
    "HTTP": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "SMTP": b"EHLO there\r\n",
    "a line of 9,000 bytes": HEAD + b"sender=" + b"a" * 9000 + b"\n\n",
    "a line without end": b"a=" + b"b" * 20000,
    "a request of 70,000 bytes": HEAD + b"a=bcdefg\n" * 8000 + b"\n",
    "TLS": bytes.fromhex("16030100a5010000a10303") + b"\n" * 4,
}


def question(client, port, state="CONNECT", more=""):
    return HEAD + (f"protocol_state={state}\nclient_address={client}\nclient_port={port}\n"
                   f"client_name=unknown\nserver_address=192.0.2.1\nserver_port=25\n"
                   f"{more}\n").encode()


class Client:
    """One policy connection."""

    def __init__(self, place):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(10)
        self.socket.connect(str(place))

    def send(self, data):
        """False: the other side has closed."""
        try:
            self.socket.sendall(data)
            return True
        except OSError:
            return False

    def read(self):
        """All until the end of a reply, or of the connection."""
        data = b""
        while not data.endswith(b"\n\n"):
            try:
                piece = self.socket.recv(65536)
            except ConnectionResetError:
                break
            if not piece:
                break
            data += piece
        return data

    def ask(self, *words):
        self.send(question(*words))
        return self.read()

    def is_closed(self, seconds=0.0):
        """Has the other side ended it?  What it says before is skipped."""
        end = time.monotonic() + seconds
        while select.select([self.socket], [], [], max(0.0, end - time.monotonic()))[0]:
            try:
                if not self.socket.recv(1 << 20):
                    return True
            except OSError:
                return True
        return False

    def close(self):
        self.socket.close()


def refuses(reply):
    return reply.startswith(b"action=421 4.7.0 ") and len(reply) > 20


def counted(postern, name):
    """One of the daemon's counters."""
    status = postern.status()
    for place in (status, status.get("counters", {})):
        if name in place:
            return place[name]
    raise Failed(f"status does not tell {name}")


class Judge:
    """A good client that is there all the time, and what must hold after each
    misdeed of the others."""

    def __init__(self, test, postern, place):
        self.test, self.postern, self.place = test, postern, place
        self.good = Client(place)
        self.good.ask("10.9.9.9", 999)
        self.times = []

    def others_are_served(self):
        for client in (self.good, Client(self.place)):
            start = time.monotonic()
            served = client.ask("10.9.9.9", 999, "DATA") == DUNNO
            self.times.append(time.monotonic() - start)
            if not served:
                return False
            if client is not self.good:
                client.close()
        return True

    def limit_holds(self, what):
        """Exactly LIMIT of a net of its own, and none when they have gone."""
        self.test.wait_for(lambda: self.postern.open("ten") == 0, f"{what}: who left is gone")
        clients = [Client(self.place) for _ in range(LIMIT + 3)]
        replies = [client.ask(f"10.0.0.{n}", 5000 + n) for n, client in enumerate(clients, 1)]
        self.test.check([reply == DUNNO for reply in replies] == [True] * LIMIT + [False] * 3 and
                        all(refuses(reply) for reply in replies[LIMIT:]),
                        f"{what}: exactly {LIMIT} of {LIMIT + 3} are let in")
        for client in clients:
            client.close()
        self.test.within(1.0, lambda: self.postern.open("ten") == 0, f"{what}: 0 afterwards")


def malformed(test, postern, place, judge):
    for what, text in MALFORMED.items():
        before = counted(postern, "bad_policy_requests")
        client = Client(place)
        test.equal(client.ask("10.0.0.1", 4000), DUNNO, f"{what}: let in before")
        client.send(text)
        test.check(client.read() == b"", f"{what}: no answer, the connection ends")
        test.within(1.0, lambda: postern.open("ten") == 0, f"{what}: its session is over")
        test.equal(counted(postern, "bad_policy_requests"), before + 1, f"{what}: counted")
        test.check(judge.others_are_served(), f"{what}: the others are served")
        client.close()


def random_bytes(test, postern, place, judge):
    before = counted(postern, "bad_policy_requests")
    alphabet = b"request=smtpd_access_policy\nprotocol_state=CONNECT\nclient_port=1\0\n\n\n=\r\xff"
    for _ in range(200):
        client = Client(place)
        client.send(bytes(test.random.choice(alphabet)
                          for _ in range(test.random.randrange(1, 300))))
        client.close()
    test.within(2.0, lambda: counted(postern, "bad_policy_requests") > before + 100,
                "200 connections of random bytes: counted")
    # the last of them may be read still, and those that count bad requests want no more
    test.wait_for(lambda: connected(place) == 1, "all but the good client are gone")
    test.check(judge.others_are_served(), "200 connections of random bytes: others are served")


def bad_values(test, postern, place):
    before = counted(postern, "bad_policy_requests")
    client = Client(place)
    for address, port in (("nonsense", 1), ("10.0.0.256", 1), ("10.0.0.1", 65536), ("::g", "x")):
        test.equal(client.ask(address, port), DUNNO, f"client {address} port {port}: DUNNO")
    test.equal(counted(postern, "bad_policy_requests"), before + 4, "and counted")
    client.close()


def half_closed_and_pipelined(test, postern, place, judge):
    client = Client(place)
    client.send(question("10.0.0.1", 4100) + question("10.0.0.1", 4100, "RCPT"))
    client.socket.shutdown(socket.SHUT_WR)
    data = b""
    while piece := client.socket.recv(4096):
        data += piece
    test.equal(data, DUNNO * 2, "a half-closed client gets its two answers, then the end")
    test.within(1.0, lambda: postern.open("ten") == 0, "and its session is over")

    client = Client(place)
    client.send(b"".join(question(f"10.0.0.{n % 200 + 1}", 4200 + n) for n in range(500)))
    data = b""
    while data.count(b"\n\n") < 500 and (piece := client.socket.recv(65536)):
        data += piece
    # one connection holds one session: each CONNECT is the end of the one before
    test.equal(data, DUNNO * 500, "500 pipelined sessions one after the other are let in")
    test.equal(postern.open("ten"), 1, "one connection holds one session")
    client.close()
    test.check(judge.others_are_served(), "the others are served")

    client = Client(place)
    for byte in question("10.0.0.1", 4300):
        client.send(bytes([byte]))
    test.equal(client.read(), DUNNO, "a request byte by byte is answered")
    client.close()


def stuffed(place):
    """A client that asks and never reads, until nothing more is taken."""
    client = Client(place)
    client.ask("10.0.0.1", 4400)
    client.socket.setblocking(False)
    text = question("10.0.0.1", 4400, "DATA")
    full = 0
    while full < 2:                     # once: the machine stood still, perhaps
        full = 0 if select.select([], [client.socket], [], 0.5)[1] else full + 1
        try:
            client.socket.send(text)
        except BlockingIOError:
            pass
    return client


def slow(test, postern, place, judge):
    before = counted(postern, "stalled_policy_clients")
    start = time.monotonic()
    unread = stuffed(place)
    drips = Client(place)
    drips.ask("10.0.0.2", 4500)
    unfinished = Client(place)
    unfinished.send(HEAD)
    idle = Client(place)
    while time.monotonic() - start < PATIENCE - 2:
        drips.send(b"a=b\n")
        if drips.is_closed(0.25) or not judge.others_are_served() or postern.open("ten") != 2:
            break
    test.check(time.monotonic() - start >= PATIENCE - 2, "for 8 s nobody is closed, the others "
               "are served, and their sessions are counted")
    test.within(PATIENCE, lambda: counted(postern, "stalled_policy_clients") == before + 3,
                "one that never reads and two that never finish are closed")
    waited = time.monotonic() - start
    test.check(PATIENCE - 1 < waited < PATIENCE + 6, f"that was after {waited:.1f} s")
    test.check(all(one.is_closed(5) for one in (drips, unfinished, unread)), "they see it")
    test.equal(idle.ask("10.9.9.8", 1, "DATA"), DUNNO, "an idle client is not closed")
    test.within(1.0, lambda: postern.open("ten") == 0, "their sessions are over")


def too_many(test, postern, place, judge):
    many = [Client(place) for _ in range(2 * CAP + 30)]
    served = sum(client.send(question("10.9.9.7", 1, "DATA")) and client.read() == DUNNO
                 for client in many)
    # the good client has one of the places
    test.check(CAP - 1 <= served < 2 * CAP, f"of {len(many)} connections {served} are served")
    test.equal(judge.good.ask("10.9.9.9", 999, "DATA"), DUNNO, "who was there before is served")

    def told():
        """Two such lines a second, those about the slow ones among them."""
        one_more = Client(place)
        one_more.is_closed(0.1)
        return f"limit={CAP} action=" in postern.log_text()
    test.within(3.0, told, "it stands in the log")
    for client in many:
        client.close()
    test.within(5.0, judge.others_are_served, "all are served when they have gone")


def body(test):
    def edit(text):
        return (text.replace("version = 1;", 'version = 1;\nsession_proof = "lease";\n'
                             f"policy = {{ connections = {CAP}; }};", 1)
                .replace('"*.google.com"', '"none.example"')
                .replace("ports = [ 25 ]; match = [ \"*\" ]", "match = [ \"198.51.100.1\" ]"))
    postern = Postern(test, [one_class("ten", LIMIT, match='"10.0.0.0/24"'),
                             one_class("rest", 1000)], edit=edit)
    postern.start()
    place = postern.spool / "private/postern"
    roles = postern.roles()
    judge = Judge(test, postern, place)
    judge.limit_holds("before")
    malformed(test, postern, place, judge)
    random_bytes(test, postern, place, judge)
    bad_values(test, postern, place)
    half_closed_and_pipelined(test, postern, place, judge)
    judge.limit_holds("between")
    slow(test, postern, place, judge)
    too_many(test, postern, place, judge)
    judge.limit_holds("after")
    log = postern.log_text()
    test.check('event=bad-request' in log and 'text="line without name=value"' in log and
               "offset=" in log, "malformed requests stand in the log with place and reason")
    test.at_most(1.0, judge.times, "a good client never waits for the others")
    test.equal(postern.roles(), roles, "no role died of it")


main(body)
