#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""conf/ as it is shipped, unchanged: /etc/postern, /run/postern, port 25, Debian's
places.  It hurts nobody, and says what it would have done."""
import os
import pwd
import shutil
import stat
import sys
from pathlib import Path

from lib.postern import Postern
from lib.postfix import Postfix
from lib.scenario import leave_all
from lib.sendmail import Sendmail, find_root, have_root
from lib.smtp import Session, admitted, open_sessions
from lib.testing import SOURCE, Skipped, main, mount

# More than the shipped class may hold, fewer than Postfix has processes (100).
CLIENTS = [f"198.51.100.{number}" for number in range(1, 5)]
CLIENTS6 = ["2001:db8:1::25", "2001:db8:2::25"]
EACH = 21


class AsShipped(Postern):
    """The file of conf/ in its place."""

    def configure(self, classes, edit=None):
        self.file = Path("/etc/postern/postern.conf")
        shutil.copy(SOURCE / "conf/postern.conf", self.file)


def own_places(test):
    """/etc, /var/lib and /var/spool/postfix are ours in this mount namespace."""
    etc = test.directory / "etc"
    test.run(["cp", "-a", "/etc", etc])
    (etc / "postern").mkdir(exist_ok=True)
    mount("--bind", etc, "/etc")
    mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", "/var/lib")
    spool = Path("/var/spool/postfix")
    if not spool.is_dir():
        raise Skipped("postfix is not installed")
    mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", spool)
    return spool


def with_postfix(test, postern, postfix, way):
    postfix.serve([(SOURCE / f"conf/postfix-{way}.master.cf").read_text()])
    postfix.start(25)
    observed = postern.classes()["everyone"]["observed"]
    sessions = open_sessions(("198.51.100.1", 25), CLIENTS * EACH)
    sessions += open_sessions(("2001:db8:1::25", 25), CLIENTS6 * 2)
    codes = sorted({session.code for session in sessions})
    test.equal(codes, [220], f"{way}: {len(sessions)} clients are all let in")
    test.equal(total(postern), len(sessions), f"{way}: all are counted")
    everyone = postern.classes()["everyone"]
    test.check(everyone["observed"] > observed, f"{way}: {everyone['observed'] - observed} of "
               f"them would have been refused (refuse_at {everyone['refuse_at']})")
    test.equal([session.send()[0] for session in sessions[:3]], [250] * 3,
               f"{way}: their mail is taken")
    leave_all(sessions)
    test.within(1.0, lambda: total(postern) == 0, f"{way}: 0 after they have left")
    exempt = Session(("127.0.0.1", 25), "127.0.0.1")
    test.equal((exempt.code, total(postern)), (220, 0), f"{way}: this machine itself is exempt")
    exempt.quit()
    postfix.stop()


AS_USER = """
import os, socket, sys
os.setgroups([]); os.setgid(int(sys.argv[1])); os.setuid(int(sys.argv[2]))
for path in sys.argv[3:]:
    try:
        socket.socket(socket.AF_UNIX).connect(path)
        print("connected", path)
    except OSError as problem:
        print(problem.strerror, path)
"""


def a_local_user_opens_no_sessions(test, postern, spool):
    """Whoever connects to these sockets is believed: the mail server alone does."""
    user = pwd.getpwnam("nobody")
    paths = [spool / "private/postern", spool / "private/postern-milter",
             "/run/postern/milter", "/run/postern/map"]
    said = test.run([sys.executable, "-c", AS_USER, user.pw_gid, user.pw_uid, *paths])
    test.equal(said.splitlines(), [f"Permission denied {path}" for path in paths],
               "a local user who is not the mail server can connect to none of its sockets")
    postfix = pwd.getpwnam("postfix")
    said = test.run([sys.executable, "-c", AS_USER, postfix.pw_gid, postfix.pw_uid, *paths[:3]])
    test.equal(said.splitlines(), [f"connected {path}" for path in paths[:3]],
               "Postfix's user can, where it asks")


def open_to_all(test, postern):
    """A mode that lets everybody in is noted with its line, behind a closed directory not."""
    text = postern.file.read_text()
    for group, noted in (('/run/postern/milter"; mode = "0666"', True),
                         ('/run/postern/milter"; mode = "0660"', False),
                         ('/var/spool/postfix/private/postern-other"; mode = "0666"', False)):
        file = test.directory / "open.conf"
        file.write_text(text.replace('"unix:/run/postern/milter" ]', '"unix:/run/one" ]', 1)
                        .replace("milter = [", "milter = (", 1)
                        .replace('"unix:/run/one" ]', f'{{ address = "unix:{group}; }} )', 1))
        line = 1 + file.read_text()[:file.read_text().index(group)].count("\n")
        done = test.run([postern.build / "posternctl", "-c", file, "check"])
        test.equal(f"open.conf:{line}: note: listen.milter: every user" in done, noted,
                   f"check of {group}: {'noted, with its line' if noted else 'no note'}")


def with_sendmail(test, postern):
    sessions = open_sessions(("198.51.100.1", 25), CLIENTS * 5)
    test.equal(len(admitted(sessions)), len(sessions), "Sendmail: all are let in")
    test.equal(total(postern), len(sessions), "Sendmail: and counted")
    leave_all(sessions)
    test.within(1.0, lambda: total(postern) == 0, "Sendmail: 0 after they have left")


def without_postfix(test, postern):
    """A host that never had one: no queue directory, no user, no group."""
    postern.stop()
    mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", "/var/spool")
    for file in (Path("/etc/passwd"), Path("/etc/group")):
        file.write_text("".join(line for line in file.read_text().splitlines(True)
                                if not line.startswith("postfix:")))
    postern.start()
    found, user = os.stat("/run/postern/milter"), pwd.getpwnam("postern")
    test.equal((stat.S_IMODE(found.st_mode), found.st_uid, found.st_gid),
               (0o660, 0, user.pw_gid), "without Postfix the milter socket is of our own group")
    user = pwd.getpwnam("nobody")
    said = test.run([sys.executable, "-c", AS_USER, user.pw_gid, user.pw_uid,
                     "/run/postern/milter"])
    test.equal(said, "Permission denied /run/postern/milter\n", "... and nobody else's")


def total(postern):
    return sum(row["open"] for row in postern.classes().values())


def body(test):
    spool = own_places(test)
    postfix = Postfix(test, [], spool=spool)
    postern = AsShipped(test, spool=spool)
    done = postern.command("check", json_output=False)
    test.equal(done.returncode, 0, "posternctl check of the shipped file")
    test.run([postern.build / "posternd", "-t", "-c", postern.file])
    test.check(True, "posternd -t of the shipped file")
    postern.start()
    status = postern.status()
    test.equal((status["observe"], status["outbound_observe"]), (True, True),
               "status says that everything is in observe mode")
    a_local_user_opens_no_sessions(test, postern, spool)
    open_to_all(test, postern)
    for way in ("policy", "milter", "both"):
        with_postfix(test, postern, postfix, way)
    if have_root():
        Sendmail(test, 25, "/run/postern/milter").start()
        with_sendmail(test, postern)
    without_postfix(test, postern)
    if have_root():
        with_sendmail(test, postern)
    test.run(["umount", "/var/spool"])          # what ends Postfix looks there


main(body, addresses=CLIENTS + CLIENTS6, before=lambda: find_root(required=False))
