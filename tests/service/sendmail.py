#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""A real Sendmail whose queue Postern drives, under a real systemd, as README's "Sendmail's
queue" has it: users' .forward to files below /home and in /tmp, to programs, to one that is
set-group-ID, to procmail.  No mail bounces: not with the unit as it is shipped (which drives
nothing then, and says so), not with its drop-in, not with what an admin adds to that."""
import grp
import json
import os
import pwd
import re
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "mta"))
os.environ["POSTERN_SENDMAIL_ROOT"] = "/"
from lib import own_machine
from lib.postfix import listening
from lib.sendmail import Sendmail
from lib.smtp import Session
from lib.testing import Failed, loopback_up

CONF = Path("/etc/postern/postern.conf")
EXAMPLES = Path("/usr/local/share/doc/postern/examples")
DROP_INS = Path("/etc/systemd/system/posternd.service.d")
PROCMAIL = Path("/usr/bin/procmail")
SETTINGS = """version = 1;
listen = {{ socketmap = [ "unix:/run/postern/map" ]; control = "unix:/run/postern/control"; }};
mta = ( {{ name = "out"; kind = "sendmail"; user = "root"; log = "/var/log/mail.log"; {drive}
  queue = [ "{root}/queue/q*", "{root}/queue/d*" ]; local_queue = "{root}/queue/local";
  cf = "{root}/etc/sendmail.cf";
  sendmail = "/usr/libexec/sendmail/sendmail"; }} );
