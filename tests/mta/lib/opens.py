# SPDX-License-Identifier: ISC
"""Which files of some directories are opened, by anybody (inotify)."""
import ctypes
import os
import struct

IN_OPEN, IN_ISDIR, IN_Q_OVERFLOW = 0x20, 0x40000000, 0x4000


class Opens:
    def __init__(self, directories):
        libc = ctypes.CDLL(None, use_errno=True)
        self.fd = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        for directory in directories:
            if libc.inotify_add_watch(self.fd, os.fsencode(directory), IN_OPEN) < 0:
                raise OSError(ctypes.get_errno(), str(directory))

    def names(self):
        """Those that were opened since the last time, a name for each time."""
        found = []
        while True:
            try:
                data = os.read(self.fd, 1 << 16)
            except BlockingIOError:
                return found
            at = 0
            while at < len(data):
                _, mask, _, length = struct.unpack_from("iIII", data, at)
                name = data[at + 16:at + 16 + length].rstrip(b"\0").decode()
                at += 16 + length
                if mask & IN_Q_OVERFLOW:
                    found.append("(more)")
                elif mask & IN_OPEN and not mask & IN_ISDIR:
                    found.append(name)
