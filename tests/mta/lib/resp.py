# SPDX-License-Identifier: ISC
"""The protocol of Redis, as far as tests speak it: a client, and reading both directions."""
import socket

from lib.testing import Failed


class Refused(Exception):
    """An error that the server replied."""


def request(*words):
    """A command on the wire."""
    words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words)


def parse(data, at=0):
    """(value, end) of what begins there; None while it is not whole.  Errors are returned, as
    Refused."""
    end = data.find(b"\r\n", at)
    if end < 0:
        return None
    kind, text, at = data[at:at + 1], data[at + 1:end], end + 2
    if kind == b"+":
        return text.decode(), at
    if kind == b"-":
        return Refused(text.decode(errors="replace")), at
    if kind == b":":
        return int(text), at
    if kind == b"$":
        length = int(text)
        if length < 0:
            return None, at
        return (data[at:at + length], at + length + 2) if len(data) >= at + length + 2 else None
    if kind != b"*":
        raise Failed(f"no protocol of Redis: {data[:60]!r}")
    rows = []
    for _ in range(int(text)):
        one = parse(data, at)
        if one is None:
            return None
        rows.append(one[0])
        at = one[1]
    return rows, at


class Client:
    """A connection.  `to`: (host, port), or a path."""

    def __init__(self, to, user=None, password=None, limit=10.0):
        if isinstance(to, tuple):
            self.socket = socket.create_connection(to, limit)
        else:
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.settimeout(limit)
            self.socket.connect(str(to))
        self.rest = b""
        if user is not None:
            self.ask("AUTH", user, password)

    def ask(self, *words):
        self.socket.sendall(request(*words))
        return self.reply()

    def reply(self):
        while (found := parse(self.rest)) is None:
            data = self.socket.recv(65536)
            if not data:
                raise ConnectionError("closed by Redis")
            self.rest += data
        value, end = found
        self.rest = self.rest[end:]
        if isinstance(value, Refused):
            raise value
        return value

    def close(self):
        self.socket.close()
