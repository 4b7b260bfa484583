# SPDX-License-Identifier: ISC
"""The control protocol, spoken by hand."""
import pwd
import socket
import subprocess
import sys


def frame(*lines):
    body = b"".join(line if isinstance(line, bytes) else f"{line}\n".encode() for line in lines)
    return f"{len(body)}\n".encode() + body


class Client:
    def __init__(self, postern, name="control"):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(10)
        self.socket.connect(str(postern.root / name))
        self.data = b""

    def send(self, data):
        self.socket.sendall(data)

    def next(self):
        """A frame as a dictionary, or None when the daemon has hung up."""
        while True:
            length, newline, rest = self.data.partition(b"\n")
            if newline and len(rest) >= int(length):
                self.data = rest[int(length):]
                lines = rest[:int(length)].decode().splitlines()
                return dict(line.split("=", 1) for line in lines)
            try:
                piece = self.socket.recv(65536)
            except ConnectionResetError:
                piece = b""
            if not piece:
                return None
            self.data += piece

    def answer(self):
        """Rows, and the end."""
        rows = []
        while (one := self.next()) is not None:
            if "end" in one:
                return rows, one
            if "row" in one:
                rows.append(one)
        return rows, None

    def ask(self, *lines):
        self.send(frame(*lines))
        return self.answer()


AS_NOBODY = """
import os, socket, sys
os.setgroups([int(word) for word in sys.argv[4:]])
os.setgid(int(sys.argv[2])); os.setuid(int(sys.argv[3]))
s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])
s.sendall(sys.stdin.buffer.read()); s.shutdown(socket.SHUT_WR)
data = b""
while piece := s.recv(65536): data += piece
sys.stdout.buffer.write(data)
"""


def as_user(postern, name, data, groups=(), place="control"):
    user = pwd.getpwnam(name)
    return subprocess.run([sys.executable, "-c", AS_NOBODY, str(postern.root / place),
                           str(user.pw_gid), str(user.pw_uid), *map(str, groups)], input=data,
                          capture_output=True, timeout=20).stdout.decode()
