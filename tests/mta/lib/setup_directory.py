# SPDX-License-Identifier: ISC
"""A directory with a main.cf and a master.cf, and no Postfix that runs."""
import json
import os
import subprocess

from lib.testing import SOURCE

REST = "qmgr unix n - n 300 1 qmgr\n"
SMTP = "smtp inet n - n - - smtpd\n"
ACCEPT = [word for name in ("posternctl", "postern-conf", "socket") for word in ("--accept", name)]


class Directory:
    def __init__(self, test):
        for program in ("postconf", "perl"):
            test.need(program)
        self.test, self.etc = test, test.directory / "etc"
        self.etc.mkdir()

    def write(self, master, main_cf):
        for name, text in (("master.cf", master),
                           ("main.cf", "compatibility_level = 3.6\n" + main_cf)):
            (self.etc / name).write_bytes(text if isinstance(text, bytes) else text.encode())
            os.utime(self.etc / name, (1e9, 1e9))       # older than Postfix wants

    def run(self, *words, program="postern-postfix-setup", **more):
        return subprocess.run(
            [SOURCE / "contrib" / program, "-c", self.etc, "--store",
             self.test.directory / "store", "--posternctl", "/nonexistent/posternctl", *words],
            text=True, capture_output=True, timeout=60, **more)

    def show(self, *words):
        done = self.run("show", "--json", *words)
        if not done.stdout:
            return {"services": [], "findings": [], "diff": done.stderr}
        told = json.loads(done.stdout)
        told["diff"] = told["files"][0]["diff"]
        return told


def obstacles(told):
    return sorted({row["word"] for row in told["findings"] if row["kind"] == "obstacle"})
