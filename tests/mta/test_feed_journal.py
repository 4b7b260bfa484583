#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""Deliveries that systemd's journal has are counted once, and none is missed, while the journal
is rotated, vacuumed, flushed to disk and begun again, and feed, daemon and journald are killed.
What users write in the mail server's name does not count."""
import grp
import json
import os
import pwd
import re
import signal
import time
from pathlib import Path

from lib.journald import GROUP, PERSISTENT, VOLATILE, Journald
from lib.postern import Postern, one_class
from lib.testing import main

DOMAINS = 50
NOBODY = pwd.getpwnam("nobody").pw_uid
POSTFIX = pwd.getpwnam("postfix").pw_uid


class Site:
    def __init__(self, test):
        self.test, self.count, self.expected = test, 0, {}
        self.journald = Journald(test, "RateLimitIntervalSec=0\nRuntimeMaxFileSize=1M\n"
                                 "SystemMaxFileSize=1M")
        self.postern = Postern(test, [one_class("others", 100)], edit=self.without_journal)
        self.postern.kinds = self.postern.kinds | {"feed"}
        self.postern.start()

    @staticmethod
    def without_journal(text):
        return text + 'mta = ( { name = "out"; log = "/run/t/none"; } );\n'

    @staticmethod
    def edit(text):
        return text + ('mta = ( { name = "out"; log = "journal:"; },\n'
                       '{ name = "s"; kind = "sendmail"; log = "journal:"; } );\n')

    def note(self):
        return self.postern.status()["mtas"][0]["note"]

    def feed(self):
        return self.postern.roles().get("feed.0")

    def lines(self, count, prefix="d"):
        """Of known deliveries, by both mail servers in turn."""
        found = []
        for _ in range(count):
            self.count += 1
            domain = f"{prefix}{self.count % DOMAINS}.example"
            self.expected[domain] = self.expected.get(domain, 0) + 1
            address = f"192.0.2.{self.count % DOMAINS + 1}"
            found.append(
                f"<22>Nov 26 05:48:22 postfix/smtp[7]: {self.count:08X}A: to=<u@{domain}>, "
                f"relay=mx.{domain}[{address}]:25, delay=1.2, delays=0.1/0/0.6/0.5, dsn=2.0.0, "
                f"status=sent (250 ok)" if self.count % 3 else
                f"<22>Nov 26 05:48:22 sm-mta[7]: 6ALI6u{self.count:08d}: to=<u@{domain}>, "
                f"delay=00:00:01, xdelay=00:00:01, mailer=esmtp, pri=120000, "
                f"relay=mx.{domain}. [{address}], dsn=2.0.0, stat=Sent (ok {self.count})")
        return found

    def write(self, count):
        self.journald.write(self.lines(count))

    def kept(self):
        """journald has taken what was written."""
        mark = f"mark {self.count}"
        self.journald.write([f"<22>Nov 26 05:48:22 mark[1]: {mark}"])
        self.test.wait_for(lambda: self.journald.has(mark), "journald has taken all")

    def counts(self):
        return {row["name"]: row["ok"] for row in self.postern.ask("destinations", "--relays")}

    def counter(self, name):
        return self.postern.status()["counters"][name]

    def wrong(self):
        counts = self.counts()
        return {domain: (counts.get(domain, 0), count) for domain, count in self.expected.items()
                if counts.get(domain, 0) != count}

    def all_counted(self, what):
        self.test.poll(lambda: not self.wrong(), 20)
        wrong = self.wrong()
        self.test.check(not wrong, f"{what}: {sum(self.expected.values())} deliveries, each counted "
                        f"once: {dict(list(wrong.items())[:5])}")

    def kill_feed(self):
        pid = self.postern.roles().get("feed.0")
        if pid:
            os.kill(pid, signal.SIGKILL)

    def restart_journald(self, kill):
        self.kept()             # what its socket holds would be lost with the socket
        if kill:
            self.journald.kill()
        else:
            self.journald.stop()
        self.journald.start()

    def is_noted(self):
        """Our own journal knows of the last entry."""
        cursor = self.journald.control("--lines=1", "--output=json", "--output-fields=_UID",
                                       "SYSLOG_FACILITY=2")
        number = int(json.loads(cursor)["__CURSOR"].split(";")[1].removeprefix("i="), 16)
        dump = self.postern.command("journal", "dump", self.postern.journal / "feed").stdout
        return any(record.get("read") == number for record in map(json.loads, dump.splitlines()))

    def lose_state(self):
        """What was counted, and how far the journal was read, is known from our own."""
        self.test.wait_for(self.is_noted, "our own journal knows how far the other was read")
        self.postern.kill()
        for file in self.postern.shared.glob("state*"):
            file.unlink()
        self.postern.start()


