# SPDX-License-Identifier: ISC
"""CPU time of a process and of all that it has started, whether they live or have ended."""
import os
import subprocess
import sys
import time
from pathlib import Path

TICK_NS = 10 ** 9 // os.sysconf("SC_CLK_TCK")
BURNER = """
import os, sys, threading, time
each = float(sys.argv[1])
def burn(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass
sys.stdin.readline()
thread = threading.Thread(target=burn, args=(each,))     # it has ended when it is looked at
thread.start(); thread.join()
if os.fork() == 0:                                      # begun late, ended, and waited for
    burn(each); os._exit(0)
os.wait()
here, there = os.pipe()
if os.fork() == 0:                                      # begun late, and still there
    burn(each); os.write(there, b"x"); sys.stdin.readline(); os._exit(0)
os.read(here, 1)
print("burnt", flush=True)
sys.stdin.readline()
"""


def descendants(pid):
    found = [pid]
    for one in found:
        try:
            for task in Path(f"/proc/{one}/task").iterdir():
                found += [int(word) for word in (task / "children").read_text().split()]
        except OSError:
            pass                        # it has just ended
    return found


def own_ns(pid):
    """Of a process: its threads, also those that have ended, and children that it waited for."""
    try:
        # MAKE_PROCESS_CPUCLOCK(pid, CPUCLOCK_SCHED) of the kernel
        own = time.clock_gettime_ns(~pid << 3 | 2)
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return own + (int(words[13]) + int(words[14])) * TICK_NS


def used_ns(pid):
    return sum(own_ns(one) for one in descendants(pid))


def share_seen(seconds):
    """How much of a known load of so many seconds is seen: 1.00 is right."""
    burner = subprocess.Popen([sys.executable, "-c", BURNER, str(seconds / 3)], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True)
    try:
        before = used_ns(burner.pid)
        burner.stdin.write("\n")
        burner.stdin.flush()
        burner.stdout.readline()
        return (used_ns(burner.pid) - before) / 1e9 / seconds
    finally:
        burner.kill()
        burner.wait()
