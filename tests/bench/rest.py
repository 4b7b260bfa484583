#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""tests/bench/rest.py [--short]: what the daemon does while nothing happens.

	idle_wakes_per_second	of all threads of all processes, with conf/postern.conf
	idle_cpu_percent	and their CPU, of one core
	rest_sessions_cpu_percent_1000000	the same, with so many open sessions
	rest_destinations_cpu_percent_1000000	and with so many destinations, of a mail log
	reload_shipped_ms	until all roles have taken up a configuration like that; median
"""
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import cpu

BUILD = Path(os.environ.get("top_builddir") or os.environ.get("POSTERN_BUILD") or ".").resolve()
SOURCE = Path(__file__).resolve().parents[2]
SETTLE_S, SETTLE_MANY_S = 6, 60         # a million sessions are saved now and then
RELOADS, REST_S = 9, 3
HEAD = """version = 1;
user = "nobody";
state = {{ path = "{place}/state"; {state} }};
journal = {{ path = "none"; }};
"""
SESSIONS = """listen = {{ policy = ( {{ address = "unix:{place}/policy"; session_proof = "lease"; }} );
           control = "unix:{place}/control"; }};
lease = {{ orphan = "1d"; }};
classes = ( {{ name = "everyone"; match = [ "*" ]; hold_at = 4000000; refuse_at = 4000000; }} );
"""
DESTINATIONS = """listen = {{ policy = [ "unix:{place}/policy" ]; control = "unix:{place}/control"; }};
mta = ( {{ name = "out"; kind = "postfix"; config_directory = "{place}"; log = "{place}/log"; }} );
classes = ( {{ name = "everyone"; match = [ "*" ]; hold_at = 100; }} );
"""
LINE = ("{date} mx postfix/smtp[{pid}]: {i:08X}A7E: to=<user{i}@d{i}.example>, relay=mx.d{i}.example"
        "[10.{a}.{b}.{c}]:25, delay=1.2, delays=0.03/0.01/0.6/0.5, dsn=2.0.0, status=sent "
        "(250 2.0.0 Ok: queued as {i:08X})\n")


class Daemon:
    def __init__(self, text):
        self.place = Path(tempfile.mkdtemp(prefix="postern-rest.", dir="/dev/shm"))
        self.place.chmod(0o755)
        (self.place / "spool").mkdir()
        self.config = self.place / "postern.conf"
        self.config.write_text(text(self.place))
        (self.place / "log").write_text("")
        self.process = subprocess.Popen([BUILD / "posternd", "-f", "-c", self.config],
                                        stderr=open(self.place / "daemon.log", "ab"))
        self.wait(lambda status: status and all(role["pid"] for role in status["roles"]), "no start")

    def ctl(self, *words):
        return subprocess.run([BUILD / "posternctl", "-c", self.config, *words], capture_output=True,
                              text=True)

    def wait(self, condition, what):
        end = time.monotonic() + 300
        while True:
            done = self.ctl("--json", "status")
            if condition(json.loads(done.stdout) if done.stdout.startswith("{") else None):
                return
            if time.monotonic() > end or self.process.poll() is not None:
                sys.exit(f"rest.py: {what}:\n" + (self.place / "daemon.log").read_text()[-2000:])
            time.sleep(0.1)

    def wakes(self):
        """Voluntary context switches of each thread: it waited, and was woken."""
        found = {}
        for pid in cpu.descendants(self.process.pid):
            for task in Path(f"/proc/{pid}/task").iterdir():
                words = (task / "status").read_text().split()
                found[task.name] = int(words[words.index("voluntary_ctxt_switches:") + 1])
        return found

    def at_rest(self, settle, seconds):
        """Wakes a second, and percent of a core."""
        time.sleep(settle)
        used, wakes, begin = cpu.used_ns(self.process.pid), self.wakes(), time.monotonic()
        time.sleep(seconds)
        took = time.monotonic() - begin
        now = self.wakes()
        if now.keys() != wakes.keys():
            sys.exit("rest.py: a thread or a process began or ended at rest")
        used = cpu.used_ns(self.process.pid) - used
        return sum(now[task] - wakes[task] for task in now) / took, used / took / 1e7

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(20)
        shutil.rmtree(self.place)


def shipped(place):
    text = (SOURCE / "conf/postern.conf").read_text()
    text = text.replace("version = 1;", HEAD.format(place=place, state=""), 1)
    return text.replace("/var/spool/postfix/private", f"{place}/spool").replace("/run/postern", f"{place}")


def idle(seconds):
    daemon = Daemon(shipped)
    try:
        wakes, percent = daemon.at_rest(SETTLE_S, seconds)
        print(f"idle_wakes_per_second {wakes:.2f}\nidle_cpu_percent {percent:.3f}", flush=True)
        taken = []
        for number in range(RELOADS):
            # at rest, and while something has just happened
            time.sleep(REST_S if number % 2 else 0)
            begin = time.monotonic()
            done = daemon.ctl("reload")
            taken.append((time.monotonic() - begin) * 1000)
            if done.returncode != 0:
                sys.exit(f"rest.py: reload: {done.stderr}")
        print(f"reload_shipped_ms {statistics.median(taken):.0f}", flush=True)
    finally:
        daemon.end()


def sessions(count, settle, seconds):
    daemon = Daemon(lambda place: (HEAD + SESSIONS).format(
        place=place, state=f'sessions = "{count + count // 4}";'))
    try:
        done = subprocess.run([BUILD / "tests/bench/hold_sessions", daemon.place / "state", str(count)],
                              capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"rest.py: {done.stderr}")
        percent = daemon.at_rest(settle, seconds)[1]
        daemon.wait(lambda status: status["tables"][0]["used"] == count, "sessions are missing")
        print(f"rest_sessions_cpu_percent_{count} {percent:.3f}", flush=True)
    finally:
        daemon.end()


def write_lines(path, lines):
    with open(path, "a") as out:
        for i in range(lines):
            if i % 10000 == 0:
                date = time.strftime("%b %e %H:%M:%S")
            out.write(LINE.format(date=date, pid=i % 30000, i=i, a=i >> 16 & 255, b=i >> 8 & 255,
                                  c=i & 255))


def destinations(count, settle, seconds):
    daemon = Daemon(lambda place: (HEAD + DESTINATIONS).format(
        place=place, state=f'sessions = "1k"; destinations = "{count + count // 5}";'))
    try:
        write_lines(daemon.place / "log", count)
        daemon.wait(lambda status: status["counters"]["feed_deliveries"] == count, "lines are missing")
        print(f"rest_destinations_cpu_percent_{count} {daemon.at_rest(settle, seconds)[1]:.3f}", flush=True)
    finally:
        daemon.end()


def main():
    short = "--short" in sys.argv[1:]
    count, settle, seconds = (10_000, SETTLE_S, 5) if short else (1_000_000, SETTLE_MANY_S, 60)
    idle(10)
    sessions(count, settle, seconds)
    destinations(count, settle, seconds)


main()
