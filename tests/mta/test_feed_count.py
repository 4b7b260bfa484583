#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""Deliveries are counted once, and none is missed, by count: known lines in logs that are
renamed (and made anew at once or late), named by date, copied and cut, while the
feed, the keeper and the whole daemon are killed, and its state file is lost, with and
without the text files beside it."""
import os
import shutil
import signal
import time

from lib.postern import Postern, one_class
from lib.testing import main

DOMAINS = 40


def place(test):
    """Not among the logs that are shown when a test fails: these are long."""
    directory = test.directory / "mail"
    directory.mkdir(exist_ok=True)
    return directory


class Log:
    """Lines of known deliveries, each to one of the log's own destinations."""

    def __init__(self, test, name, line, file=None):
        self.test, self.name, self.line = test, name, line
        self.path = place(test) / (file or f"{name}.log")
        self.expected = {}
        self.count = 0
        self.out = open(self.path, "ab", buffering=0)
        self.slow = None                # a writer that has not let go of its file

    def write(self, count, to=None):
        text = []
        for _ in range(count):
            self.count += 1
            domain = f"{self.name}{self.count % DOMAINS}.example"
            self.expected[domain] = self.expected.get(domain, 0) + 1
            text.append(self.line(self.name, self.count, domain))
        (to or self.out).write("".join(text).encode())

    def rename(self, late):
        for number in range(8, 0, -1):
            older = f"{self.path}.{number}"
            newer = f"{self.path}.{number - 1}" if number > 1 else self.path
            if os.path.exists(newer):
                os.rename(newer, older)
        self.replace_writer(late)

    def replace_writer(self, late):
        if self.slow:
            self.slow.close()
        self.slow = self.out if late else None
        if not late:
            self.out.close()
        self.out = open(self.path, "ab", buffering=0)


def postfix_line(name, number, domain):
    return (f"Nov 21 05:48:22 mx postfix-{name}/smtp[7]: {number:08X}{len(name):X}: to=<u@{domain}>, "
            f"relay=mx.{domain}[192.0.2.{number % DOMAINS + 1}]:25, delay=1.2, "
            f"delays=0.1/0/0.6/0.5, dsn=2.0.0, status=sent (250 ok)\n")


def sendmail_line(name, number, domain):
    return (f"Nov 21 05:48:22 mx sm-mta[7]: 6ALI6u{number:08d}: to=<u@{domain}>, "
            f"delay=00:00:01, xdelay=00:00:01, mailer=esmtp, pri=120000, "
            f"relay=mx.{domain}. [192.0.2.{number % DOMAINS + 1}], dsn=2.0.0, stat=Sent (ok)\n")


class Site:
    def __init__(self, test):
        self.test, self.rotated = test, {}
        self.renamed = Log(test, "renamed", postfix_line)
        self.sendmail = Log(test, "sendmail", sendmail_line, "renamed.log")
        self.sendmail.out = self.renamed.out    # one syslog for both
        self.cut = Log(test, "cut", postfix_line)
        self.days = 1
        self.dated = Log(test, "dated", postfix_line, "dated-20260901.log")
        self.logs = [self.renamed, self.sendmail, self.cut, self.dated]
        self.postern = Postern(test, [one_class("others", 100)], edit=self.edit)
        self.postern.kinds = self.postern.kinds | {"feed"}
        self.postern.start()

    def edit(self, text):
        def mta(name, log):
            return (f'{{ name = "{name}"; log = "{place(self.test)}/{log}"; '
                    f'syslog_name = "postfix-{name}"; }}')
        return text + ("mta = ( " + ",\n".join([
            mta("renamed", "renamed.log"), mta("cut", "cut.log"),
            mta("dated", "dated-%Y%m%d.log"),
            f'{{ name = "s"; kind = "sendmail"; log = "{place(self.test)}/renamed.log"; }}'])
            + " );\n")

    def counts(self):
        return {row["name"]: row["ok"] for row in self.postern.ask("destinations", "--relays")}

    def expected(self):
        return {domain: count for log in self.logs for domain, count in log.expected.items()}

    def counter(self, name):
        return self.postern.status()["counters"][name]

    def kill(self, role):
        pid = self.postern.roles().get(role)
        if pid:
            os.kill(pid, signal.SIGKILL)

    def restart(self):
        self.postern.kill()
        self.postern.start()

    def lose_state(self):
        """The text files are renewed each second; the segment itself is gone."""
        self.postern.kill()
        os.unlink(f"{self.postern.shared}/state")
        self.postern.start()

    def lose_all(self):
        """These too: what was counted, and how far, is known from the journal."""
        self.postern.kill()
        for file in self.postern.shared.glob("state*"):
            file.unlink()
        self.postern.start()

    def rename(self, late):
        self.not_too_many([self.renamed, self.sendmail])
        self.renamed.rename(late)
        self.sendmail.out = self.renamed.out

    def not_too_many(self, logs):
        """Eight files of a log are read on: no more may come while nobody looks."""
        self.rotated[logs[0]] = self.rotated.get(logs[0], 0) + 1
        if self.rotated[logs[0]] % 5 == 0:
            self.all_counted(logs)

    def next_day(self, late):
        self.not_too_many([self.dated])
        self.days += 1
        self.dated.path = place(self.test) / f"dated-202609{self.days:02}.log"
        self.dated.replace_writer(late)

    def copy_and_truncate(self):
        """When all of it was read: then nothing is lost."""
        self.all_counted([self.cut])
        shutil.copy(self.cut.path, f"{self.cut.path}.copy")
        os.truncate(self.cut.path, 0)

    def all_counted(self, logs, limit=20):
        wanted = {domain: count for log in logs for domain, count in log.expected.items()}

        def reached():
            counts = self.counts()
            return all(counts.get(domain, 0) >= count for domain, count in wanted.items())
        self.test.poll(reached, limit)


