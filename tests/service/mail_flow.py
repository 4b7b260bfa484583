# SPDX-License-Identifier: ISC
"""Mail that never stops, to every kind of recipient that a machine has, and what becomes of
each: for guides.py."""
import os
import pwd
import subprocess
import threading
import time
from pathlib import Path

from lib.smtp import Session
from lib.testing import Failed

TAKE = """#!/bin/sh
umask 022
file=$(mktemp "$HOME/taken/XXXXXXXX") && exec cat >"$file"
"""
PROCMAIL = """MAILDIR=$HOME
DEFAULT=$HOME/box
SHELL=/bin/sh
:0 c
| $HOME/take
"""
# .forward of each
USERS = {"alice": "/home/alice/Mail/inbox\n", "bob": '"|/home/bob/take"\n',
         "carol": '"|/usr/bin/procmail"\n', "dave": None, "erin": "erin@d.example\n"}
CLIENT_QUEUE = Path("/var/spool/mqueue-client")
KINDS = 2 * len(USERS) + 2
SOON = 90.0         # seconds in which a mail comes, late or not


def users(test):
    """They have homes, and what an admin's users have in them."""
    Path("/etc/procmailrc").write_text("LOCKSLEEP=1\n")     # not 8 s
    for name, forward in USERS.items():
        test.run(["useradd", "--create-home", "--shell", "/bin/sh", name])
        home = Path("/home", name)
        home.chmod(0o755)
        (home / "Mail").mkdir()
        (home / "Mail/inbox").touch(0o600)
        (home / "taken").mkdir()
        (home / "take").write_text(TAKE.replace("$HOME", str(home)))
        (home / "take").chmod(0o755)
        for file, text in ((".forward", forward),
                           (".procmailrc", PROCMAIL if name == "carol" else None)):
            if text:
                (home / file).write_text(text)
                (home / file).chmod(0o644)
        owner = pwd.getpwnam(name)
        for top, directories, files in os.walk(home):
            for file in [top, *(os.path.join(top, one) for one in directories + files)]:
                os.chown(file, owner.pw_uid, owner.pw_gid)


def text_of(*places):
    return "".join(file.read_text(errors="replace") for place in places
                   for file in ([place] if place.is_file() else sorted(place.glob("*")))
                   if file.is_file())


