# SPDX-License-Identifier: ISC
"""SMTP clients that hold sessions open and leave in every way there is."""
import ipaddress
import json
import signal
import socket
import struct
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

from lib.testing import Failed


class Session:
    """A client connection, from its greeting on.  code 0: none came."""

    def __init__(self, to, source=None, preamble=b"", limit=30.0):
        family = socket.AF_INET6 if ":" in to[0] else socket.AF_INET
        self.socket = socket.socket(family, socket.SOCK_STREAM)
        self.socket.settimeout(limit)
        self.rest = b""
        self.code, self.text = 0, ""
        try:
            if source is not None:
                self.socket.bind((source, 0))
            self.socket.connect(to)
            self.name = self.socket.getsockname()[:2]
            if preamble:
                self.socket.sendall(preamble)
            self.code, self.text = self.reply()
        except OSError as why:
            self.text = str(why)

    def line(self):
        while b"\n" not in self.rest:
            data = self.socket.recv(4096)
            if not data:
                raise ConnectionError("closed by the server")
            self.rest += data
        line, self.rest = self.rest.split(b"\n", 1)
        return line.rstrip(b"\r").decode(errors="replace")

    def reply(self):
        lines = []
        while True:
            line = self.line()
            lines.append(line[4:])
            if line[3:4] != "-":
                return int(line[:3]), "\n".join(lines)

    def command(self, line):
        """The reply as (code, text); code 0: the connection is gone."""
        try:
            self.socket.sendall(line.encode() + b"\r\n")
            return self.reply()
        except OSError as why:
            return 0, str(why)

    def send(self, recipients=("b@example.com",), sender="a@example.org"):
        """One message; returns the reply after the dot, or the refusal."""
        code, text = self.data(recipients, sender)
        return (code, text) if code != 354 else self.command("Subject: test\r\n\r\ntest\r\n.")

    def data(self, recipients, sender="a@example.org"):
        """All that comes before a message; returns the reply to DATA, or the refusal."""
        for line in ("EHLO client.example.org", f"MAIL FROM:<{sender}>",
                     *(f"RCPT TO:<{recipient}>" for recipient in recipients), "DATA"):
            code, text = self.command(line)
            if code not in (250, 354):
                break
        return code, text

    def long_message(self, recipient):
        """In the middle of one; "." ends it.  Was it taken?"""
        if self.data([recipient])[0] != 354:
            return False
        self.socket.sendall(b"Subject: long\r\n\r\n" + b"x" * 70 + b"\r\n")
        return True

    def ended(self):
        """Has the server closed the connection?  Waits for it."""
        try:
            while self.socket.recv(4096):
                pass
            return True
        except ConnectionError:
            return True
        except OSError:
            return False

    def close(self):
        self.socket.close()

    # Ways to leave

    def quit(self):
        self.command("QUIT")
        self.close()

    def drop(self):
        self.close()

    def reset(self):
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close()

    def half_close(self):
        """Says that it will send no more; reads until the server ends it."""
        self.socket.shutdown(socket.SHUT_WR)
        self.ended()
        self.close()

    def reset_in_data(self):
        self.data(["b@example.com"])
        self.reset()


LEAVE = (Session.quit, Session.drop, Session.reset, Session.half_close, Session.reset_in_data)


def open_sessions(to, sources, **more):
    """One session for each source address, all at once."""
    sources = list(sources)
    if not sources:
        return []
    with ThreadPoolExecutor(max_workers=min(64, len(sources))) as pool:
        return list(pool.map(lambda source: Session(to, source, **more), sources))


def admitted(sessions):
    return [session for session in sessions if session.code == 220]


class Herd:
    """A client process that holds sessions, to be killed."""

    def __init__(self, test, to, sources):
        self.process = subprocess.Popen(
            [sys.executable, "-B", "-m", "lib.smtp", to[0], str(to[1]), *sources],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=sys.path[0])
        test.at_end(self.kill)
        told = self.process.stdout.readline()
        if not told:
            raise Failed("a client process did not start")
        self.codes = json.loads(told)
        self.count = self.codes.count(220)

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


def xclient(session, address, port=None, name=None):
    """The reply to XCLIENT: a new greeting, or a refusal."""
    text = address if "." in address else f"IPV6:{address}"
    words = [f"ADDR={text}"]
    if port is not None:
        words.append(f"PORT={port}")
    if name is not None:
        words.append(f"NAME={name}")
    return session.command("XCLIENT " + " ".join(words))


def proxy_v1(client, client_port, server, server_port):
    family = "TCP6" if ":" in client else "TCP4"
    return f"PROXY {family} {client} {server} {client_port} {server_port}\r\n".encode()


def proxy_v2(client, client_port, server, server_port):
    a, b = ipaddress.ip_address(client), ipaddress.ip_address(server)
    body = a.packed + b.packed + struct.pack("!HH", client_port, server_port)
    return (b"\r\n\r\n\0\r\nQUIT\n" + bytes([0x21, 0x11 if a.version == 4 else 0x21])
            + struct.pack("!H", len(body)) + body)


def hold(host, port, sources):
    sessions = open_sessions((host, int(port)), sources)
    print(json.dumps([session.code for session in sessions]), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    hold(sys.argv[1], sys.argv[2], sys.argv[3:])
