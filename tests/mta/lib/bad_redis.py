# SPDX-License-Identifier: ISC
"""Servers that a cluster role takes for its Redis: they speak something else, or nothing, or
too much; or a real Redis is behind them, and what it replies is changed on the way."""
import itertools
import os
import random
import socket
import threading
import time

from lib.resp import parse, request


def flood(sock, head, piece, most=64 << 20):
    """`head`, then `piece` again and again, until the other side has enough of it."""
    sock.recv(65536)
    sock.sendall(head)
    block = piece * (1 + 65536 // len(piece))
    for _ in range(most // len(block)):
        sock.sendall(block)


def always(reply):
    """To each thing that it hears."""
    def answer(sock):
        while sock.recv(65536):
            sock.sendall(reply)
    return answer


def greeting(sock):
    sock.sendall(b"220 mail.example.com ESMTP Postfix\r\n")
    while sock.recv(65536):
        sock.sendall(b"500 5.5.2 Error: command not recognized\r\n")


def silent(sock):
    while sock.recv(65536):
        pass


def repeats(sock):
    """Its error is what it was told, password and all."""
    while data := sock.recv(65536):
        words = [word.decode("ascii", "replace") for word in data.split(b"\r\n")[2::2]]
        sock.sendall(f"-ERR unknown command, with args beginning with: {words}\r\n".encode())


def hang_up(sock):
    sock.recv(1)


def unasked(sock):
    """Replies before any question, and then twice as many as there were questions."""
    sock.sendall(b"+OK\r\n" * 50)
    always(b"+OK\r\n+OK\r\n")(sock)


def drip(sock):
    """A reply that is never whole, a byte at a time."""
    sock.recv(65536)
    for byte in itertools.cycle(b"+OK"):
        sock.sendall(bytes([byte]))
        time.sleep(0.02)


# name -> what it does with a connection
STRANGERS = {
    "a mail server": greeting,
    "a web server": always(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"),
    "silence": silent,
    "an error that repeats what it was told": repeats,
    "hangs up": hang_up,
    "chance": always(random.Random(20260101).randbytes(400)),
    "unasked replies": unasked,
    "a reply that never ends, slowly": drip,
    "a line without an end": lambda sock: flood(sock, b"+", b"a"),
    "a string of 500 MB": lambda sock: flood(sock, b"$524288000\r\n", b"a"),
    "a string of 2^62": lambda sock: flood(sock, b"$4611686018427387904\r\n", b"a"),
    "2^31 strings": lambda sock: flood(sock, b"*2147483647\r\n", b"$1\r\na\r\n"),
    "10^9 numbers": lambda sock: flood(sock, b"*1000000000\r\n", b":1\r\n"),
    "lists in lists": lambda sock: flood(sock, b"", b"*1\r\n"),
    "endless replies": lambda sock: flood(sock, b"", b"+OK\r\n"),
    "a length below 0": always(b"$-5\r\n*-7\r\n"),
    "no length": always(b"$\r\n*\r\n"),
    "a number too large": always(b":99999999999999999999999\r\n"),
    "another version of the protocol": always(b"%1\r\n+server\r\n+redis\r\n"),
    "only nothing": always(b"$-1\r\n"),
    "only numbers": always(b":1\r\n"),
    "only empty lists": always(b"*0\r\n"),
}


class BadRedis:
    """At `to`: (host, port), or a path.  `does`: one of STRANGERS; `relay`: (host, port), or a
    path, of a real one that is asked; edit(words, reply) gives what is replied (bytes, or None:
    nothing, and hang up)."""

    def __init__(self, test, to, does=silent, relay=None):
        self.to, self.does, self.relay = to, does, relay
        self.edit = lambda words, reply: reply
        self.lock = threading.Lock()
        self.sockets = set()
        self.connections = 0            # ever
        self.asked = []                 # commands that went through a relay
        if isinstance(to, tuple):
            self.listener = socket.create_server(to, backlog=64)
        else:
            self.listener = socket.socket(socket.AF_UNIX)
            self.listener.bind(str(to))
            os.chmod(to, 0o666)
            self.listener.listen(64)
        threading.Thread(target=self.accept, daemon=True).start()
        test.at_end(self.close)

    def close(self):
        self.listener.close()
        self.drop()

    def become(self, does=None, relay=None, edit=None):
        """Another one: whoever is connected is thrown out."""
        with self.lock:
            self.does, self.relay = does or silent, relay
            self.edit = edit or (lambda words, reply: reply)
            self.asked = []
        self.drop()

    def drop(self):
        with self.lock:
            sockets = list(self.sockets)
        for sock in sockets:
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def accept(self):
        while True:
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            with self.lock:
                self.connections += 1
                self.sockets.add(sock)
            threading.Thread(target=self.serve, args=(sock,), daemon=True).start()

    def serve(self, sock):
        try:
            if self.relay is None:
                self.does(sock)
            else:
                self.between(sock)
        except OSError:
            pass
        with self.lock:
            self.sockets.discard(sock)
        sock.close()

    def between(self, sock):
        """One command after the other; what a subscription is told comes without a question."""
        server = socket.create_connection(self.relay) if isinstance(self.relay, tuple) \
            else socket.socket(socket.AF_UNIX)
        if not isinstance(self.relay, tuple):
            server.connect(str(self.relay))
        with self.lock:
            self.sockets.add(server)
        waiting = []                    # commands without a reply yet
        changed = threading.Condition()

        def answers():
            rest = b""
            try:
                while data := server.recv(65536):
                    rest += data
                    while (found := parse(rest)) is not None:
                        reply, rest = rest[:found[1]], rest[found[1]:]
                        with changed:
                            words = waiting.pop(0) if waiting else None
                        reply = self.edit(words, reply) if words else reply
                        if reply is None:
                            return
                        sock.sendall(reply)
            except OSError:
                pass
            finally:
                for one in (sock, server):
                    try:
                        one.shutdown(socket.SHUT_RDWR)
                    except OSError:
                        pass
        threading.Thread(target=answers, daemon=True).start()
        rest = b""
        try:
            while data := sock.recv(65536):
                rest += data
                while (found := parse(rest)) is not None:
                    words, rest = found[0], rest[found[1]:]
                    with changed:
                        waiting.append(words)
                    self.asked.append(words)
                    server.sendall(request(*words))
        finally:
            with self.lock:
                self.sockets.discard(server)
            server.close()


def instead(command, reply):
    """An edit: to each `command` (in capitals) this is replied."""
    def edit(words, real):
        return reply if words[0].upper() == command else real
    return edit
