#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""How long a start takes until the first answer, and a reload, by what is configured; and how
long a role that is killed during a reload is away.  Medians, in ms."""
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BUILD = Path(os.environ.get("POSTERN_BUILD") or ".").resolve()
SOURCE = Path(__file__).resolve().parents[2]
STARTS, RELOADS, KILLS = 9, 5, 5
MASKS, CLASSES = 100_000, 60_000
SHIPPED_POLICY, SHIPPED_RUN = "/var/spool/postfix/private", "/run/postern"
HEAD = """version = 1;
user = "nobody";
state = {{ path = "{run}/state"; {state} }};
journal = {{ path = "none"; }};
"""
LISTEN = """listen = {{ policy = ( "unix:{spool}/postern" ); control = "unix:{run}/control"; }};
policy = {{ processes = 1; }};
"""
QUESTION = (b"request=smtpd_access_policy\nprotocol_state=CONNECT\nclient_address=192.0.2.7\n"
            b"client_port=4711\nserver_address=192.0.2.250\nserver_port=25\n\n")


def since_ms(start):
    return (time.monotonic() - start) * 1000


class Daemon:
    def __init__(self, place):
        self.run, self.spool, self.file = place / "run", place / "spool", place / "postern.conf"
        self.log, self.process = place / "log", None
        self.spool.mkdir()

    def answers(self):
        with socket.socket(socket.AF_UNIX) as client:
            try:
                client.connect(str(self.spool / "postern"))
                client.sendall(QUESTION)
                return client.recv(1000).startswith(b"action")
            except OSError:
                return False

    def await_answer(self, start):
        while not self.answers():
            if self.process.poll() is not None or since_ms(start) > 60_000:
                sys.exit(f"starts.py: no answer:\n{self.log.read_text()[-2000:]}")
            time.sleep(0.0005)
        return since_ms(start)

    def start(self):
        (self.spool / "postern").unlink(missing_ok=True)
        start = time.monotonic()
        self.process = subprocess.Popen([BUILD / "posternd", "-f", "-c", self.file],
                                        stderr=open(self.log, "ab"))
        return self.await_answer(start)

    def end(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        self.process.wait()

    def shipped(self):
        text = (SOURCE / "conf/postern.conf").read_text()
        text = text.replace("version = 1;", HEAD.format(run=self.run, state=""), 1)
        self.file.write_text(text.replace(SHIPPED_POLICY, str(self.spool))
                             .replace(SHIPPED_RUN, str(self.run)))

    def configure(self, classes):
        head = HEAD + LISTEN
        self.file.write_text(head.format(run=self.run, spool=self.spool, state="classes = 63000;") +
                             f"classes = ( {classes} );\n")

    def reload(self):
        start = time.monotonic()
        done = subprocess.run([BUILD / "posternctl", "-c", self.file, "reload"],
                              capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"starts.py: reload: {done.stderr}")
        return since_ms(start)

    def role(self, kind):
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        return next(int(pid) for pid in children.split() if f"--role={kind}" in
                    Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " "))

    def killed_during_reload(self, number):
        with subprocess.Popen([BUILD / "posternctl", "-c", self.file, "reload"],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL):
            time.sleep(0.05 + 0.1 * number)
            os.kill(self.role("policy"), signal.SIGKILL)
            return self.await_answer(time.monotonic())


def report(name, values):
    print(f"{name} {statistics.median(values):.1f}", flush=True)


def starts(daemon):
    daemon.shipped()
    new, adopted = [], []
    for _ in range(STARTS):
        shutil.rmtree(daemon.run, ignore_errors=True)
        new.append(daemon.start())
        daemon.end(signal.SIGKILL)
        adopted.append(daemon.start())
        daemon.end()
    report("start_new_ms", new)
    report("start_adopted_ms", adopted)


def masks(sessions):
    names = ", ".join(f'"h{i}.customer.example"' for i in range(MASKS))
    return f'{{ name = "some"; hold_at = {sessions}; match = [ {names} ]; }}'


def many(word, sessions):
    return ", ".join(f'{{ name = "{word}{i}"; match = [ "h{i}.customer.example" ]; '
                     f'hold_at = {sessions}; }}' for i in range(CLASSES))


def reloads(daemon, text_of):
    taken = []
    for number in range(RELOADS):
        daemon.configure(text_of(number))
        taken.append(daemon.reload())
    return taken


def reload_figures(daemon):
    daemon.configure(masks(8))
    daemon.start()
    report(f"reload_masks_ms_{MASKS}", reloads(daemon, lambda n: masks(9 + n)))
    daemon.end()
    daemon.configure(many("a", 8))
    report(f"start_classes_ms_{CLASSES}", [daemon.start()])
    report(f"reload_classes_ms_{CLASSES}", reloads(daemon, lambda n: many("a", 9 + n)))
    report(f"reload_renamed_ms_{CLASSES}", reloads(daemon, lambda n: many("bcdef"[n], 8)))
    away = []
    for number in range(KILLS):
        # one that dies again and again is started later and later
        daemon.end()
        daemon.start()
        daemon.configure(many("f", 20 + number))
        away.append(daemon.killed_during_reload(number))
    report("role_killed_during_reload_ms", away)
    daemon.end()


def main():
    place = Path(tempfile.mkdtemp(prefix="postern-starts.", dir="/dev/shm"))
    place.chmod(0o755)
    daemon = Daemon(place)
    try:
        starts(daemon)
        reload_figures(daemon)
    finally:
        if daemon.process and daemon.process.poll() is None:
            daemon.end()
        shutil.rmtree(place, ignore_errors=True)


main()