classes = ( {{ name = "all"; match = [ "*" ]; hold_at = 100; refuse_at = 100; }} );
"""
SERVICE = """[Service]
ExecStart=/usr/libexec/sendmail/sendmail -C {root}/etc/sendmail.cf -bD -q30m
"""
# Mail of those without .forward, and what comes back to its sender.
MDA = """#!/bin/sh
for user; do :; done
cat >>"/var/mail/$user"
"""
LOCAL = """FEATURE(`local_procmail',`{root}/mda',`mda $u')dnl
"""
# What a unit may have besides, and what is said of it then.
TIGHTER = {
    "ProtectHome=read-only": "read-only /home",
    "PrivateTmp=yes": "other /tmp",
    "NoNewPrivileges=yes": "no new privileges",
    "RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK": "fewer system calls",
    "CapabilityBoundingSet=~CAP_FSETID": "fewer capabilities",
    "LimitFSIZE=1M": "lower resource limits",
}


def ask(*words):
    done = subprocess.run(["/usr/local/bin/posternctl", "--json", *words], text=True,
                          capture_output=True, timeout=30)
    return json.loads(done.stdout)


def add_user(name, forward, **more):
    home = Path("/home", name)
    subprocess.run(["useradd", "-M", "-d", home, "-s", "/bin/sh", name], check=True)
    home.mkdir()
    for file, text in {".forward": forward, **more}.items():
        if text is not None:
            (home / file).write_text(text)
            (home / file).chmod(0o644)
    user = pwd.getpwnam(name)
    for path in (home, *home.iterdir()):
        os.chown(path, user.pw_uid, user.pw_gid)


class World:
    def __init__(self, test):
        self.test = test
        Path("/etc/hosts").write_text(
            f"127.0.0.1 localhost\n127.0.1.1 mta.example.com {os.uname().nodename}\n")
        Path("/var/log/mail.log").touch()
        Path("/var/mail").chmod(0o1777)
        root = test.directory / "sendmail"
        self.sendmail = Sendmail(test, 25, socketmap="/run/postern/map", driven=True,
                                 before=LOCAL.format(root=root))
        (root / "mda").write_text(MDA)
        (root / "mda").chmod(0o755)
        (root / "etc/aliases").write_text("postmaster: /var/mail/postmaster\n")
        self.inboxes = self.users()
        Path("/etc/systemd/system/sendmail.service").write_text(SERVICE.format(root=root))
        self.drive("")
        test.run(["systemctl", "daemon-reload"])
        test.run(["systemctl", "enable", "--now", "posternd"])
        test.run(["systemctl", "start", "sendmail"])
        test.wait_for(lambda: listening(25), "Sendmail listens")

    def users(self):
        """name -> where their mail is to come."""
        add_user("boss", None)
        add_user("ann", "/home/ann/inbox\n")
        add_user("bob", '"|/usr/bin/tee -a /home/bob/inbox"\n')
        add_user("cid", "/tmp/cid-inbox\n")
        add_user("dan", None)
        add_user("eve", '"|/usr/local/bin/post /var/shared/eve"\n')
        shared = Path("/var/shared")
        shared.mkdir()
        os.chown(shared, 0, grp.getgrnam("mail").gr_gid)
        shared.chmod(0o770)
        post = Path("/usr/local/bin/post")
        shutil.copy("/usr/bin/tee", post)
        os.chown(post, 0, grp.getgrnam("mail").gr_gid)
        post.chmod(0o2755)
        found = {name: Path(path) for name, path in (
            ("ann", "/home/ann/inbox"), ("bob", "/home/bob/inbox"), ("cid", "/tmp/cid-inbox"),
            ("dan", "/var/mail/dan"), ("eve", "/var/shared/eve"))}
        if PROCMAIL.exists():
            add_user("fay", f'"|{PROCMAIL}"\n', **{
                ".procmailrc": "DEFAULT=$HOME/inbox\nLOCKFILE=/tmp/fay.lock\n"})
            found["fay"] = Path("/home/fay/inbox")
        else:
            print("left out: procmail is not here")
        return found

    def drive(self, text):
        CONF.write_text(SETTINGS.format(drive=text, root=self.sendmail.root))

    def submit(self, word):
        session = Session(("127.0.0.1", 25))
        session.command("EHLO client.example.org")
        for name in self.inboxes:
            for line in ("MAIL FROM:<boss@mta.example.com>", f"RCPT TO:<{name}@mta.example.com>",
                         "DATA", f"Subject: {word}\r\n\r\n{word} for {name}\r\n."):
                code = session.command(line)
                if code[0] not in (250, 354):
                    raise Failed(f"Sendmail takes mail: {line}: {code}")
        session.quit()

    def missing(self, word):
        return [name for name, inbox in self.inboxes.items()
                if not inbox.exists() or f"{word} for {name}" not in inbox.read_text()]

    def arrives(self, word, text):
        took = self.test.poll(lambda: not self.missing(word) and self.sendmail.queued() == 0, 20)
        self.test.check(took is not None, f"{text}: mail of {', '.join(self.inboxes)} arrives "
                        f"(missing: {self.missing(word)}, queued: {self.sendmail.queued()})")
        bounces = [path for path in (Path("/var/mail/boss"), Path("/var/mail/postmaster"))
                   if path.exists()]
        self.test.equal([path.read_text()[-2000:] for path in bounces], [], f"{text}: nothing bounces")

    def restart(self):
        self.test.run(["systemctl", "daemon-reload"])
        self.test.run(["systemctl", "restart", "posternd"])


def journal(test):
    return test.run(["journalctl", "-u", "posternd", "-o", "cat", "--no-pager"])


def as_shipped(test, world):
    """The steps of README, and no drop-in."""
    world.drive("drive = true;")
    said = [note["text"] for note in ask("check") if "posternd-sendmail.conf" in note["text"]]
    test.equal(len(said), 1, f"check says that the unit is in the way: {said}")
    said = ask("reload")
    test.check(any("posternd-sendmail.conf" in note["text"] for note in said["messages"]),
               "and reload says so")
    world.restart()
    world.submit("shipped")
    status = ask("status")
    test.equal(status["queue"], "refused", "status: the queue is not driven")
    test.check("read-only /home" in status["confined"] and
               "posternd-sendmail.conf" in status["mtas"][0]["note"],
               f"status says why ({status['confined']}), and the remedy")
    test.check("setting=mta[].drive" in journal(test), "and the log")
    done = subprocess.run(["/usr/local/bin/posternctl", "sendmail", "queue"], text=True, capture_output=True,
                          timeout=20)
    test.check(done.returncode != 0 and "not managed" in done.stderr, "posternctl sendmail queue says so")
    test.check(len(world.missing("shipped")) == len(world.inboxes), "nothing is run")
    test.run(["/usr/libexec/sendmail/sendmail", "-C", world.sendmail.cf, "-q"])
    world.arrives("shipped", "as shipped, by Sendmail's own queue run")


def with_drop_in(test, world):
    DROP_INS.mkdir()
    shutil.copy(EXAMPLES / "posternd-sendmail.conf", DROP_INS)
    world.restart()
    test.wait_for(lambda: ask("status")["queue"] == "driven", "with its drop-in it is driven", 20)
    test.equal(ask("status")["confined"], None, "posternd-sendmail.conf: nothing is in the way")
    world.submit("driven")
    world.arrives("driven", "driven")
    for inbox in world.inboxes.values():
        test.check(re.search(r"(?m)^Subject: driven", inbox.read_text()), f"{inbox} has it")


def tighter(test, world):
    """What an admin adds goes before what we ship."""
    for text, wanted in TIGHTER.items():
        (DROP_INS / "zz.conf").write_text(f"[Service]\n{text}\n")
        world.restart()
        status = ask("status")
        test.check(status["queue"] == "refused" and wanted in (status["confined"] or ""),
                   f"{' '.join(text.split())}: {status['queue']}, {status['confined']}")
    (DROP_INS / "zz.conf").unlink()
    world.restart()
    world.submit("again")
    world.arrives("again", "without that")


def body(test):
    loopback_up([])
    world = World(test)
    as_shipped(test, world)
    with_drop_in(test, world)
    tighter(test, world)


own_machine.main("sendmail", body, 100, "journalctl --no-pager -n 80 -t sendmail -t posternd; "
                 "systemctl status --no-pager posternd sendmail")
