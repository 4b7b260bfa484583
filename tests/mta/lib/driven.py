# SPDX-License-Identifier: ISC
"""A Sendmail whose queue Postern runs, as conf/ attaches it, or one as it is; and far
sites that keep a record of what they took."""
import os
import socket
import time

from lib import dns
from lib.far import Sites
from lib.leaving import leaving, outbound_class
from lib.postern import Postern, substitute
from lib.sendmail import Sendmail
from lib.smtp import Session
from lib.testing import Failed, alive

PORT, OUT = 2025, 2026
CLASSES = [outbound_class("all", '"*"', 1000)]
# A delivery agent for local mail: one file for each user.
LOCAL = """FEATURE(`local_procmail',`{root}/mda',`mda $u')dnl
"""
MDA = """#!/bin/sh
for user; do :; done
echo "$user" >>{root}/local
cat >/dev/null
"""
# As an admin would have it who wants `processes` of them: the queue as conf/ splits it.
STOCK = """define(`QUEUE_DIR',`{root}/queue/q*')dnl
define(`confMAX_QUEUE_CHILDREN',`{processes}')dnl
QUEUE_GROUP(`mqueue',`F=f, r=40, R={processes}')dnl
"""


def hosts(count, zone="far.example", first="198.51.100."):
    """address -> name, for so many far sites."""
    return {f"{first}{n + 1}": f"h{n}.{zone}" for n in range(count)}


def parent(pid):
    with open(f"/proc/{pid}/stat") as stat:
        return int(stat.read().rpartition(")")[2].split()[1])


class Driven:
    """All of it, running.  `addresses`: of the far sites; `processes`: that deliver at a
    time; `mta`: settings of this mail server; `settings`: others of Postern; `stock`: no
    Postern and none of its lines; `interval`: of the safety net, or of stock's queue
    runs; `start`: Postern, too."""

    def __init__(self, test, addresses, processes=4, mta="", settings="", stock=False,
                 interval=None, classes=(), delay=0.0, aliases="", start=True):
        self.test, self.interval = test, interval
        dns.serve({})
        self.far = Sites(test, list(addresses), OUT)
        self.far.tell(delay=delay)
        self.postern = None
        root = test.directory / "sendmail"
        before = LOCAL.format(root=root)
        if stock:
            self.sendmail = Sendmail(test, PORT, outbound=OUT, before=before + STOCK.format(
                root=root, processes=processes))
            self.sendmail.split_queue()
        else:
            run = f"{test.directory}/postern"
            change = ("I=30m", f"I={interval}") if interval else ("", "")
            self.sendmail = Sendmail(test, PORT, socketmap=f"{run}/map", outbound=OUT,
                                     before=before, driven=True, change=change)
            drive = (f'drive = true; queue = [ "{root}/queue/q*", "{root}/queue/d*" ]; '
                     f'local_queue = "{root}/queue/local"; cf = "{self.sendmail.cf}"; '
                     f'sendmail = "{self.sendmail.program()}"; processes = {processes}; {mta}')
            drives = leaving(classes or CLASSES, settings, mta=drive)
            self.postern = Postern(test, edit=lambda text: substitute(
                drives(text), r"^listen = \{", f'listen = {{ queue = "unix:{run}/queue";'))
            self.postern.kinds = self.postern.kinds | {"queue", "feed"}
        (root / "mda").write_text(MDA.format(root=root))
        (root / "mda").chmod(0o755)
        (root / "local").touch()
        (root / "local").chmod(0o666)           # local mail is delivered as its user
        (root / "etc/aliases").write_text(aliases)
        if self.postern is not None and start:
            self.postern.start()
        self.start_sendmail()

    def start_sendmail(self):
        self.sendmail.start(*([f"-q{self.interval}"] if self.interval else []))

    def submit(self, *recipients, sender="a@example.org"):
        """One message for them all; when it was accepted (time.monotonic())."""
        session = Session(("127.0.0.1", PORT))
        session.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        code = session.send(recipients, sender)
        accepted = time.monotonic()
        if code[0] != 250:
            self.test.check(False, f"Sendmail takes mail: {code}")
        session.quit()
        return accepted

    def submit_each(self, recipients):
        """A message for each, in one session."""
        session = Session(("127.0.0.1", PORT))
        session.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        session.command("EHLO client.example.org")
        for recipient in recipients:
            for line in ("MAIL FROM:<a@example.org>", f"RCPT TO:<{recipient}>", "DATA",
                         "Subject: test\r\n\r\ntest\r\n."):
                code = session.command(line)
                if code[0] not in (250, 354):
                    raise Failed(f"Sendmail takes mail: {line}: {code}")
        session.quit()

    def fill(self, count, names):
        """So many queue files as Sendmail writes them, of one that it wrote: for m0, m1 ... at
        one of `names` each.  Their recipients."""
        self.submit("pattern@" + names[0])
        pattern = self.sendmail.queue_files()[0]
        text = pattern.read_bytes()
        name = pattern.name[2:]
        body = (pattern.parent / f"df{name}").read_bytes()
        places = sorted((self.sendmail.root / "queue").glob("q*"))
        recipients = [f"m{n}@{names[n * 13 % len(names)]}" for n in range(count)]
        for n, recipient in enumerate(recipients):
            new = f"{name[:8]}{500000 + n:06d}"
            place = places[n % len(places)]
            changed = text.replace(name.encode(), new.encode()).replace(
                b"pattern@" + names[0].encode(), recipient.encode())
            (place / f"df{new}").write_bytes(body)
            (place / f"qf{new}").write_bytes(changed)
        for kind in "qd":
            (pattern.parent / f"{kind}f{name}").unlink()
        return recipients

    def wait_delivered(self, count, limit=20.0):
        """So many recipients, since far.forget(); seconds, or None."""
        took = self.test.poll(lambda: self.far.count() >= count, limit)
        if took is None:
            self.test.check(False, f"{self.far.count()} of {count} recipients after {limit:g} s")
        return took

    def none_queued(self, limit=5.0):
        self.test.within(limit, lambda: self.sendmail.queued() == 0, "the queue is empty")

    def each_once(self, recipients, text):
        """By the record of the far sites."""
        got = self.far.delivered()
        wrong = {who: got[who] for who in set(recipients) | set(got)
                 if got[who] != 1 or who not in set(recipients)}
        self.test.equal(wrong, {}, text)

    def local(self):
        """Who got local mail, in order."""
        return (self.sendmail.root / "local").read_text().split()

    def most(self):
        """name of a far address -> connections at one time."""
        return {address: row["most"] for address, row in self.far.state().items()}

    def syslog(self):
        return self.test.syslog()

    def runs(self):
        """pids of the processes that run the queue now, whoever started them."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                if os.readlink(f"/proc/{pid}/exe") == str(self.sendmail.binary):
                    found.append((int(pid), parent(pid)))
            except OSError:
                continue
        daemon = self.sendmail.process.pid
        return [pid for pid, above in found if daemon not in (pid, above) and alive(pid)]
