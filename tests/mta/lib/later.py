# SPDX-License-Identifier: ISC
"""A clock of the boot that is ahead, for all processes that are started from then on: a time
namespace.  The wall clock, and that of the test itself, stay what they are."""
import ctypes
import os

from lib.testing import Skipped

CLONE_NEWTIME = 0x80


def later(seconds):
    """So much ahead of the machine's own clock; for the main thread, and what it starts."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWTIME) != 0:
        raise Skipped(f"no time namespaces: {os.strerror(ctypes.get_errno())}")
    with open("/proc/self/timens_offsets", "w") as offsets:
        offsets.write(f"monotonic {seconds} 0\nboottime {seconds} 0\n")
