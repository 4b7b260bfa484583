# SPDX-License-Identifier: ISC
"""A Sendmail site with a milter and a check_compat of its own, not attached to Postern yet."""
import json
import os
import re
import subprocess

from lib import dns
from lib.leaving import OUT, PORT, leaving
from lib.postern import Postern, one_class
from lib.postfix import listening
from lib.sendmail import Sendmail
from lib.sink import Sink
from lib.smtp import Session
from lib.testing import SOURCE

LIMIT = 3
OUTSIDE = [f"127.0.5.{n}" for n in range(1, 7)]
HOST = "h1.slow.example"
SERVERS = {"127.0.1.1": HOST}

MILTER = "INPUT_MAIL_FILTER(`opendkim', `S=unix:{dkim}, F=T')dnl\n"
DOMAINS = "FEATURE(`use_cw_file')dnl\nLOCAL_DOMAIN(`own.example')dnl\n"
RULES = """LOCAL_CONFIG
# of the site
Kown macro

LOCAL_RULESETS
Scheck_compat
# nobody writes to blocked
R$* $| <$*>		$: $1 $| $2
R$* $| blocked@$*	$#discard $: discard
SLocal_check_relay
R$* $| 127.0.9.9	$#error $@ 5.7.1 $: "550 not you"
SOwn
R$*		$@ $1
"""


def bare(cf):
    """Without comments, which tell where it was built."""
    return "".join(line for line in cf.read_text().splitlines(True) if line[0] != "#")


class Site:
    def __init__(self, test):
        self.test = test
        test.need("opendkim")
        dns.serve({})
        self.dkim = test.directory / "dkim.sock"
        self.opendkim()
        self.sink = Sink(test, SERVERS, OUT)
        shipped = ("/run/postern/", f"{test.directory}/postern/")
        self.postern = Postern(test, edit=lambda text: leaving(
            [one_class("limited", LIMIT, [PORT], '"127.0.5.0/24"'),
             one_class("all", 100, [], '"*"')])(text).replace(*reversed(shipped)).replace(
                "listen = {", 'listen = { milter_accounts = "unix:/run/postern/accounts";'))
        self.postern.start()
        self.sendmail = Sendmail(test, PORT, outbound=OUT, after=RULES,
                                 before=MILTER.format(dkim=self.dkim) + DOMAINS)
        self.etc = self.sendmail.root / "etc"
        (self.etc / "local-host-names").write_text("# of ours\nother.example\n")
        for file in ("sendmail.mc", "sendmail.cf"):
            os.utime(self.etc / file, ns=(10**18, 10**18 + 987654321))
        os.chmod(self.etc / "sendmail.mc", 0o640)
        self.sendmail.start()
        self.number, self.starts = 0, 1

    def opendkim(self):
        conf = self.test.directory / "opendkim.conf"
        conf.write_text(f"Domain example.com\nMode v\nUMask 000\nSocket local:{self.dkim}\n"
                        "AlwaysAddARHeader yes\nNameservers 127.0.0.1\nPidFile /run/dkim.pid\n")
        self.test.spawn(["opendkim", "-f", "-x", conf], "opendkim")
        self.test.wait_for(self.dkim.exists, "OpenDKIM listens")

    def plain(self, *words):
        return subprocess.run(
            [SOURCE / "contrib/postern-sendmail-setup", "--mc", self.etc / "sendmail.mc",
             "--cf-dir", self.sendmail.unpacked / "usr/share/sendmail/cf",
             "--sendmail", self.sendmail.program(), "--store", self.test.directory / "store",
             "--postern-conf", self.postern.file, "--posternctl",
             self.postern.build / "posternctl", *words],
            text=True, capture_output=True, timeout=60)

    def setup(self, *words):
        """Exit code and what it told, as JSON."""
        done = self.plain("--json", *words)
        return done.returncode, json.loads(done.stdout) if done.stdout else done.stderr

    def syslog(self):
        return self.test.syslog()

    def restarted(self):
        self.starts += 1
        self.test.wait_for(lambda: self.syslog().count("starting daemon") >= self.starts
                           and listening(PORT), "Sendmail has read it")

    def send(self, user):
        """Queued, and the milter's header in it?"""
        session = Session(("127.0.0.1", PORT), OUTSIDE[0])
        code, _ = session.data([f"{user}@{HOST}"], "a@example.org")
        if code == 354:
            code, _ = session.command("From: a@example.org\r\n\r\ntest\r\n.")
        session.quit()
        return code, "Authentication-Results" in self.sendmail.queue_text()

    def run_queue(self):
        process = self.sendmail.queue_run()
        self.test.wait_for(lambda: process.poll() is not None, "a queue run ends")

    def every_way(self):
        """What becomes of mail to somebody, of mail that the site's check_compat stops, and
        of a client that its Local_check_relay refuses."""
        self.number += 1
        user = f"u{self.number}"
        taken = self.send(user)
        self.run_queue()
        stopped = len(re.findall("ruleset=check_compat.*blocked@.*discard", self.syslog()))
        session = Session(("127.0.0.1", PORT), OUTSIDE[0])
        session.send([f"blocked@{HOST}"], "")
        session.quit()
        self.run_queue()
        return (taken, f"{user}@{HOST}" in self.sink.delivered,
                f"blocked@{HOST}" in self.sink.delivered,
                len(re.findall("ruleset=check_compat.*blocked@.*discard", self.syslog())) > stopped,
                Session(("127.0.0.1", PORT), "127.0.9.9").send()[0])
