# SPDX-License-Identifier: ISC
"""SMTP servers that take so many sessions at once and refuse those above with 421, or
all connections; they count what comes."""
import socket
import threading
import time


def is_leaving(sock):
    try:
        return sock.recv(4, socket.MSG_PEEK | socket.MSG_DONTWAIT).upper() in (b"", b"QUIT")
    except BlockingIOError:
        return False
    except OSError:
        return True


class Limiter:
    """Listens on each address.  `limit`: sessions at once, None: any number; a message
    takes `seconds`."""

    def __init__(self, test, addresses, port, limit=None, seconds=0.2):
        self.test, self.addresses, self.port = test, addresses, port
        self.limit, self.seconds = limit, seconds
        self.lock = threading.Lock()
        self.sockets = set()            # of sessions that were let in
        self.most = 0                   # of them at once, since clear()
        self.connections = 0            # ever
        self.refused = 0
        self.delivered = []             # (recipient, time)
        self.listeners = []
        self.up()
        test.at_end(self.down)

    def up(self):
        for address in self.addresses:
            listener = socket.create_server((address, self.port), backlog=256)
            self.listeners.append(listener)
            threading.Thread(target=self.accept, args=(listener,), daemon=True).start()

    def down(self):
        """Connections are refused."""
        listeners, self.listeners = self.listeners, []
        for listener in listeners:
            listener.shutdown(socket.SHUT_RDWR)
            listener.close()

    def clear(self):
        with self.lock:
            self.most, self.refused, self.connections = self.count_open(), 0, 0

    def count_open(self):
        """Those whose client has neither hung up nor said QUIT, though we have not read
        it yet.  With the lock."""
        return sum(not is_leaving(sock) for sock in self.sockets)

    @property
    def open(self):
        with self.lock:
            return self.count_open()

    def accept(self, listener):
        while True:
            try:
                sock, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(sock,), daemon=True).start()

    def enter(self, sock):
        with self.lock:
            self.connections += 1
            there = self.count_open()
            if self.limit is not None and there >= self.limit:
                self.refused += 1
                return False
            self.sockets.add(sock)
            self.most = max(self.most, there + 1)
            return True

    def serve(self, sock):
        with sock:
            if not self.enter(sock):
                try:
                    sock.sendall(b"421 4.7.0 sink.example too many connections\r\n")
                    sock.shutdown(socket.SHUT_WR)
                    sock.recv(1000)
                except OSError:
                    pass
                return
            try:
                self.talk(sock)
            except OSError:
                pass
            finally:
                with self.lock:
                    self.sockets.discard(sock)

    def take(self):
        time.sleep(self.seconds)        # LINT-SLEEP: how long a message takes

    def is_unwelcome(self, sock):
        """May a session that was let in send no more messages?"""
        return False

    def is_unknown(self, recipient):
        return False

    def talk(self, sock):
        lines = sock.makefile("rb")
        recipients = []
        sock.sendall(b"220 sink.example ESMTP\r\n")
        while line := lines.readline():
            verb = line[:4].upper()
            if verb == b"DATA":
                sock.sendall(b"354 go on\r\n")
                while lines.readline() not in (b".\r\n", b""):
                    pass
                self.take()
                with self.lock:
                    self.delivered += [(name, time.monotonic()) for name in recipients]
                recipients = []
                sock.sendall(b"250 2.0.0 taken\r\n")
            elif verb == b"QUIT":
                sock.sendall(b"221 2.0.0 bye\r\n")
                return
            elif verb == b"EHLO":
                sock.sendall(b"250 sink.example\r\n")
            elif verb == b"MAIL" and self.is_unwelcome(sock):
                sock.sendall(b"421 4.7.0 sink.example too many connections\r\n")
                return
            else:
                if verb == b"RCPT":
                    recipients.append(line.split(b"<")[1].split(b">")[0].decode())
                    if self.is_unknown(recipients[-1]):
                        recipients.pop()
                        sock.sendall(b"550 5.1.1 no such user\r\n")
                        continue
                sock.sendall(b"250 2.0.0 ok\r\n")

    def count(self, domain):
        with self.lock:
            return sum(1 for name, _ in self.delivered if name.endswith("@" + domain))
