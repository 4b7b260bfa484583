#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""Somebody who has Debian's own Postfix, or Sendmail, under systemd installs the package and
does what README and the guides say, word by word (tests/service/guides), while mail comes and
leaves: local users have it in mailboxes, in files and programs by .forward, in procmail and
elsewhere.  Every mail that was taken is delivered once, soon, and none comes back.

    guides.py postfix|sendmail"""
import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(HERE / "tests/mta"))
sys.path.insert(0, str(HERE / "tests/service"))
from lib import dns, own_machine
from lib.document import Reader
from lib.examples import readme
from lib.limiter import Limiter
from lib.smtp import open_sessions
from lib.testing import loopback_up
from mail_flow import Flow, users

SERVER, SENDER = "198.51.100.1", "198.51.100.2"
CLIENTS = {"203.0.113.9": "mail.customer.example", "198.51.100.7": "mail.partner.example"}
FAR = {"192.0.2.11": "d.example", "192.0.2.12": "e.example"}
GUIDES = HERE / "contrib/guides"
LATE = 5.0          # seconds more than without Postern
LEFT_OUT = (
    (r"apt-get install (?!/tmp)", "there is no network", None),
    (r".* /var/log/mail.log", "the log is in systemd's journal", None),
    (r"contrib/build-deb", "the package was built so", None),
    (r"posternctl top", "standard input and output must be a terminal", None),
)


class Postfix:
    """As an admin of Debian's sets it up, with names that need no DNS."""
    name, setup = "postfix", "postern-postfix-setup"
    guides = ("limits-on-postfix.md", "outbound-lanes.md")

    def prepare(self, test):
        test.run(["postconf", "-e", "mydestination=mta.example.com, localhost", "myhostname=mta.example.com",
                  "myorigin=mta.example.com", f"inet_interfaces={SERVER}, 127.0.0.1", "inet_protocols=ipv4", "relayhost=",
                  "smtp_host_lookup=native", "smtp_dns_support_level=disabled",
                  "mailbox_command=", "alias_maps=", "alias_database="])
        test.run(["systemctl", "restart", "postfix"])

    def waiting(self, test):
        return [line for line in test.run(["postqueue", "-j"]).splitlines() if line]


class Sendmail:
    """The same; Debian's listens on loopback alone, and has a client that writes to it wait."""
    name, setup = "sendmail", "postern-sendmail-setup"
    guides = ("limits-on-sendmail.md", "outbound-sendmail.md")

    def prepare(self, test):
        mc, access = Path("/etc/mail/sendmail.mc"), Path("/etc/mail/access")
        text, count = re.subn(r"^(DAEMON_OPTIONS\(.*Name=MTA)-v4(, Port=smtp, Addr=)127\.0\.0\.1",
                              rf"\g<0>')dnl\n\1-here\g<2>{SERVER}", mc.read_text(), flags=re.M)
        assert count == 1
        # what is elsewhere has addresses of this machine here
        mc.write_text(text.replace("MAILER_DEFINITIONS", "define(`confDONT_PROBE_INTERFACES', "
                                   "`True')dnl\nMAILER_DEFINITIONS"))
        access.write_text(access.read_text() + f"GreetPause:{SENDER}\t0\nClientRate:{SENDER}\t0\n"
                          "GreetPause:203.0.113\t0\nClientRate:203.0.113\t0\n")
        Path("/etc/mail/local-host-names").write_text("localhost\nmta.example.com\n")
        test.run(["sh", "-c", "yes '' | sendmailconfig"])
        test.run(["systemctl", "restart", "sendmail"])

    def waiting(self, test):
        return [str(file) for file in Path("/var/spool/mqueue").rglob("[qhQ]f*")]


class World:
    """What goes on at the machine until somebody types the next command."""

    def __init__(self, test, mta):
        self.test, self.mta, self.sessions, self.late = test, mta, [], None
        self.left = False
        self.sinks = Limiter(test, list(FAR), 25, seconds=0.02)
        self.flow = Flow(test, (SERVER, 25), SENDER, self.sinks)

    def come(self):
        self.leave()
        self.sessions = open_sessions((SERVER, 25), ["203.0.113.9"] * 3)

    def leave(self):
        for session in self.sessions:
            session.quit()
        self.sessions = []

    def limited(self):
        self.come()
        codes = sorted(session.code for session in self.sessions)
        self.test.equal(codes, [220, 220, 421], "limits in force: the third client reads 421")

    def learned(self):
        """Mail has gone there, and the log is read."""
        self.flow.stretch("attached", self.late)
        self.flow.pause()
        self.test.wait_for(lambda: "d.example" in self.test.run(["posternctl", "--json", "destinations"]),
                           "d.example is known")

    def confined(self):
        """Somebody leaves the drop-in out."""
        done = subprocess.run(["postern-sendmail-setup", "make", "--queue"], text=True,
                              capture_output=True)
        self.test.check(done.returncode == 69 and "[queue-service]" in done.stdout,
                        "without the drop-in no queue is made, and the reason is said")

    def leave_one(self):
        """Its site is down when the queue moves."""
        if self.left:
            return
        self.left = True
        self.sinks.down()
        self.test.equal(self.flow.from_inside("left@e.example", "Subject: left\n\ntest\n"), None,
                        "a mail for a site that is down is taken")
        self.test.wait_for(lambda: self.mta.waiting(self.test), "it waits")
        self.sinks.up()

    def driven(self):
        self.test.within(10.0, lambda: self.sinks.count("e.example") and "left@e.example" in
                         [name for name, _ in self.sinks.delivered],
                         "what waited before the queue was driven leaves")
        self.flow.stretch("the queue is driven", self.late)


