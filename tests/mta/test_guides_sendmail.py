#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""Somebody who has Sendmail does what contrib/guides/limits-on-sendmail.md says, command
by command, and reads what it shows."""
import shutil
from pathlib import Path

from lib import dns
from lib.document import Reader
from lib.machine import HERE, Machine
from lib.postfix import listening
from lib.sendmail import Sendmail, find_root
from lib.smtp import open_sessions
from lib.testing import SOURCE, main, mount

CLIENTS = {"203.0.113.9": "mail.customer.example"}
# As Debian's begins.
INCLUDE = """define(`_CF_DIR_', `{macros}/')dnl
include(`{macros}/m4/cf.m4')dnl
"""


class World(Machine):
    def __init__(self, test):
        super().__init__(test)
        dns.serve({})
        self.sessions = []
        sendmail = Sendmail(test, 25)
        mc, cf = (sendmail.root / "etc" / name for name in ("sendmail.mc", "sendmail.cf"))
        mc.write_text(INCLUDE.format(macros=sendmail.unpacked / "usr/share/sendmail/cf")
                      + mc.read_text())
        cf.write_text(test.run(["m4", mc]))
        shutil.copy(sendmail.program(), "/usr/local/sbin/sendmail")
        Path("/etc/mail").mkdir(exist_ok=True)
        mount("--bind", cf.parent, "/etc/mail")
        self.sendmail = sendmail
        self.begin()
        test.check("left out" not in (test.logs / "posternd").read_text(),
                   "on a machine without Postfix the log has nothing of its sockets")
        sendmail.start()

    def served(self, *codes):
        """Three clients; Sendmail may be reading its configuration, and the limits."""
        def come():
            for session in self.sessions:
                session.quit()
            self.sessions = open_sessions((HERE, 25), ["203.0.113.9"] * 3) \
                if listening(25) else []
            return tuple(session.code for session in self.sessions) == codes and \
                sum(row["open"] for row in self.asked("classes")) == codes.count(220)
        self.test.wait_for(come, f"three clients read {codes}")
        self.test.check(all("Too many sessions" in session.text and "(id=" in session.text
                            for session in self.sessions if session.code == 421),
                        f"three clients read {codes}, with text and ID")

    def leave(self):
        for session in self.sessions:
            session.quit()


def body(test):
    world = World(test)
    steps = iter((lambda: world.served(220, 220, 220), lambda: world.served(220, 220, 421)))
    Reader(test, before=((r"posternctl classes", lambda: next(steps)()),
                         (r"postern-sendmail-setup undo", world.leave))).follow(
        SOURCE / "contrib/guides/limits-on-sendmail.md")


main(body, hosts=CLIENTS, addresses=[HERE, *CLIENTS], before=find_root)
