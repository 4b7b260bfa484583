# SPDX-License-Identifier: ISC
"""Servers under load, and the CPU time that they take: for tests/bench/run and peers.py."""
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import cpu
from pages import wait_for_large_pages

SOURCE = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("top_builddir") or os.environ.get("POSTERN_BUILD") or ".").resolve()
BENCH = BUILD / "tests/bench"
CPUS = sorted(os.sched_getaffinity(0))
SERVER_CPUS, LOADER_CPUS = set(CPUS[:-1]) or {CPUS[0]}, {CPUS[-1]}
CONFIG = """version = 1;
user = "{user}";
state = {{ path = "{place}/state"; sessions = "{sessions}"; {more} }};
journal = {{ path = "none"; }};
listen = {{ policy = ( {{ address = "unix:{place}/policy"; session_proof = "{proof}"; }} );
           milter = ( {{ address = "unix:{place}/milter"; session_proof = "{proof}"; }} );
           {listen} control = "unix:{place}/control"; }};
policy = {{ processes = 1; }};
witness = {{ ports = [ {port} ]; }};
count_unannounced = "never";
{classes}
"""
COUNTED = """classes = (
  { name = "some"; match = [ "*.customer.example", "198.51.100.0/24" ]; hold_at = 8; },
  { name = "everyone"; match = [ "*" ]; hold_at = 4000000; refuse_at = 4000000; } );"""


def wait_for(condition, what, process=None, log=None):
    end = time.monotonic() + 20
    while not condition():
        if time.monotonic() > end or (process and process.poll() is not None):
            sys.exit(f"bench: {what}" + (":\n" + Path(log).read_text()[-3000:] if log else ""))
        time.sleep(0.01)


class Server:
    """A server in the foreground, and its processes."""

    def __init__(self, command, sockets, place, pinned):
        self.log = place / (Path(command[0]).name + ".log")
        self.process = subprocess.Popen(
            [str(word) for word in command], stdout=open(self.log, "ab"), stderr=subprocess.STDOUT,
            preexec_fn=(lambda: os.sched_setaffinity(0, SERVER_CPUS)) if pinned else None)
        for path in sockets:
            wait_for(path.exists, f"{command[0]} does not listen", self.process, self.log)

    def end(self):
        if self.process.poll() is None:
            # libmilter takes up to 5 s to end; the daemon has roles to take along
            null = Path(self.process.args[0]).name.startswith("null_")
            self.process.send_signal(signal.SIGKILL if null else signal.SIGTERM)
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


def load_with(program, path, connections, units, pinned, answers, options=()):
    """One run of a loader: its figures.  There is a warm-up of a quarter, or 5000, besides."""
    done = subprocess.run(
        [BENCH / program, f"unix:{path}", "-c", str(connections), "-n", str(units),
         "-w", str(warm_up(units)), *options], capture_output=True, text=True,
        preexec_fn=(lambda: os.sched_setaffinity(0, LOADER_CPUS)) if pinned else None)
    if done.returncode != 0:
        sys.exit(f"bench: {program}: {done.stderr.strip()}")
    figures = {}
    for line in done.stdout.splitlines():
        words = line.split()
        if words[0] == "answer":
            if words[1] not in answers:
                sys.exit(f"bench: {program}: unexpected answers: {line}")
            figures[f"answers {words[1]}"] = float(words[2])
        else:
            figures[words[0]] = float(words[1])
    return figures


def warm_up(units):
    return min(5000, units // 4)


def load(server, program, path, connections, units, pinned, answers=("DUNNO", "continue"), options=()):
    """The same, and the server's CPU time for each unit."""
    before = cpu.used_ns(server.process.pid)
    figures = load_with(program, path, connections, units, pinned, answers, options)
    figures["cpu_us"] = (cpu.used_ns(server.process.pid) - before) / 1000 / (units + warm_up(units))
    return figures


def start_daemon(place, pinned, user, **values):
    config = place / "postern.conf"
    settings = {"place": place, "sessions": "1M", "proof": "lease", "port": 25, "user": user,
                "classes": COUNTED, "more": "", "listen": ""}
    config.write_text(CONFIG.format(**{**settings, **values}))
    server = Server([BUILD / "posternd", "-f", "-c", config],
                    [place / "policy", place / "milter"], place, pinned)
    wait_for_large_pages()
    return server