def do_something(test, site):
    chance = test.random.random()
    late = test.random.random() < 0.5
    if chance < 0.15:
        site.rename(late)
    elif chance < 0.3 and site.days < 28:
        site.next_day(late)
    elif chance < 0.36:
        site.copy_and_truncate()
    elif chance < 0.45:
        site.kill("feed.0")
    elif chance < 0.48:
        site.kill("keeper.0")
    for log in site.logs:
        log.write(test.random.randrange(50))
        if log.slow:
            log.write(test.random.randrange(20), log.slow)


def check(test, site, what):
    site.all_counted(site.logs)
    counts, expected = site.counts(), site.expected()
    wrong = {domain: (counts.get(domain, 0), count) for domain, count in expected.items()
             if counts.get(domain, 0) != count}
    test.check(not wrong, f"{what}: {sum(expected.values())} deliveries of {len(expected)} "
               f"destinations, each counted once: {dict(list(wrong.items())[:5])}")


def cut_unread(test, site):
    """What is cut away before it was read is lost; it is counted that it may be."""
    before, truncated = site.counts(), site.counter("feed_truncated")
    pid = site.postern.roles()["feed.0"]
    os.kill(pid, signal.SIGSTOP)
    site.cut.write(100)
    lost = dict(site.cut.expected)
    shutil.copy(site.cut.path, f"{site.cut.path}.copy")
    os.truncate(site.cut.path, 0)
    site.cut.expected = {domain: before.get(domain, 0) for domain in lost}
    site.cut.write(400)                 # the file grows beyond where it was cut
    os.kill(pid, signal.SIGCONT)
    check(test, site, "cut while there was more to read")
    # at the end of the turn in which the lines were read
    test.poll(lambda: site.counter("feed_truncated") > truncated, 5)
    test.equal(site.counter("feed_truncated"), truncated + 1, "that is counted")


def body(test):
    site = Site(test)
    test.deaths_expected = True
    for _ in range(test.rounds or 60):
        do_something(test, site)
        time.sleep(test.random.random() * 0.04)     # for chance, not for a condition
    check(test, site, "renamed, named by date, copied and cut, roles killed")
    site.restart()
    for log in site.logs:
        log.write(200)
    site.rename(True)
    site.next_day(True)
    for log in site.logs:
        log.write(200)
    check(test, site, "the daemon killed")
    site.lose_state()
    for log in site.logs:
        log.write(200)
    check(test, site, "and its state file removed")
    for _ in range(test.rounds // 10 or 3):
        site.lose_all()
        for log in site.logs:
            log.write(200)
    check(test, site, "and all that it wrote beside it")
    cut_unread(test, site)


main(body)
