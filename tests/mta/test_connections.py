#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""Crowds that connect and say nothing, or a byte now and then, at every listener at once:
whoever asks a real question is answered all the same, and no role grows beyond a bound."""
import os
import re
import resource
import socket
import struct
import subprocess
import sys
import time

from lib.postern import Postern, one_class
from lib.testing import Failed, Skipped, main

ASKED = 200             # questions of each measurement, each by a connection of its own
PATIENCE = 1.0          # the longest that an answer may take, s
# What a role may grow by, of its own memory: 4 kB a connection that it may hold, and the
# threads of libmilter (kB).
GROWTH = 96 * 1024
SYSTEM_FILES = 400000

CROWD = """
import os, resource, select, socket, sys, time
address, idle, slow = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
resource.setrlimit(resource.RLIMIT_NOFILE, (idle + slow + 64,) * 2)
text = bytes.fromhex(sys.argv[4])
def one():
    if address.startswith("/"):
        s = socket.socket(socket.AF_UNIX); s.connect(address)
    else:
        host, _, port = address.rpartition(":")
        s = socket.socket(); s.connect((host, int(port)))
    return s
crowd = [one() for _ in range(idle + slow)]
lazy = crowd[idle:]
for s in lazy: s.setblocking(False)
print("there", flush=True)
for turn in range(10**9):
    if select.select([sys.stdin], [], [], 0.2)[0]:
        break
    for s in lazy if turn < len(text) - 1 else ():      # never whole
        try: s.send(text[turn:turn + 1])
        except OSError: pass
gone = 0
poller = select.poll()
for s in crowd: poller.register(s, select.POLLRDHUP | select.POLLHUP)
gone = len(poller.poll(0))
print(len(crowd) - gone, flush=True)
"""


def packet(command, data=b""):
    return struct.pack(">I", len(data) + 1) + command + data


def frame(*lines):
    body = "".join(f"{line}\n" for line in lines).encode()
    return f"{len(body)}\n".encode() + body


NEGOTIATION = packet(b"O", struct.pack(">III", 6, 0x1ff, 0x1fffff))
CONNECT = packet(b"C", b"a.example\x004" + struct.pack(">H", 4711) + b"192.0.2.9\0")
POLICY = b"request=smtpd_access_policy\nprotocol_state=RCPT\n\n"
# What is said, step by step, and what the last bytes of each answer hold.
TALKS = {
    "policy": ((POLICY, b"action="),),
    "milter": ((NEGOTIATION, b"O"), (CONNECT, b"c")),
    "socketmap": ((b"14:postern domain,", b","),),
    "control": ((frame("protocol=1", "command=ping"), b"end=1"),),
    "queue": ((frame("protocol=1", "command=queue"), b"end=1"),),
    "events": ((b"sync\n", b"ok "),),
    "metrics": ((b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", b"HTTP/1.1 200"),),
}
ROLES = {"policy": "policy", "milter": "milter", "socketmap": "policy", "control": "keeper",
         "queue": "queue", "events": "feed", "metrics": "metrics"}


def ask(address, talk):
    """Seconds until a stranger to the crowd was answered; None: it was not."""
    begin = time.monotonic()
    try:
        if address.startswith("/"):
            one = socket.socket(socket.AF_UNIX)
        else:
            one = socket.socket()
        with one:
            one.settimeout(10)
            host, _, port = address.rpartition(":")
            one.connect(address if address.startswith("/") else (host, int(port)))
            for said, wanted in talk:
                one.sendall(said)
                data = b""
                while wanted not in data:
                    piece = one.recv(4096)
                    if not piece:
                        return None
                    data += piece
    except OSError:
        return None
    return time.monotonic() - begin


def percentile(times):
    return sorted(times)[max(0, len(times) * 99 // 100 - 1)]


class Listeners:
    """A Postern that has one of each kind."""

    def __init__(self, test, limits):
        self.test = test
        queue, log = test.directory / "queue", test.directory / "mail.log"
        queue.mkdir()
        log.touch()
        self.postern = Postern(test, [one_class("all", 100000)], edit=lambda text: re.sub(
            r"(?m)^listen = \{", f"""policy = {{ connections = {limits}; }};
mta = ( {{ name = "queue"; kind = "sendmail"; drive = true; queue = [ "{queue}" ];
          log = "{log}"; cf = "/dev/null"; sendmail = "/bin/true"; }} );
