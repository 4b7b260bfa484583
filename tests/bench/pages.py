# SPDX-License-Identifier: ISC
"""When a daemon that has just started has its memory as it will stay."""
import re
import time
from pathlib import Path


def wait_for_large_pages():
    """The keeper makes the tables' pages large in the first seconds (segment/file/large_pages.c);
    where the kernel has none there is nothing to wait for."""
    def large():
        return re.search(r"ShmemHugePages:\s+(\d+)", Path("/proc/meminfo").read_text()).group(1)
    now, since = large(), time.monotonic()
    while time.monotonic() - since < 1:
        time.sleep(0.05)
        if large() != now:
            now, since = large(), time.monotonic()