class Flow:
    """One mail after the other.  `sinks`: a Limiter, where mail for other machines ends."""

    def __init__(self, test, server, client, sinks):
        self.test, self.server, self.client, self.sinks = test, server, client, sinks
        self.number, self.judged, self.bad = 0, 0, []
        self.sent = {}              # number -> (recipient, when it was taken)
        self.found = {}             # number -> seconds
        self.lock, self.may = threading.Lock(), threading.Event()
        self.busy, self.over = threading.Lock(), threading.Event()
        self.threads = [threading.Thread(target=call, daemon=True) for call in (self.send, self.look)]

    def begin(self):
        self.may.set()
        for thread in self.threads:
            thread.start()

    def pause(self):
        """When it returns, no mail is on its way to the mail server, and all have come."""
        self.may.clear()
        with self.busy:
            pass
        self.settle()

    def go_on(self):
        self.may.set()

    def end(self):
        self.pause()
        self.over.set()

    # --- from whom to whom ------------------------------------------------------------

    def kinds(self):
        while True:
            for name in USERS:
                yield self.from_outside, f"{name}@mta.example.com"
                yield self.from_inside, name
            for domain in ("d.example", "e.example"):
                yield self.from_inside, f"u{{}}@{domain}"

    def send(self):
        for call, recipient in self.kinds():
            self.may.wait()
            if self.over.is_set():
                return
            with self.busy:
                if not self.may.is_set():
                    continue
                self.number += 1
                recipient = recipient.format(self.number)
                try:
                    why = call(recipient, f"Subject: id {self.number}.\n\ntest\n")
                except (OSError, subprocess.SubprocessError) as error:
                    why = str(error)
                if why:
                    self.bad.append(f"{recipient}: {why}")
                    continue
                with self.lock:
                    self.sent[self.number] = (recipient, time.monotonic())
            self.over.wait(0.2)

    def from_outside(self, recipient, text):
        """A mail server comes again where nobody listens (a reload); a reply that is no
        success is its own fault."""
        end = time.monotonic() + 20
        while True:
            session = Session(self.server, self.client)
            if session.code or time.monotonic() > end:
                break
            time.sleep(0.2)     # LINT-SLEEP: between two visits
        code, said = session.code, session.text
        if code == 220:
            code, said = session.data([recipient], "writer@e.example")
            if code == 354:
                code, said = session.command(text.replace("\n", "\r\n") + ".")
        session.quit()
        return None if code == 250 else f"{code} {said}"

    def from_inside(self, recipient, text):
        done = subprocess.run(["runuser", "-u", "dave", "--", "/usr/sbin/sendmail", "-i", recipient],
                              input=text, text=True, capture_output=True, timeout=60)
        return None if done.returncode == 0 else f"exit code {done.returncode}: {done.stderr}"

    # --- what became of it --------------------------------------------------------------

    def boxes(self):
        """name -> [text], all of which must have it."""
        home = Path("/home")
        return {"alice": [text_of(home / "alice/Mail/inbox")], "bob": [text_of(home / "bob/taken")],
                "carol": [text_of(home / "carol/taken"), text_of(home / "carol/box")],
                "dave": [text_of(Path("/var/mail/dave"))]}

    def counts(self):
        """number -> how many times it has come; mail for erin goes elsewhere by its count."""
        boxes, counts = self.boxes(), {}
        with self.sinks.lock:
            far = [name for name, _ in self.sinks.delivered]
        with self.lock:
            sent = dict(self.sent)
        erin = far.count("erin@d.example")
        for number, (recipient, _) in sorted(sent.items()):
            name = recipient.split("@")[0]
            if name in boxes:
                found = [text.count(f"Subject: id {number}.\n") for text in boxes[name]]
                counts[number] = found[0] if len(set(found)) == 1 else min(found)
            elif name == "erin":
                counts[number] = min(erin, 1)
                erin -= 1 if erin else 0
            else:
                counts[number] = far.count(recipient)
        if erin:
            counts[-1] = 2          # more came than went
        return counts

    def look(self):
        while not self.over.wait(0.2):
            now, counts = time.monotonic(), self.counts()
            with self.lock:
                for number, count in counts.items():
                    if count and number in self.sent:
                        self.found.setdefault(number, now - self.sent[number][1])

    def all_found(self):
        with self.lock:
            return set(self.sent) == set(self.found)

    def settle(self):
        # What is written here while Sendmail reads its configuration waits for cron, 20 minutes.
        if CLIENT_QUEUE.is_dir() and any(CLIENT_QUEUE.glob("qf*")):
            self.test.run(["sendmail", "-Ac", "-q"])
        if self.test.poll(self.all_found, SOON) is None:
            with self.lock:
                missing = [self.sent[number][0] for number in sorted(set(self.sent) - set(self.found))]
            raise Failed(f"not delivered in {SOON:g} s: {', '.join(missing)}")

    def stretch(self, name, limit):
        """A round of all kinds, and how long the slowest mail since the last stretch took."""
        self.go_on()
        enough = self.number + KINDS
        self.test.wait_for(lambda: self.number >= enough, f"{name}: mail is taken", SOON)
        self.pause()
        with self.lock:
            took = {number: self.found[number] for number in self.found if number > self.judged}
            self.judged = self.number
        number, slowest = max(took.items(), key=lambda one: one[1])
        self.test.check(limit is None or slowest <= limit, f"{name}: {len(took)} mails are "
                        f"delivered, the slowest after {slowest:.1f} s ({self.sent[number][0]})")
        self.go_on()
        return slowest

    def judge(self):
        self.test.equal(self.bad[:3], [], f"every mail was taken, {len(self.sent)} of {self.number}")
        self.test.equal([f"{self.sent.get(number, ('erin', 0))[0]}: {count} times" for number, count in
                         self.counts().items() if count != 1], [], "each was delivered once")
        returned = text_of(Path("/var/mail"))
        self.test.check("MAILER-DAEMON" not in returned and "Undelivered" not in returned,
                        "none came back")
