# SPDX-License-Identifier: ISC
"""Delivery agents of a real queue manager that say when each delivery ends.

SteeredSocket speaks the agents' protocol on a socket of its own in spool/private, so
that nothing but the queue manager decides; SteeredPipe is Postfix's pipe(8), whose
command asks.  Both give Starts in the order in which the queue manager began them.
Recipients are named M.N@DESTINATION.CASE.example: the N-th of message M."""
import os
import queue
import re
import socket
import threading
import time

from lib.testing import Failed

HELLO = b"protocol\0delivery_request_protocol\0\0"
SENT = (b"status\0002.0.0\0diag_type\0\0diag_text\0\0mta_type\0\0mta_mname\0\0action\0"
        b"delivered\0reason\0\0status\0000\0\0")
ADDRESS = re.compile(r"(\d+)\.(\d+)@(\w+)\.\w+\.example$")

SELECTED = re.compile(r"qmgr_peer_select: (\w+) (\w+) (\S+) ")

# What pipe(8) runs: tells the test, and ends when the test says so.
COMMAND = """#!/bin/bash
exec 3<>/dev/tcp/127.0.0.1/{port} || exit 75
printf '%s\\n' "$*" >&3
read -r code <&3
exit "${{code:-75}}"
"""


class Start:
    """A delivery that was begun.  finish() ends it, and waits until the queue manager knows."""

    def __init__(self, recipients, finish):
        found = [ADDRESS.match(recipient) for recipient in recipients]
        self.message = int(found[0].group(1))
        self.destination = found[0].group(3)
        self.recipients = [int(match.group(2)) for match in found]
        self.finish = finish

    def key(self):
        return self.message, self.destination, len(self.recipients)


class Agent:
    ordered = True      # starts come in the order in which the queue manager chose

    def __init__(self):
        self.starts = queue.Queue()

    def selected(self, _):
        """What it chose by its own log: (message, destination) each; None: nothing else is
        known than by the starts.  `names`: message by queue id."""

    def next(self, limit=5.0):
        """The next that was begun, or None when there is none so soon."""
        try:
            return self.starts.get(timeout=limit)
        except queue.Empty:
            return None


class SteeredSocket(Agent):
    """`processes` agents; none is ready before open(), or but for one delivery, allow().  Only
    one at a time says that it is, so that the order of what they get is known."""

    def __init__(self, postfix, name, processes):
        super().__init__()
        self.ready = threading.Semaphore(0)
        self.one = threading.Lock()
        self.path = postfix.private / name
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(self.path))
        os.chmod(self.path, 0o666)
        self.listener.listen(100)
        for _ in range(processes):
            threading.Thread(target=self.work, daemon=True).start()

    def open(self):
        self.ready.release(10000)     # more than any case has

    def allow(self):
        self.ready.release()

    def hold(self):
        """As before open(), once nothing waits any more."""
        while self.ready.acquire(blocking=False):
            pass

    def work(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            with connection:
                self.serve(connection)

    def serve(self, connection):
        self.ready.acquire()
        ended, known = threading.Event(), threading.Event()
        stream = connection.makefile("rb")

        def finish():
            ended.set()
            if not known.wait(10):
                raise Failed("the queue manager does not take a result")
        try:
            with self.one:
                connection.sendall(HELLO)
                attributes = read_attributes(stream)
                if not attributes:
                    return      # there is nothing to do after all
                recipients = [read_attributes(stream)["recipient"]
                              for _ in range(int(attributes["recipient_count"]))]
                self.starts.put(Start(recipients, finish))
            ended.wait()
            connection.sendall(SENT)
            stream.read(1)
        except OSError:
            pass
        known.set()


def read_attributes(stream):
    """NAME, NUL, VALUE, NUL, and so on; an empty name ends them."""
    attributes = {}
    while name := read_text(stream):
        attributes[name] = read_text(stream)
    return attributes


def read_text(stream):
    text = bytearray()
    while (byte := stream.read(1)) not in (b"\0", b""):
        text += byte
    return text.decode()


class SteeredPipe(Agent):
    """pipe(8) in master.cf: service() is its line, with a process limit.  hold() has all its
    processes busy with a message that plug() sends.  It takes a queue manager that logs all
    (-v): only that tells that it knows of an end, and in which order it chose."""

    ordered = False

    def __init__(self, test):
        super().__init__()
        self.plug, self.processes, self.plugs = None, 0, []
        self.path, self.log, self.name = None, None, None
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.command = test.directory / f"steered-{self.listener.getsockname()[1]}"
        self.command.write_text(COMMAND.format(port=self.listener.getsockname()[1]))
        self.command.chmod(0o755)
        threading.Thread(target=self.accept, daemon=True).start()

    def watch(self, path, name):
        self.path, self.name = path, name
        self.log = open(path, errors="replace")
        self.log.seek(0, os.SEEK_END)

    def selected(self, names):
        found = SELECTED.findall(self.path.read_text(errors="replace"))
        return [(names[identity], destination.split(".")[0])
                for identity, name, destination in found
                if name == self.name and identity in names]

    def wait_known(self):
        """The next result that the queue manager reads."""
        end = time.monotonic() + 10
        while time.monotonic() < end:
            for line in self.log:
                if f"private/{self.name} socket: wanted attribute: reason" in line:
                    return
            time.sleep(0.002)
        raise Failed("the queue manager does not take a result")

    def service(self, name, processes):
        return (f"{name} unix - n n - {processes} pipe flags= user=nobody "
                f"argv={self.command} ${{recipient}}\n")

    def hold(self):
        self.plug()
        self.plugs = [self.next(20) for _ in range(self.processes)]
        if None in self.plugs:
            raise Failed("pipe(8) does not start")

    def open(self):
        for start in self.plugs:
            start.finish()
        self.plugs = []

    def accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        ended = threading.Event()

        def finish():
            ended.set()
            self.wait_known()
        with connection, connection.makefile("rb") as stream:
            self.starts.put(Start(stream.readline().decode().split(), finish))
            ended.wait()
            try:
                connection.sendall(b"0\n")
            except OSError:
                pass


class Submitter:
    """Messages over one SMTP session; each is in the active queue when send() is done."""

    def __init__(self, test, postfix, port):
        self.test, self.postfix = test, postfix
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.file = self.socket.makefile("rwb")
        self.log = None
        self.answer()
        self.say("EHLO test.example")

    def answer(self):
        while (line := self.file.readline())[3:4] == b"-":
            pass
        if line[:1] not in b"23":
            raise Failed(f"smtpd says {line!r}")
        return line.decode()

    def say(self, text, count=1):
        self.file.write(text.encode() + b"\r\n")
        self.file.flush()
        return [self.answer() for _ in range(count)][-1]

    def send(self, recipients):
        """Recipients as addresses."""
        lines = "\r\n".join(["MAIL FROM:<s@example.com>"] +
                            [f"RCPT TO:<{one}>" for one in recipients])
        self.say(lines, 1 + len(recipients))
        self.say("DATA")
        answer = self.say("Subject: test\r\n\r\nx\r\n.")
        identity = answer.split("queued as ")[1].split()[0]
        self.wait_active(identity)
        return identity

    def wait_active(self, identity):
        if self.log is None:
            self.log = open(self.postfix.log, errors="replace")
        end = time.monotonic() + 10
        while time.monotonic() < end:
            for line in self.log:
                if f"{identity}:" in line and "(queue active)" in line:
                    return
            time.sleep(0.002)
        raise Failed(f"{identity} is not in the active queue")