class Follower(Reader):
    """Mail goes on while commands run, but for those whose output is compared, and from the
    first of these pairs to the second."""
    between = (("systemctl stop sendmail", "systemctl start sendmail"),
               ("posternctl suspend", "posternctl resume"))

    def __init__(self, test, world, **more):
        super().__init__(test, **more)
        self.flow, self.setup, self.until = world.flow, world.mta.setup, None

    def do(self, step, where, host):
        command = re.sub("^sudo ", "", step.command)
        self.until = next((last for first, last in self.between if command.startswith(first)),
                          self.until)
        if step.shown or self.until or command.startswith("postern-sendmail-setup"):
            self.flow.pause()
        super().do(step, where, host)
        if self.until and command.startswith(self.until):
            self.until = None
        if not self.until:
            self.flow.go_on()


def install(test, world):
    """README, Install, where it is a package; and Attach, of which undo is the last."""
    steps, _ = readme(HERE / "README")
    Path("/tmp").mkdir(exist_ok=True)
    for package in Path("/opt/debs").glob("postern_*.deb"):
        shutil.copy(package, "/tmp")
    other = "sendmail" if world.mta.name == "postfix" else "postfix"
    wanted = [step for step in steps if re.match(
        rf"(sudo )?(apt-get install /tmp/|postern-{world.mta.name}-setup)", step.command)
        and "--" not in step.command]
    test.check(any("/tmp/" in step.command for step in wanted), "README says how to install it")
    if not any(world.mta.setup in step.command for step in wanted):
        for step in [step for step in steps if re.match(
                rf"(sudo )?postern-{other}-setup( (show|make|undo))?$", step.command)]:
            step.command = step.command.replace(other, world.mta.name)
            wanted.append(step)
    Follower(test, world).follow(HERE / "README", wanted)


def calls(world):
    looks = iter((world.come, world.limited))
    return {"limits-on-postfix.md": {r"posternctl classes": lambda: next(looks)(),
                                     r"postern-postfix-setup undo": world.leave},
            "limits-on-sendmail.md": {r"posternctl classes": lambda: next(looks)(),
                                      r"postern-sendmail-setup undo": world.leave},
            "outbound-lanes.md": {r"posternctl destinations": world.learned},
            "outbound-sendmail.md": {r"posternctl destinations": world.learned,
                                     r"mkdir -p /etc/systemd": world.confined,
                                     r"systemctl stop sendmail": world.leave_one,
                                     r"posternctl sendmail next": world.driven}}


def body(test, mta):
    loopback_up([SERVER, SENDER, *CLIENTS, *FAR])
    dns.serve({})
    users(test)
    mta.prepare(test)
    world = World(test, mta)
    flow = world.flow
    flow.begin()
    world.late = flow.stretch("without Postern", None) + LATE
    install(test, world)
    flow.stretch("installed", world.late)
    for name in mta.guides:
        before = list(calls(world)[name].items())
        Follower(test, world, stands_in=LEFT_OUT, before=before,
                 codes=((r"posternctl sendmail next", (0, 69)),)).follow(GUIDES / name)
        flow.stretch(name, world.late)
    flow.end()
    test.wait_for(lambda: not mta.waiting(test), "the queue is empty")
    flow.judge()
    log = test.run(["journalctl", "--facility=mail", "--output=short", "--no-pager"])
    bounced = [line for line in log.splitlines()
               if re.search(r"status=bounced|dsn=5|: DSN: |stat=(User|Service|Host) ", line)]
    test.equal(bounced[:3], [], "the mail log has no bounce")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("mta", choices=("postfix", "sendmail"))
    mta = parser.parse_args().mta
    own_machine.main(f"guides, {mta}",
                     lambda test: body(test, {"postfix": Postfix, "sendmail": Sendmail}[mta]()), 600,
                     "journalctl --no-pager --facility=mail -n 80")


main()
