#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""The witness without a mail server: TCP connections of our own, announced by
policy requests on connections that never end.  Only the kernel tells of ends."""
import os
import signal
import socket
import statistics
import struct
import subprocess
import time

from lib.postern import Postern, one_class
from lib.testing import main

PORT, OTHER_PORT = 2525, 2526
LIMIT = 300


class Asker:
    """A policy connection, as one smtpd process has it."""

    def __init__(self, postern):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(10)
        self.path = str(postern.spool / "private/postern")
        self.socket.connect(self.path)

    def connect(self, client, server):
        self.socket.sendall((
            "request=smtpd_access_policy\nprotocol_state=CONNECT\n"
            f"client_address={client[0]}\nclient_port={client[1]}\nclient_name=unknown\n"
            f"server_address={server[0]}\nserver_port={server[1]}\n\n").encode())
        answer = b""
        while not answer.endswith(b"\n\n"):
            piece = self.socket.recv(4096)
            if not piece:
                raise EOFError
            answer += piece
        return answer.decode().strip()


class Server:
    def __init__(self, postern, address=("127.0.0.1", PORT), family=socket.AF_INET):
        self.postern, self.address, self.family = postern, address, family
        self.socket = socket.socket(family)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(address)
        self.socket.listen(4096)
        self.idle = []

    def accept(self):
        """Both ends of a new connection."""
        client = socket.create_connection(self.address)
        return client, self.socket.accept()[0]

    def session(self, asker=None):
        client, server = self.accept()
        asker = asker or (self.idle.pop() if self.idle else Asker(self.postern))
        return client, server, asker, asker.connect(client.getsockname(),
                                                    server.getsockname())

    def sessions(self, count):
        return [self.session() for _ in range(count)]

    def take_back(self, sessions):
        """Their policy connections serve others."""
        self.idle += [one[2] for one in sessions]


def client_closes(client, server):
    client.close()
    server.close()


def server_closes(client, server):
    server.close()
    client.close()


def client_resets(client, server):
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()
    server.close()


def client_stays(client, server):
    server.shutdown(socket.SHUT_WR)
    server.close()


def zero(postern):
    return lambda: postern.open("limited") == 0


def ends(test, postern, server):
    for how in (client_closes, server_closes, client_resets, client_stays):
        delays = []
        for _ in range(5):
            client, end, asker, _ = server.session()
            start = time.monotonic()
            how(client, end)
            test.wait_for(zero(postern), f"{how.__name__}: the slot is free")
            delays.append(time.monotonic() - start)
            client.close()
            server.idle.append(asker)
        test.at_most(1.0, delays, f"{how.__name__}: free after "
                     f"{statistics.median(delays) * 1000:.0f} ms (median)")


def all_at_once(test, postern, server):
    sessions = server.sessions(LIMIT + 5)
    refused = [one for one in sessions if "421" in one[3]]
    test.equal(len(refused), 5, f"{LIMIT} are admitted, 5 refused")
    test.equal(postern.open("limited"), LIMIT, "and counted")
    test.wait_for(lambda: {one["proof"] for one in postern.sessions()} == {"witness"},
                  "the kernel's table has shown all")
    start = time.monotonic()
    for client, end, *_ in sessions:
        client_closes(client, end)
    test.within(1.0, zero(postern), f"all {LIMIT} end at once: 0")
    test.say(f"counted from the first of them: {(time.monotonic() - start) * 1000:.0f} ms")
    test.within(2.0, lambda: postern.ask("sessions", "--all") == [],
                "refused ones are forgotten, too")
    server.take_back(sessions)


def unannounced(test, postern, server):
    """Connections that a process holds, but nobody asks about (postscreen), and
    such as wait to be accepted.  A gap must not make sessions of them."""
    waiting = [server.accept() for _ in range(30)]
    busy = Server(postern, ("127.0.0.1", OTHER_PORT))
    backlog = [socket.create_connection(busy.address) for _ in range(30)]
    test.throughout(2.0, zero(postern), "clients that are only waited for are not counted")
    client, end, _, answer = server.session()
    test.check("421" not in answer, "a good client is admitted")
    for pid in [pid for name, pid in postern.roles().items() if name.startswith("policy")]:
        os.kill(pid, signal.SIGKILL)
    test.wait_for(lambda: can_ask(postern), "the policy roles are back")
    test.throughout(2.0, lambda: postern.open("limited") == 1, "nor after a gap")
    client_closes(client, end)
    for one, other in waiting:
        client_closes(one, other)
    for one in backlog:
        one.close()
    test.within(1.0, zero(postern), "0 after all have left")
    server.idle = []


def can_ask(postern):
    try:
        Asker(postern).connect(("127.0.9.9", 1), ("127.0.0.1", PORT + 11))
        return True
    except (OSError, EOFError):
        return False


def outage(test, postern, server):
    """Both policy processes hang: who comes then is counted when they are back,
    and so are those that were counted before."""
    counted = server.sessions(3)
    before = postern.classes()["limited"]["adopted"]
    for pid in [pid for name, pid in postern.roles().items() if name.startswith("policy")]:
        os.kill(pid, signal.SIGSTOP)
    # as far as the supervisor can know, the gap begins with their last heartbeat
    came = [server.accept() for _ in range(7)]
    test.within(6.0, lambda: postern.open("limited") == 10,
                "7 that came while the policy roles hung are counted beside 3 others")
    test.equal(postern.classes()["limited"]["adopted"] - before, 7, "and shown as adopted")
    asker = Asker(postern)
    client, end = came.pop()
    test.check("421" not in asker.connect(client.getsockname(), end.getsockname()),
               "a question for one of them is answered")
    test.equal(postern.open("limited"), 10, "and counts it once")
    client_closes(client, end)
    for one, other in came:
        client_closes(one, other)
    for one in counted:
        client_closes(one[0], one[1])
    test.within(1.0, zero(postern), "0 after all have left")
    server.idle = []


def keeper_away(test, postern, server):
    for number, name in ((signal.SIGKILL, "killed"), (signal.SIGSTOP, "stopped")):
        sessions = server.sessions(20)
        test.wait_for(lambda: {one["proof"] for one in postern.sessions()} == {"witness"},
                      "the kernel's table has shown all")
        os.kill(postern.roles()["keeper.0"], number)
        for client, end, *_ in sessions[:15]:
            client_closes(client, end)
        test.within(5.0, lambda: postern.open("limited") == 5,
                    f"15 of 20 ended while the keeper was {name}")
        for client, end, *_ in sessions[15:]:
            client_closes(client, end)
        test.within(1.0, zero(postern), "and the others")
        server.take_back(sessions)


def mapped(test, postern):
    server = Server(postern, ("::", PORT + 10), socket.AF_INET6)
    server.address = ("127.0.0.1", PORT + 10)
    client, end = server.accept()
    asker = Asker(postern)
    asker.connect(client.getsockname(), ("127.0.0.1", PORT + 10))
    test.wait_for(lambda: [one["proof"] for one in postern.sessions()] == ["witness"],
                  "an IPv4 client of an IPv6 socket is seen")
    client_closes(client, end)
    test.within(1.0, zero(postern), "and its end")


def elsewhere(test, postern, server):
    """Tuples that the kernel does not show (a proxy tells them): held by the
    policy connection alone."""
    askers = [Asker(postern) for _ in range(3)]
    for number, asker in enumerate(askers):
        asker.connect(("192.0.2.1", 1000 + number), ("192.0.2.25", OTHER_PORT))
    test.throughout(2.0, lambda: postern.open("limited") == 3,
                    "sessions of a proxy are held by their policy connections")
    askers[0].connect(("192.0.2.1", 2000), ("192.0.2.25", OTHER_PORT))
    test.within(1.0, lambda: postern.open("limited") == 3, "the next CONNECT ends the one before")
    for asker in askers:
        asker.socket.close()
    test.within(1.0, zero(postern), "and their ends end them")


def namespace(test, postern):
    """A server in another network namespace, which witness.netns names."""
    script = ("import socket, sys, time\n"
              "s = socket.socket(); s.bind(('127.0.0.1', %d)); s.listen()\n"
              "c = socket.create_connection(s.getsockname()); a = s.accept()[0]\n"
              "print(c.getsockname()[1], flush=True)\n"
              "sys.stdin.readline(); c.close(); a.close()\n"
              "print('closed', flush=True); sys.stdin.readline()\n" % OTHER_PORT)
    inside = subprocess.Popen(["ip", "netns", "exec", "mail", "python3", "-c", script],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    test.at_end(inside.kill)
    port = int(inside.stdout.readline())
    asker = Asker(postern)
    asker.connect(("127.0.0.1", port), ("127.0.0.1", OTHER_PORT))
    test.wait_for(lambda: [one["proof"] for one in postern.sessions()] == ["witness"],
                  "a session in another namespace is seen")
    inside.stdin.write("\n")
    inside.stdin.flush()
    inside.stdout.readline()
    test.within(1.0, zero(postern), "and its end, while its policy connection stays")


def body(test):
    test.deaths_expected = True
    test.run([test.need("ip"), "netns", "add", "mail"])
    test.run(["ip", "-n", "mail", "link", "set", "lo", "up"])
    postern = Postern(test, [one_class("limited", LIMIT, [PORT, PORT + 10, OTHER_PORT])],
                      edit=lambda text: text + '\nwitness = { netns = [ "mail" ]; };\n')
    postern.start()
    server = Server(postern)
    ends(test, postern, server)
    all_at_once(test, postern, server)
    elsewhere(test, postern, server)
    mapped(test, postern)
    namespace(test, postern)
    keeper_away(test, postern, server)
    unannounced(test, postern, server)
    outage(test, postern, server)
    counters = postern.status()["counters"]
    test.equal(counters["witness_errors"], 0, "the kernel's table could always be read")


main(body)
