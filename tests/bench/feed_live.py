#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""tests/bench/feed_live.py [LINES]: CPU of the real feed role for each line of a log of
deliveries, one line to each of so many domains (each with a mail exchanger of its own);
then of the same log again, when all are known.  Lines come while it follows the log.

	feed_live_new_ns_per_line	no destination was known
	feed_live_known_ns_per_line	all were
"""
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import cpu
from pages import wait_for_large_pages

BUILD = Path(os.environ.get("top_builddir") or os.environ.get("POSTERN_BUILD") or ".").resolve()
CONFIG = """version = 1;
user = "nobody";
state = {{ path = "{place}/state"; sessions = "1k"; destinations = "{destinations}"; }};
journal = {{ path = "none"; }};
listen = {{ control = "unix:{place}/control"; }};
mta = ( {{ name = "out"; kind = "postfix"; config_directory = "{place}"; log = "{place}/log"; }} );
classes = ( {{ name = "everyone"; match = [ "*" ]; hold_at = 100; }} );
"""
LINE = ("{date} mx postfix/smtp[{pid}]: {i:08X}A7E: to=<user{i}@d{i}.example>, relay=mx.d{i}.example"
        "[10.{a}.{b}.{c}]:25, delay=1.2, delays=0.03/0.01/0.6/0.5, dsn=2.0.0, status=sent "
        "(250 2.0.0 Ok: queued as {i:08X})\n")


class Daemon:
    def __init__(self, place, lines):
        self.config = place / "postern.conf"
        self.config.write_text(CONFIG.format(place=place, destinations=lines + lines // 5))
        (place / "log").write_text("")
        self.log = open(place / "daemon.log", "w+")
        self.process = subprocess.Popen([BUILD / "posternd", "-f", "-c", self.config],
                                        stdout=self.log, stderr=subprocess.STDOUT)

    def status(self):
        done = subprocess.run([BUILD / "posternctl", "-c", self.config, "--json", "status"],
                              capture_output=True, text=True)
        return json.loads(done.stdout) if done.returncode == 0 else None

    def wait(self, condition, what):
        end = time.monotonic() + 300
        while not condition(self.status()):
            if time.monotonic() > end or self.process.poll() is not None:
                self.log.seek(0)
                sys.exit(f"feed_live: {what}:\n{self.log.read()[-2000:]}")
            time.sleep(0.1)

    def feed_pid(self):
        return {role["role"]: role["pid"] for role in self.status()["roles"]}["feed.0"]

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(20)


def write_lines(path, lines):
    with open(path, "a") as out:
        for i in range(lines):
            if i % 10000 == 0:
                date = time.strftime("%b %e %H:%M:%S")
            out.write(LINE.format(date=date, pid=i % 30000, i=i, a=i >> 16 & 255, b=i >> 8 & 255,
                                  c=i & 255))


def main():
    lines = int(sys.argv[1]) if len(sys.argv) > 1 else 1000000
    place = Path(tempfile.mkdtemp(prefix="postern-feed.", dir="/dev/shm"))
    place.chmod(0o755)
    daemon = Daemon(place, lines)
    try:
        daemon.wait(lambda status: status and "feed.0" in str(status["roles"]), "no start")
        wait_for_large_pages()
        feed = daemon.feed_pid()
        for round, name in enumerate(("new", "known"), 1):
            before = cpu.own_ns(feed)
            write_lines(place / "log", lines)
            daemon.wait(lambda status: status["counters"]["feed_deliveries"] == round * lines,
                        "lines are missing")
            if daemon.feed_pid() != feed:
                sys.exit("feed_live: the role was started again")
            print(f"feed_live_{name}_ns_per_line {(cpu.own_ns(feed) - before) / lines:.0f}", flush=True)
    finally:
        daemon.end()
        shutil.rmtree(place)


main()
