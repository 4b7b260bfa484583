# SPDX-License-Identifier: ISC
"""A file system whose calls end with EIO when they are told to, for one Postern."""
import mmap
import os
import struct
import subprocess
from pathlib import Path

from lib.testing import Skipped

SOURCE = Path(__file__).with_suffix(".c")
READS, WRITES, SYNCS = 1, 2, 4


class BadDisk:
    """`path`: where a file system of its own is mounted."""

    def __init__(self, test, path):
        library = test.directory / "bad_disk.so"
        built = subprocess.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", "-O1", "-o", library,
                                SOURCE, "-ldl"], capture_output=True, text=True)
        if built.returncode != 0:
            raise Skipped(f"no library to fail with: {built.stderr}")
        self.file = test.directory / "bad_disk"
        self.file.write_bytes(bytes(mmap.PAGESIZE))
        self.file.chmod(0o666)          # roles are executed, and map it as their user
        with open(self.file, "r+b") as file:
            self.page = mmap.mmap(file.fileno(), mmap.PAGESIZE)
        self.page[0:8] = struct.pack("@Q", os.stat(path).st_dev)
        self.environment = ["env", f"LD_PRELOAD={library}", f"BAD_DISK={self.file}"]

    def fail(self, what):
        """None of these calls goes well any more; 0: all do."""
        self.page[8:16] = struct.pack("@Q", what)

    def failed(self):
        """How many have."""
        return struct.unpack("@Q", self.page[16:24])[0]