listen = {{
  queue = "unix:{self.place('queue')}"; events = "unix:{self.place('events')}";
  metrics = "inet:127.0.0.1:9471"; """, text, 1))
        self.postern.kinds = set(ROLES.values())
        self.postern.start()
        private = self.postern.spool / "private"
        self.addresses = {
            "policy": f"{private}/postern", "milter": self.place("milter"),
            "socketmap": self.place("map"), "control": self.place("control"),
            "queue": self.place("queue"), "events": self.place("events"),
            "metrics": "127.0.0.1:9471"}

    def place(self, name):
        return f"{self.test.directory}/postern/{name}"

    def measure(self, names):
        """kind -> its times; answers that did not come count as endless."""
        times = {name: [] for name in names}
        for _ in range(ASKED):
            for name in names:
                took = ask(self.addresses[name], TALKS[name])
                times[name].append(float("inf") if took is None else took)
        return times

    def memory(self):
        """role -> kB of its own, and threads."""
        found = {}
        for role, pid in self.postern.roles().items():
            with open(f"/proc/{pid}/status") as file:
                state = dict(line.split(":\t", 1) for line in file if ":\t" in line)
            found[role] = (int(state["RssAnon"].split()[0]), int(state["Threads"]))
        return found


def begin_crowd(test, address, idle, slow, text):
    crowd = subprocess.Popen([sys.executable, "-c", CROWD, address, str(idle), str(slow),
                              text.hex()], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             text=True)
    test.at_end(crowd.kill)
    return crowd


def crowds(test, listeners, names, idle, slow):
    begin = time.monotonic()
    found = {name: begin_crowd(test, listeners.addresses[name], idle, slow, TALKS[name][0][0])
             for name in names}
    for name, crowd in found.items():
        if crowd.stdout.readline() != "there\n":
            raise Failed(f"the crowd at {name} did not come together")
    test.say(f"{len(names)} x ({idle} idle, {slow} slow) connections after "
             f"{time.monotonic() - begin:.1f} s")
    return found


def end_crowds(test, found):
    stayed = {}
    for name, crowd in found.items():
        crowd.stdin.close()
        stayed[name] = int(crowd.stdout.readline() or -1)
        crowd.wait(30)
    test.say(f"connections that were still open: {stayed}")


def holding(roles):
    """role -> descriptors, of those that hold many."""
    counts = {role: len(os.listdir(f"/proc/{pid}/fd")) for role, pid in roles.items()}
    return {role: count for role, count in counts.items() if count > 200}


def judge(test, names, quiet, busy):
    for name in names:
        missed = busy[name].count(float("inf"))
        test.equal(missed, 0, f"{name}: all questions are answered")
        test.at_most(PATIENCE, [took for took in busy[name] if took != float("inf")],
                     f"{name}: p99 {1000 * percentile(busy[name]):.1f} ms beside the crowd, "
                     f"{1000 * percentile(quiet[name]):.1f} ms in the quiet")


def raise_files(wanted):
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, wanted))
        except ValueError:
            raise Skipped(f"a process may have {most} files open here, and {wanted} are needed") from None


def body(test):
    long = test.rounds > 0
    idle, slow = (10000, 1000) if long else (1000, 100)
    raise_files(idle + slow + 64)
    if long:
        with open("/proc/sys/fs/file-max") as most:
            if int(most.read()) < SYSTEM_FILES:
                raise Failed("fs.file-max is too low for the long form")
    # so that the short form meets the limit, too
    listeners = Listeners(test, 20000 if long else 500)
    names = list(TALKS)
    roles = listeners.postern.roles()
    quiet = listeners.measure(names)
    before = listeners.memory()
    found = crowds(test, listeners, names, idle, slow)
    busy = listeners.measure(names)
    after = listeners.memory()
    judge(test, names, quiet, busy)
    for role in sorted(after):
        grown = after[role][0] - before[role][0]
        test.check(grown <= GROWTH, f"{role}: {before[role][0]} kB of its own before, "
                   f"{after[role][0]} kB beside the crowds; {after[role][1]} threads")
    # those of the answered end with their connections
    test.within(5.0, lambda: max(threads for role, (_, threads) in listeners.memory().items()
                                 if role.startswith("milter")) <= 16,
                "nobody who has said nothing whole holds a thread of libmilter")
    end_crowds(test, found)
    test.equal(listeners.postern.roles(), roles, "every role lives on")
    test.within(5.0, lambda: not holding(roles), "all descriptors are given back")
    if holding(roles):
        test.say(f"still open: {holding(roles)}")
    judge(test, names, quiet, listeners.measure(names))


main(body, seconds=300)
