# SPDX-License-Identifier: ISC
"""A milter's client, packet by packet."""
import fcntl
import select
import socket
import struct
import termios
import time


def packet(command, data=b""):
    return struct.pack(">I", len(data) + 1) + command + data


def negotiation(version=6, actions=0x1ff, steps=0x1fffff):
    return packet(b"O", struct.pack(">III", version, actions, steps))


def macros(**values):
    return packet(b"D", b"C" + b"".join(f"{{{name}}}\0{value}\0".encode()
                                        for name, value in values.items()))


def connect(address, port, name="mail.example.org", family=b"4"):
    return packet(b"C", name.encode() + b"\0" + family + struct.pack(">H", port) +
                  address.encode() + b"\0")


class Client:
    """One milter connection, as an MTA makes it."""

    def __init__(self, place):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(10)
        self.socket.connect(str(place))

    def send(self, data):
        try:
            self.socket.sendall(data)
        except OSError:
            pass                    # it was closed on us, as it should be

    def is_taken(self):
        """Has the other side read all that was sent?"""
        return fcntl.ioctl(self.socket, termios.TIOCOUTQ, b"\0" * 4) == b"\0" * 4

    def take(self, count):
        data = b""
        while len(data) < count:
            try:
                piece = self.socket.recv(count - len(data))
            except ConnectionResetError:
                return None
            if not piece:
                return None
            data += piece
        return data

    def read(self):
        """One packet: (command, data), or None at the end."""
        head = self.take(4)
        body = head and self.take(struct.unpack(">I", head)[0])
        return body and (body[:1], body[1:])

    def negotiate(self):
        self.send(negotiation())
        return self.read()

    def open(self, address, port, **more):
        """Negotiates and connects; the answer's command and data."""
        self.negotiate()
        self.send(connect(address, port, **more))
        return self.read()

    def ends(self, seconds=5.0):
        """Does the other side close, whatever it says before?"""
        end = time.monotonic() + seconds
        while select.select([self.socket], [], [], max(0.0, end - time.monotonic()))[0]:
            try:
                if not self.socket.recv(65536):
                    return True
            except OSError:
                return True
        return False

    def close(self):
        self.socket.close()
