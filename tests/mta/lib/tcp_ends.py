# SPDX-License-Identifier: ISC
"""The kernel's own account of TCP connections, read without Postern's code: a trace
of their ends (the destroy group of sock_diag), and the table as ss shows it."""
import ipaddress
import os
import socket
import struct
import subprocess
import sys
import threading
import time

from lib.testing import Failed, end_process

SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, NETLINK_SOCK_DIAG = 270, 1, 4
SKNLGRP_INET_TCP_DESTROY, SKNLGRP_INET6_TCP_DESTROY = 1, 3
MESSAGE = struct.Struct("BBBB HH 16s 16s I II IIIII".replace(" ", ""))
# ESTABLISHED, FIN_WAIT1, FIN_WAIT2, CLOSE_WAIT, LAST_ACK, CLOSING
ALIVE = {"01", "04", "05", "08", "09", "0B"}


def live_sessions(ports):
    """(client address, client port, server port) of each IPv4 connection that a
    process of the server holds: accepted, and not given up."""
    found = set()
    with open("/proc/net/tcp") as table:
        for line in list(table)[1:]:
            fields = line.split()
            port = int(fields[1].rsplit(":", 1)[1], 16)
            if port in ports and fields[3] in ALIVE and fields[9] != "0":
                address, client_port = fields[2].split(":")
                found.add((socket.inet_ntoa(bytes.fromhex(address)[::-1]),
                           int(client_port, 16), port))
    return found


def live_by_ss(ports):
    """The same by ss, which asks sock_diag: whose inode is not 0."""
    done = subprocess.run(["ss", "-tneOH", "state", "connected", "exclude", "time-wait",
                           "exclude", "syn-recv", "exclude", "syn-sent"],
                          text=True, capture_output=True, timeout=20)
    if done.returncode != 0:
        raise Failed(f"ss: {done.stderr.strip()}")
    found = set()
    for line in done.stdout.splitlines():
        fields = line.split()
        port = int(fields[3].rsplit(":", 1)[1])
        inode = [word for word in fields if word.startswith("ino:")]
        if port in ports and inode and inode[0] != "ino:0":
            address, client_port = fields[4].rsplit(":", 1)
            found.add((address.strip("[]").removeprefix("::ffff:"), int(client_port), port))
    return found


def open_trace():
    """Bound first, joined then: the other order hears nothing."""
    trace = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_SOCK_DIAG)
    trace.setsockopt(socket.SOL_SOCKET, getattr(socket, "SO_RCVBUFFORCE", 33), 8 << 20)
    trace.bind((0, 0))
    for group in (SKNLGRP_INET_TCP_DESTROY, SKNLGRP_INET6_TCP_DESTROY):
        trace.setsockopt(SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, group)
    return trace


def folded(raw, family):
    if family == socket.AF_INET:
        return socket.inet_ntoa(raw[:4])
    address = ipaddress.IPv6Address(raw)
    return str(address.ipv4_mapped or address)


def ends(data, ports):
    """(client, client port, server port) of each end in a datagram; client port 0:
    the kernel has forgotten whose it was."""
    at = 0
    while at + 16 <= len(data):
        length = struct.unpack_from("I", data, at)[0]
        if length < 16 + MESSAGE.size or at + length > len(data):
            return
        fields = MESSAGE.unpack_from(data, at + 16)
        family, server_port, client_port = fields[0], fields[4], fields[5]
        server_port, client_port = socket.ntohs(server_port), socket.ntohs(client_port)
        if server_port in ports:
            yield folded(fields[7], family), client_port, server_port
        at += (length + 3) & ~3


def trace_forever(ports):
    """A process of its own, before all others: what it notes is not late."""
    trace = open_trace()
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(5))
    print("ready", flush=True)
    while True:
        data = trace.recv(65536)
        now = time.monotonic()
        for client, client_port, port in ends(data, ports):
            if client_port != 0:
                print(f"end {now:.6f} {client} {client_port} {port}")
                continue
            left = " ".join(f"{a}:{p}:{to}" for a, p, to in live_sessions(ports))
            print(f"left {time.monotonic():.6f} {left}")
        sys.stdout.flush()


class TcpEnds:
    """When the server's socket of a connection was gone."""

    def __init__(self, test, ports):
        self.lock = threading.Lock()
        self.ended, self.left = {}, []
        self.process = subprocess.Popen(
            [sys.executable, "-B", "-m", "lib.tcp_ends", *map(str, ports)],
            stdout=subprocess.PIPE, text=True, cwd=sys.path[0])
        test.at_end(lambda: end_process(self.process))
        if self.process.stdout.readline() != "ready\n":
            raise Failed("no trace of TCP ends (sock_diag)")
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            kind, when, *words = line.split()
            with self.lock:
                if kind == "end":
                    key = words[0], int(words[1]), int(words[2])
                    self.ended.setdefault(key, []).append(float(when))
                else:
                    self.left.append((float(when), {
                        (a, int(p), int(to)) for a, p, to in (w.split(":") for w in words)}))

    def gone(self, key, since):
        """The first moment after `since` at which it is known to be gone, or None.
        The lists of those that were left are asked only where no end was told: such
        a list is not of one moment, and may lack one that lives."""
        with self.lock:
            told = [when for when in self.ended.get(key, ()) if when >= since]
            missed = [when for when, there in self.left if when >= since
                      and key not in there]
        return min(told or missed, default=None)


if __name__ == "__main__":
    trace_forever({int(word) for word in sys.argv[1:]})
