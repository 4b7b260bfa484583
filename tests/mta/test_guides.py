#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""Somebody who has Postfix does what the guides in contrib/guides say, command by
command, and reads what they show.  With words: only these guides."""
import time
from pathlib import Path

from lib.document import Reader, put
from lib.limiter import Limiter
from lib.machine import HERE, LOG, Machine
from lib.postfix import listening
from lib.smtp import Session, open_sessions
from lib.testing import SOURCE, main

GUIDES = SOURCE / "contrib/guides"
CLIENTS = {"203.0.113.9": "mail.customer.example", "198.51.100.7": "mail.partner.example"}
FAR = {"192.0.2.11": "d.example"}
NEW = "198.51.100.26"                   # that is warmed up

# Commands that a test cannot run: (pattern, reason, what is done in their place).
LEFT_OUT = (
    (r"apt-get ", "there is no network", None),
    (r"systemctl restart posternd$", "no systemd here", "restart"),
    (r"systemctl (start|enable --now) posternd$", "no systemd here", "begin"),
    (r"systemctl stop posternd$", "no systemd here", "stop"),
    (r"systemctl status posternd$", "no systemd here", None),
    (r"journalctl ", "no systemd here", None),
    (r"posternctl top$", "must be a terminal; test_top looks at it", None),
    (r"\$EDITOR ", "the block that follows is put in", None),
)
# Those that may fail, as the guide says: (pattern, exit codes).
CODES = {"what-happens-when.md": ((r"posternctl (check|reload)$", (0, 78)),)}


class World(Machine):
    """Postfix and Postern, and what goes on there until the reader goes on."""

    def __init__(self, test):
        super().__init__(test)
        self.postfix()
        self.sink = Limiter(test, list(FAR), 25, seconds=0.02)
        self.sessions = []
        self.mails = 0

    def come(self):
        """Three clients of one address, and of another."""
        for session in self.sessions:
            session.quit()
        self.test.wait_for(lambda: not any(row["open"] for row in self.asked("classes")),
                           "those that came before have left")
        self.sessions = open_sessions((HERE, 25), ["203.0.113.9"] * 3)

    def leave(self):
        for session in self.sessions:
            session.close()
        self.sessions = []

    def mail(self):
        """Three messages to d.example, each to somebody else, and until the log is read."""
        self.mails += 3
        before = LOG.read_text(errors="replace").count(", status=")
        for number in range(self.mails - 3, self.mails):
            self.test.run(["smtp-source", "-f", "ann@example.com", "-t", f"u{number}@d.example",
                           f"{HERE}:25"])
        self.test.wait_for(lambda: LOG.read_text(errors="replace").count(", status=")
                           >= before + 3, "mail was tried")
        self.test.wait_for(lambda: not any(
            row["log_unread"] for row in self.asked("status")["mtas"]), "the log is read")

    def learned(self):
        self.mail()
        self.test.wait_for(lambda: self.asked("destinations", "d.example"),
                           "the log is read")


def limits_on_postfix(world):
    def served():
        codes = sorted(session.code for session in world.sessions)
        world.test.equal(codes, [220, 220, 421], "in force: the third reads 421")
    steps = iter((world.come, lambda: (world.come(), served())))
    return {r"posternctl classes": lambda: next(steps)(), r"postern-postfix-setup undo": world.leave}


def outbound_lanes(world):
    def by_lane():
        def once_more():
            world.mail()
            return "postfix/lane" in LOG.read_text()
        world.test.wait_for(once_more, "mail goes by lanes")

    def held():
        def once_more():
            world.mail()
            return "status=deferred (Postern: d.example is suspended" in LOG.read_text()
        world.test.wait_for(once_more, "suspended: its mail waits")

    def all_there():
        """But for one: Postfix's resolver tells the last recipient for 30 s what it told
        before."""
        world.test.wait_for(lambda: world.sink.count("d.example") >= world.mails - 1,
                            "resumed, it goes")
    return {r"posternctl destinations": world.learned, r"posternctl suspend": by_lane,
            r"posternctl resume": held, r"postern-postfix-setup undo": all_there}


def pace(world):
    """Lanes are in force."""
    put("/etc/postern/postern.conf", 'mta = ( { name = "postfix"; log = "/var/log/mail.log"; } );'
        "outbound = { observe = false; };")
    world.test.run(["posternctl", "reload"])
    world.test.run(["postern-postfix-setup", "make", "--lanes"])
    world.learned()

    def waits():
        def once_more():
            world.mail()
            return "(Postern: pace of d.example is 30/1m)" in world.test.run(["mailq"])
        world.test.wait_for(once_more, "mail waits for its pace")

    def by_its_address():
        world.test.wait_for(lambda: world.asked("explain", "source")[0]["released"], "it has numbers")
        world.mail()
        world.test.wait_for(lambda: "postfix/smtp-ip2/smtp" in LOG.read_text(),
                            "mail goes by the source", 40)
    return {r"mailq$": waits, r"posternctl explain source": by_its_address,
            r"posternctl explain destination": lambda: world.test.wait_for(
                lambda: world.sink.count("d.example") >= world.mails - 1, "all of it is delivered", 60)}


def moving(world):
    """Somebody has a Sendmail, too."""
    Path("/etc/mail").mkdir(exist_ok=True)
    for name, text in (("sendmail.mc", "FEATURE(`access_db')dnl\nFEATURE(`ratecontrol', `nodelay',"
                        "`terminate')dnl\nFEATURE(`conncontrol', `nodelay',`terminate')dnl\n"),
                       ("access", "ClientConn:\t10\nClientConn:192.0.2\t5\nClientRate:\t60\n")):
        Path("/etc/mail", name).write_text(text)
    return {}


def which_limits(world):
    def traffic():
        world.come()
        world.leave()
        world.mail()
    return {r"posternctl analyze --sessions /var/log/mail.log$": traffic}


def what_happens_when(world):
    """Limits and lanes are in force, and d.example is held."""
    world.test.deaths_expected = True
    put("/etc/postern/postern.conf", 'mta = ( { name = "postfix"; log = "/var/log/mail.log"; } );'
        "observe = false; outbound = { observe = false; };")
    world.test.run(["posternctl", "reload"])
    world.test.run(["postern-postfix-setup", "make", "--lanes"])
    world.learned()
    world.test.run(["posternctl", "hold", "d.example"])

    def held():
        world.mail()
        return "status=deferred (Postern: d.example is held" in LOG.read_text()
    world.test.wait_for(held, "held: its mail waits")
    world.sessions = open_sessions((HERE, 25), ["203.0.113.9"] * 2)
    return {}


def accounts(world):
    """A submission service; XCLIENT stands for a login."""
    master = Path("/etc/postfix/master.cf")
    master.write_text(master.read_text() + f"""submission inet n - y - - smtpd
  -o smtpd_sasl_auth_enable=yes
  -o smtpd_relay_restrictions=permit_sasl_authenticated,reject
  -o smtpd_authorized_xclient_hosts={HERE}
