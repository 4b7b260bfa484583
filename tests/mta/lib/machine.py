# SPDX-License-Identifier: ISC
"""A machine as an admin finds it: Postern installed in its usual places, and a Postfix in
Debian's.  All of it is private to the test."""
import json
import os
import shutil
import subprocess
from pathlib import Path

from lib.postern import build_tree
from lib.postfix import MAIN, MASTER, listening, without
from lib.testing import SOURCE, Skipped, alive, mount

HERE = "198.51.100.25"
ETC, SPOOL, LOG = Path("/etc/postfix"), Path("/var/spool/postfix"), Path("/var/log/mail.log")
MINE = f"""inet_interfaces = {HERE}, 127.0.0.1
inet_protocols = ipv4
maillog_file_prefixes = /var
syslog_name = postfix
mynetworks = {HERE}/32, 127.0.0.0/8
relay_domains = example.com
relay_transport = discard:
transport_maps =
smtpd_tls_security_level = none
"""


class Machine:
    """posternd as "posternd -f" of its own."""

    def __init__(self, test):
        self.test = test
        self.posternd = None
        self.kinds = {"keeper", "milter", "policy"}     # that run when it is ready
        etc = test.directory / "etc"
        test.run(["cp", "-a", "/etc", etc])
        mount("--bind", etc, "/etc")
        for place in ("/usr/local", "/var/lib", "/var/log", "/var/spool"):
            mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", place)
        self.install()
        os.environ["PATH"] = "/usr/local/sbin:/usr/local/bin:" + os.environ["PATH"] + \
            ":/usr/sbin:/sbin"

    def install(self):
        """make install, as README says."""
        environment = {name: value for name, value in os.environ.items()
                       if not name.startswith("MAKE")}
        self.test.run(["make", "-s", "-C", build_tree(), "install"], env=environment)

    def begin(self):
        """What systemctl start posternd comes to."""
        self.posternd = self.test.spawn(["posternd", "-f"], "posternd")
        self.test.wait_for(self.is_up, "posternd is ready")

    def stop(self):
        self.posternd.terminate()
        self.posternd.wait(15)

    def restart(self):
        self.stop()
        self.begin()

    def reset(self):
        """The shipped configuration, and nothing learned."""
        running = self.posternd is not None
        if running:
            self.stop()
        shutil.copy(SOURCE / "conf/postern.conf", "/etc/postern/postern.conf")
        for place in ("/run/postern", "/var/lib/postern"):
            shutil.rmtree(place, ignore_errors=True)
        if running:
            self.begin()

    def asked(self, *words):
        """What posternctl --json says, or None."""
        done = subprocess.run(["posternctl", "--json", *words], text=True, capture_output=True)
        return json.loads(done.stdout) if done.returncode == 0 else None

    def is_up(self):
        status = self.asked("status")
        if status is None or status["pid"] != self.posternd.pid:
            return False
        alive = {role["role"].split(".")[0] for role in status["roles"]
                 if role["pid"] and role["heartbeat_age"] is not None}
        return alive >= self.kinds

    def postfix(self):
        if not Path("/usr/lib/postfix/sbin/master").exists():
            raise Skipped("postfix is not installed")
        text = MAIN.format(root="/var/lib/postfix", spool=SPOOL, log=LOG, name="postfix")
        named = {line.split("=")[0].strip() for line in MINE.splitlines()}
        (ETC / "main.cf").write_text("".join(
            line for line in text.splitlines(True)
            if line.split("=")[0].strip() not in named) + MINE)
        own = ["smtp inet n - y - - smtpd\n", "smtp unix - - y - - smtp\n"]
        (ETC / "master.cf").write_text(without(MASTER, own) + "".join(own))
        SPOOL.mkdir()
        Path("/var/lib/postfix/data").mkdir(parents=True)
        shutil.chown("/var/lib/postfix/data", "postfix")
        self.test.run(["postfix", "check"])
        (SPOOL / "etc").mkdir(exist_ok=True)
        for file in ("hosts", "nsswitch.conf", "resolv.conf", "services"):
            if os.path.exists(f"/etc/{file}"):
                shutil.copy(f"/etc/{file}", SPOOL / "etc" / file)

    def start_postfix(self):
        self.test.run(["postfix", "start"])
        self.test.at_end(self.stop_postfix)
        self.test.wait_for(lambda: listening(25), "Postfix listens")

    def stop_postfix(self):
        pid = int((SPOOL / "pid/master.pid").read_text())
        if alive(pid):
            os.kill(pid, 15)
            self.test.poll(lambda: not alive(pid), 10)
