# SPDX-License-Identifier: ISC
"""A private Sendmail, unpacked aside, with the lines of conf/ word for word."""
import os
import re
import subprocess
import sys
from pathlib import Path

from lib.postfix import listening
from lib.testing import SKIP, SOURCE, TESTS

# The site's own part; ours goes before the MAILER lines.
HEAD = """VERSIONID(`private')
OSTYPE(`linux')dnl
define(`MAIL_SETTINGS_DIR',`{root}/etc/')dnl
define(`ALIAS_FILE',`{root}/etc/aliases')dnl
define(`HELP_FILE',`{root}/etc/helpfile')dnl
define(`STATUS_FILE',`{root}/etc/statistics')dnl
define(`QUEUE_DIR',`{root}/queue')dnl
define(`confPID_FILE',`{root}/sendmail.pid')dnl
define(`confDOMAIN_NAME',`mta.example.com')dnl
define(`confTO_IDENT',`0')dnl
define(`confQUEUE_LA',`1000')dnl
define(`confREFUSE_LA',`1000')dnl
define(`confDONT_PROBE_INTERFACES',`True')dnl
define(`confDELIVERY_MODE',`queueonly')dnl
FEATURE(`no_default_msa')dnl
DAEMON_OPTIONS(`Name=MTA, Family=inet, Port={port}, Listen=256')dnl
DAEMON_OPTIONS(`Name=MTA6, Family=inet6, Addr=::1, Port={port}, Listen=256')dnl
FEATURE(`nocanonify')dnl
FEATURE(`accept_unresolvable_domains')dnl
FEATURE(`promiscuous_relay')dnl
"""
OUTBOUND = """define(`SMTP_MAILER_ARGS',`TCP $h {port}')dnl
define(`ESMTP_MAILER_ARGS',`TCP $h {port}')dnl
define(`RELAY_MAILER_ARGS',`TCP $h {port}')dnl
"""
TAIL = """MAILER(`local')dnl
MAILER(`smtp')dnl
"""


def find_root(required=True):
    """Before the namespaces, while there is a network: unpacks Sendmail once."""
    done = subprocess.run([TESTS / "sendmail-root"], text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE)
    if done.returncode == 0:
        os.environ["POSTERN_SENDMAIL_ROOT"] = done.stdout.strip()
        return
    print(f"{'skipped' if required else 'left out'}: no Sendmail: {done.stderr.strip()}")
    if required:
        sys.exit(SKIP)


def have_root():
    return "POSTERN_SENDMAIL_ROOT" in os.environ


class Sendmail:
    """An instance in PLACE/NAME; `milter`, `connect`, `socketmap`: paths of Postern's
    sockets for sessions (by both) and mail that leaves, or None; `driven`: Postern runs
    its queue; `change`: (old, new) in the lines of conf/; `outbound`: the port that mail
    leaves for; `before`, `after`: the site's own lines around ours."""

    def __init__(self, test, port, milter=None, name="sendmail", change=("", ""),
                 socketmap=None, connect=None, outbound=None, before="", after="", driven=False,
                 accounts=None):
        test.need("m4")
        self.test, self.port = test, port
        self.unpacked = Path(os.environ["POSTERN_SENDMAIL_ROOT"])
        self.name = name
        self.root = test.directory / name
        for directory in ("etc", "queue"):
            (self.root / directory).mkdir(parents=True)
        (self.root / "etc/aliases").touch()
        if driven:
            self.split_queue()
        text = HEAD.format(root=self.root, port=port) + before
        if outbound is not None:
            text += OUTBOUND.format(port=outbound)
        for file, path, shipped in (
                ("sendmail-postern.mc", milter, "/run/postern/milter"),
                ("sendmail-accounts.mc", accounts, "/run/postern/accounts"),
                ("sendmail-connect.mc", connect, "/run/postern/map"),
                ("sendmail-outbound.mc", socketmap, "/run/postern/map"),
                ("sendmail-queue.mc", socketmap if driven else None, "/run/postern/map")):
            if path is not None:
                ours = (SOURCE / "conf" / file).read_text()
                assert shipped in ours
                text += ours.replace(*change).replace(shipped, str(path)).replace(
                    "/var/spool/mqueue", str(self.root / "queue"))
        mc = self.root / "etc/sendmail.mc"
        mc.write_text(text + after + TAIL)
        macros = self.unpacked / "usr/share/sendmail/cf"
        self.cf = self.root / "etc/sendmail.cf"
        self.cf.write_text(test.run(
            ["m4", f"-D_CF_DIR_={macros}/", macros / "m4/cf.m4", mc], cwd=macros / "cf"))
        self.library = next((self.unpacked / "usr/lib").glob("*-linux-gnu"))
        self.binary = self.unpacked / "usr/libexec/sendmail/sendmail"
        self.process = None

    def split_queue(self, count=8):
        """As conf/sendmail-queue.mc says."""
        for name in [*(f"q{number}" for number in range(count)),
                     *(f"d{number:02}" for number in range(1, 41)), "local"]:
            (self.root / f"queue/{name}").mkdir(mode=0o700)

    def program(self):
        """A file to execute it by, for those who know nothing of where its libraries are."""
        file = self.root / "program"
        file.write_text(f"#!/bin/sh\nLD_LIBRARY_PATH={self.library} exec {self.binary} \"$@\"\n")
        file.chmod(0o755)
        return file

    def spawn(self, *words):
        return self.test.spawn(         # by its full path, to be executed anew at SIGHUP
            [self.binary, "-C", self.cf, *words], self.name,
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LD_LIBRARY_PATH": str(self.library)})

    def start(self, *words):
        self.process = self.spawn("-bD", *words)
        self.test.wait_for(lambda: listening(self.port), "Sendmail listens")

    def run(self, program, *words):
        """One of its commands as an administrator types it, to its end."""
        assert program in ("sendmail", "mailq")
        return self.test.run([self.program(), "-C", self.cf, *words])

    def queue_run(self):
        """A process that delivers what is queued, as far as it is let."""
        return self.spawn("-qf")

    def set_option(self, name, value):
        text, count = re.subn(rf"(?m)^#?O {re.escape(name)}=.*$", f"O {name}={value}",
                              self.cf.read_text())
        assert count == 1
        self.cf.write_text(text)

    def queued(self):
        return len(self.queue_files())

    def queue_files(self):
        return [file for file in (self.root / "queue").glob("**/qf*") if file.is_file()]

    def queue_text(self):
        """Why recipients wait: what mailq shows, and more."""
        texts = []
        for file in self.queue_files():
            try:
                texts.append(file.read_text(errors="replace"))
            except FileNotFoundError:           # delivered meanwhile
                pass
        return "".join(texts)