def do_something(test, site):
    chance = test.random.random()
    if chance < 0.2:
        site.journald.control("--rotate")
    elif chance < 0.3:
        site.kill_feed()
    elif chance < 0.36:
        site.restart_journald(test.random.random() < 0.5)
    elif chance < 0.4:
        site.postern.kill()
        site.write(test.random.randrange(100))
        site.postern.start()
    elif chance < 0.46:
        site.all_counted("before files are deleted")
        site.journald.control("--rotate")
        site.journald.control("--vacuum-files=1")
    site.write(test.random.randrange(100))


def turmoil(test, site):
    for _ in range(test.rounds or 40):
        do_something(test, site)
        time.sleep(test.random.random() * 0.04)     # for chance, not for a condition
    site.all_counted("rotated, vacuumed, feed, daemon and journald killed")


def flushed(test, site):
    """Entries that journald moves to disk have other numbers there."""
    test.check(any(VOLATILE.glob("*/system.journal")), "the journal is in memory")
    site.write(100)
    site.kept()
    site.journald.control("--flush")
    test.check(any(PERSISTENT.glob("*/system.journal")), "and moved to disk")
    site.write(100)
    site.all_counted("moved to disk while it was read")
    site.postern.kill()
    site.write(100)
    site.kept()
    site.journald.control("--relinquish-var")
    site.journald.control("--flush")
    site.write(100)
    site.postern.start()
    site.all_counted("moved while nobody read")


def state_lost(test, site):
    site.lose_state()
    site.write(100)
    site.all_counted("the state file and all beside it removed")


def begun_again(test, site):
    """As after a reboot of a machine whose journal is in memory."""
    site.all_counted("before the journal is gone")
    site.postern.kill()
    site.journald.stop()
    for place in VOLATILE, PERSISTENT:
        for file in place.glob("*/*"):
            file.unlink()
    site.journald.start()
    site.write(100)
    site.kept()
    site.postern.start()
    site.all_counted("the journal was begun again")


def deleted_unread(test, site):
    lost = site.counter("feed_lost")
    site.postern.kill()
    expected = dict(site.expected)
    site.write(200)
    site.kept()
    site.expected = expected
    for _ in range(2):
        site.journald.control("--rotate")
        site.write(1)
        site.kept()
    site.journald.control("--vacuum-files=1")
    site.postern.start()
    test.within(10, lambda: site.counter("feed_lost") == lost + 1, "that entries were deleted "
                "unread is counted")
    site.expected = site.counts()       # whatever was kept
    site.write(100)
    site.all_counted("and reading goes on")


def forged(test, site):
    before = site.counts()
    expected = dict(site.expected)
    site.journald.write_as(NOBODY, site.lines(30, "forged"))
    site.expected = expected
    test.within(10, lambda: site.counter("feed_forged") == 20,
                "those in Postfix's name are counted")
    test.equal(site.counts(), before, "lines that another user writes teach nothing")
    test.check("event=feed-forged" in site.postern.log_text() and
               f"uid={NOBODY}" in site.postern.log_text(), "and it is logged who wrote them")
    site.journald.write_as(POSTFIX, [line for line in site.lines(30, "own") if "smtp[" in line])
    test.within(10, lambda: sum(count for domain, count in site.counts().items()
                                if domain.startswith("own")) == 20, "those of Postfix's user do")


