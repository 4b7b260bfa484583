# SPDX-License-Identifier: ISC
"""A journald of the test's own: it needs no systemd, and the test's /run is its own, too."""
import os
import shutil
import socket
import subprocess
from pathlib import Path

from lib.testing import Failed, Skipped, mount

PROGRAM = "/lib/systemd/systemd-journald"
SOCKET = "/run/systemd/journal/dev-log"
VOLATILE, PERSISTENT = Path("/run/log/journal"), Path("/var/log/journal")
GROUP = "systemd-journal"


class Journald:
    """`settings`: lines of journald.conf(5)."""

    def __init__(self, test, settings=""):
        self.test, self.process = test, None
        if not os.path.exists(PROGRAM) or not shutil.which("journalctl"):
            raise Skipped("no systemd-journald is installed")
        for place in VOLATILE, PERSISTENT:
            place.mkdir(parents=True, exist_ok=True)
        if not any(Path("/sys/fs/cgroup").iterdir()):   # without one, journald 257 does not start
            mount("-t", "cgroup2", "cgroup2", "/sys/fs/cgroup")
        mount("-t", "tmpfs", "tmpfs", PERSISTENT)
        for place in VOLATILE, PERSISTENT:      # as tmpfiles.d has them
            shutil.chown(place, group=GROUP)
            os.chmod(place, 0o2755)
        self.configure(settings)
        self.start()

    @staticmethod
    def configure(settings):
        conf = Path("/run/systemd/journald.conf.d/test.conf")
        conf.parent.mkdir(parents=True, exist_ok=True)
        conf.write_text(f"[Journal]\nForwardToSyslog=no\n{settings}\n")

    def start(self):
        for file in Path("/run/systemd/journal").glob("*"):
            if file.is_socket():
                file.unlink()           # systemd, which would hold them, is not there
        self.process = self.test.spawn([PROGRAM], "journald")
        self.test.wait_for(self.answers, "journald takes lines")

    @staticmethod
    def answers():
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as log:
            try:
                log.connect(SOCKET)
            except OSError:
                return False
        return True

    def stop(self):
        self.process.terminate()
        self.process.wait(10)

    def kill(self):
        self.process.kill()
        self.process.wait(10)

    @staticmethod
    def control(*words):
        """journalctl, as in --rotate, --flush, --vacuum-files=1."""
        return subprocess.run(["journalctl", "--quiet", *words], check=True, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout

    @staticmethod
    def write(lines):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as log:
            log.connect(SOCKET)
            for line in lines:
                log.send(line.encode())

    def write_as(self, uid, lines, cgroup=None):
        """By a process of that user, in that control group."""
        pid = os.fork()
        if pid == 0:
            try:
                if cgroup:
                    (cgroup / "cgroup.procs").write_text(str(os.getpid()))
                os.setgroups([])
                os.setresgid(uid, uid, uid)
                os.setresuid(uid, uid, uid)
                self.write(lines)
                os._exit(0)
            finally:
                os._exit(1)
        if os.waitpid(pid, 0)[1] != 0:
            raise Failed(f"user {uid} cannot write to journald")

    def has(self, text):
        """Is the last entry this one?"""
        return text in self.control("--lines=1", "--output=cat", "SYSLOG_FACILITY=2")