""")
    world.test.run(["postfix", "reload"])
    world.test.wait_for(lambda: listening(587), "submission listens")

    def submit(login, recipients, count):
        session = Session((HERE, 587), HERE)
        session.command("EHLO x")
        session.command(f"XCLIENT LOGIN={login}")
        codes = [session.send([f"{recipient}{number}@{domain}" for recipient, domain in recipients],
                              sender="ann@example.com")[0] for number in range(count)]
        session.quit()
        return codes

    def traffic():
        world.test.equal(submit("ann@example.com", [("u", "example.com")], 6), [250] * 6, "ann sends")
        world.test.wait_for(lambda: LOG.read_text().count("sasl_username=ann@example.com") >= 6,
                            "Postfix logs it")

    def counted():
        world.test.equal(submit("ann@example.com", [(f"u{i}", "example.com") for i in range(3)], 12),
                         [250] * 12, "observe mode: 36 of 30 are accepted")

    def stolen():
        world.sink.is_unknown = lambda recipient: recipient.startswith("dead")
        submit("eve@example.com", [(name, "d.example") for name in ("deada", "deadb", "deadc", "good")], 7)
        world.test.wait_for(lambda: world.asked("account", "eve@example.com")["held_by"],
                            "a login with a bad list is held")
    started = iter((traffic, lambda: None))
    return {r"posternctl analyze --accounts": lambda: next(started)(),
            r"posternctl accounts$": counted, r"posternctl account eve": stolen}


DOCUMENTS = {"accounts.md": accounts, "limits-on-postfix.md": limits_on_postfix, "moving.md": moving,
             "outbound-lanes.md": outbound_lanes, "pace-and-warm-up.md": pace,
             "what-happens-when.md": what_happens_when, "which-limits.md": which_limits}


def read(test, world, name):
    """From the shipped state on."""
    begun = time.monotonic()
    world.reset()
    reader = Reader(test, [(pattern, reason, getattr(world, instead) if instead else None)
                           for pattern, reason, instead in LEFT_OUT],
                    list(DOCUMENTS[name](world).items()), CODES.get(name, ()))
    reader.follow(GUIDES / name)
    world.leave()
    test.say(f"{name}: {time.monotonic() - begun:.1f} s")


def body(test):
    world = World(test)
    world.begin()
    world.start_postfix()
    for name in test.arguments.guide or DOCUMENTS:
        read(test, world, name)


main(body, hosts={**CLIENTS, **FAR}, addresses=[HERE, NEW, *CLIENTS, *FAR],
     options=(("--guide", {"action": "append"}),))
