# SPDX-License-Identifier: ISC
"""SMTP servers that take mail as slowly as the test wants, and know which process
is at the other end of each connection."""
import os
import select
import socket
import threading
import time

from lib.limiter import is_leaving
from lib.testing import POLL_SECONDS


def hexadecimal(address, port):
    return f"{int.from_bytes(socket.inet_aton(address), 'little'):08X}:{port:04X}"


def owner(client, server):
    """The process that holds the client's half, or None.  Both halves are here."""
    ends = [hexadecimal(*client), hexadecimal(*server)]
    with open("/proc/net/tcp") as table:
        inodes = [fields[9] for fields in map(str.split, table) if fields[1:3] == ends]
    links = {f"socket:[{inode}]" for inode in inodes}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            for fd in os.listdir(f"/proc/{pid}/fd"):
                if os.readlink(f"/proc/{pid}/fd/{fd}") in links:
                    return int(pid)
        except OSError:
            pass
    return None


class Connection:
    def __init__(self, sink, sock, client, server):
        self.sink, self.sock, self.server = sink, sock, server
        self.client = client[0]
        self.pid = owner(client, server)
        self.data = b""
        self.messages = 0
        self.at_dot = False
        self.let_go = False             # one message more, though the sink is held

    def line(self):
        while b"\r\n" not in self.data:
            more = self.sock.recv(65536)
            if not more:
                raise ConnectionError
            self.data += more
        line, self.data = self.data.split(b"\r\n", 1)
        return line.decode(errors="replace")

    def say(self, text):
        self.sock.sendall(text.encode() + b"\r\n")

    def message(self, recipients):
        self.say("354 go on")
        while self.line() != ".":
            pass
        self.at_dot = True
        time.sleep(self.sink.delay)
        while self.sink.held and not self.let_go:
            if select.select([self.sock], [], [], POLL_SECONDS)[0]:
                raise ConnectionError   # it hung up, or was killed
        self.at_dot = self.let_go = False
        with self.sink.lock:
            self.sink.delivered += recipients
        self.messages += 1
        self.say("250 taken")

    def serve(self):
        recipients = []
        self.say("220 sink.example ESMTP")
        while True:
            words = self.line().split(None, 1)
            verb = words[0].upper() if words else ""
            if verb == "EHLO":
                self.say("250 sink.example")
            elif verb == "DATA":
                self.message(recipients)
                recipients = []
            elif verb == "QUIT":
                self.say("221 bye")
                return
            else:
                reply = "250 ok"
                if verb == "RCPT":
                    address = words[1][3:].strip("<>")
                    reply = self.sink.reply(self.client, address) or reply
                    recipients += [address] if reply[0] == "2" else []
                self.say(reply)


class Sink:
    """Listens on each address.  While `held` is set no message is taken: its
    sender waits at the dot."""

    def __init__(self, test, addresses, port):
        self.held = False
        self.lock = threading.Lock()
        self.open, self.all, self.delivered = [], [], []
        self.most_processes = 0         # that were connected at one time
        self.limits = {}                # address -> connections; 421 above
        self.refused = 0
        self.delay = 0                  # seconds that a message takes
        self.listeners = {}             # address -> socket
        self.deaf, self.heard = set(), 0 # addresses that hang up at once; how often they did
        self.replies = {}               # domain -> what its recipients get, 250 without
        self.most = {}                  # address -> connections at one time
        for address in addresses:
            self.listen(test, address, port)

    def listen(self, test, address, port):
        listener = socket.create_server((address, port), backlog=128)
        self.listeners[address] = listener
        test.at_end(listener.close)
        threading.Thread(target=self.accept, args=(listener, (address, port)),
                         daemon=True).start()

    def reply(self, client, address):
        """What a recipient of this client gets; None: it is taken."""
        return self.replies.get(address.rpartition("@")[2])

    def refuse(self, address):
        """Nobody listens there any more."""
        listener = self.listeners.pop(address)
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()

    def accept(self, listener, server):
        while True:
            try:
                sock, client = listener.accept()
            except OSError:
                return
            if server[0] in self.deaf:
                self.heard += 1
                sock.close()
                continue
            threading.Thread(target=self.serve, args=(sock, client, server),
                             daemon=True).start()

    def serve(self, sock, client, server):
        connection = Connection(self, sock, client, server)
        with self.lock:
            there = sum(other.server[0] == server[0] for other in self.staying())
            if there >= self.limits.get(server[0], 1000):
                self.refused += 1
                sock.sendall(b"421 4.7.0 too many connections\r\n")
                sock.close()
                return
            self.open.append(connection)
            self.all.append(connection)
            self.most[server[0]] = max(self.most.get(server[0], 0), there + 1)
            self.note_processes()
        try:
            connection.serve()
        except OSError:
            pass
        with self.lock:
            self.open.remove(connection)
        sock.close()

    def staying(self):
        """Those whose client has neither hung up nor said QUIT, though we have not read it
        yet.  With the lock."""
        return [connection for connection in self.open if not is_leaving(connection.sock)]

    def note_processes(self):
        self.most_processes = max(self.most_processes,
                                  len({connection.pid for connection in self.staying()}))

    def pids(self):
        """Of the processes that are connected."""
        return {connection.pid for connection in self.open}

    def waiting(self):
        """Of those whose message is held."""
        return {connection.pid for connection in list(self.open) if connection.at_dot}