def configured(test, site):
    """A feed that runs has no right to read it: the next one has."""
    test.check("log does not exist" in (site.note() or "") and
               'log = "journal:"' in site.note(), f"status names the remedy: {site.note()}")
    told = site.postern.command("check", json_output=False)
    test.check('set log = "journal:"' in told.stdout + told.stderr, "and so does check")
    pid = site.feed()
    site.postern.configure([one_class("others", 100)], site.edit)
    site.postern.ask("reload")
    test.wait_for(lambda: site.feed() not in (None, pid), "another feed reads the journal")
    test.within(10, lambda: "log=journal: text=\"reading log\"" in site.postern.log_text(),
                "the log says that it is read")
    test.check("systemd's journal" not in (site.note() or ""), f"and status nothing: {site.note()}")


def chosen(test, site):
    """By itself, where no log is named and there is no file; not beside a socket that may
    bring the same lines."""
    if os.path.exists("/var/log/mail.log"):
        test.say("chosen by itself: not tried: this machine has /var/log/mail.log")
        return

    def told(edit):
        file = test.directory / "chosen.conf"
        file.write_text(edit(site.postern.text([], lambda text: text + 'mta = ( { } );\n')))
        done = site.postern.command("check", file, json_output=False)
        test.equal(done.returncode, 0, "the configuration is good")
        return done.stdout + done.stderr
    test.check("reading systemd's journal" in told(lambda text: text),
               "where no log is named and no file is there, the journal is read")
    other = told(lambda text: text.replace(
        "listen = {", f'listen = {{ syslog = [ "unix:{test.directory}/log" ];', 1))
    test.check("journal" not in other.replace("journal.path", ""),
               f"but not with listen.syslog: {other}")


def who_may(test, site):
    """The library and the group are the feed's alone."""
    def has_library(pid):
        return "libsystemd.so" in Path(f"/proc/{pid}/maps").read_text()

    def groups(pid):
        return re.search(r"^Groups:(.*)", Path(f"/proc/{pid}/status").read_text(),
                         re.M).group(1).split()
    group, feed = str(grp.getgrnam(GROUP).gr_gid), site.feed()
    others = [pid for role, pid in site.postern.roles().items() if role != "feed.0"]
    others.append(site.postern.process.pid)
    test.check(has_library(feed) and group in groups(feed), "the feed has what reads the journal")
    test.equal([pid for pid in others if has_library(pid) or group in groups(pid)], [],
               f"none of {len(others)} other processes does")


def control_group(test):
    """That of a unit, as journald tells it by its path; None: none can be made here."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        if " - cgroup2 " in line:
            group = Path(line.split()[4], "system.slice", f"postern-test-{os.getpid()}.service")
            try:
                group.mkdir(parents=True)
            except OSError as reason:
                test.say(f"rate limit: not tried: {reason}")
                return None
            test.at_end(group.rmdir)
            return group
    test.say("rate limit: not tried: there are no control groups")
    return None


def rate_limited(test, site):
    """What journald drops is counted; what it keeps, too, each in its place."""
    group = control_group(test)
    if group is None:
        return
    site.kept()
    site.journald.stop()
    site.journald.configure("RateLimitIntervalSec=1s\nRateLimitBurst=10")
    site.journald.start()
    expected, count = dict(site.expected), 0

    def write(number):
        nonlocal count
        lines = [line for line in site.lines(number, "limited") if "smtp[" in line]
        site.journald.write_as(POSTFIX, lines, group)
        count += len(lines)

    def suppressed():
        write(3)                # journald says how many when it takes a line again
        return site.counter("feed_suppressed") > 0
    write(600)
    test.within(10, suppressed, "that lines were dropped is counted")
    kept = site.journald.control("--output=cat", "SYSLOG_FACILITY=2", "--lines=all")
    site.expected = {domain: kept.count(f"@{domain}>") for domain in site.expected
                     if domain not in expected and f"@{domain}>" in kept}
    site.all_counted("with a rate limit")
    test.equal(sum(site.expected.values()) + site.counter("feed_suppressed"), count,
               "kept and dropped are all that was written")
    test.check("feed_suppressed" in (site.note() or ""), "status names the remedy")


def body(test):
    site = Site(test)
    test.deaths_expected = True
    chosen(test, site)
    configured(test, site)
    site.write(100)
    site.all_counted("written while it is read")
    flushed(test, site)
    turmoil(test, site)
    state_lost(test, site)
    begun_again(test, site)
    deleted_unread(test, site)
    who_may(test, site)
    forged(test, site)
    rate_limited(test, site)


main(body)
