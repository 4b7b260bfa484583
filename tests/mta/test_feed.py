#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""The feed on real Postfix logs, which only root may read: whatever becomes of the
log file or of the feed itself, no delivery that was logged since is missed."""
import os
import shutil
import signal
from pathlib import Path

from lib.postern import Postern, one_class
from lib.postfix import Postfix
from lib.sink import Sink
from lib.testing import main

REMOTE, FILTER = 2500, 10025
PORT, PORT_B = 2025, 2026
HOSTS = {"192.0.2.11": "mx.remote.example"}
MAIN = f"""relay_domains =
mynetworks = 127.0.0.0/8
transport_maps = inline:{{ {{ filtered.example = smtp:[192.0.2.11]:{FILTER} }},
    {{ relayed.example = relay:[mx.remote.example]:{REMOTE} }},
    {{ * = smtp:[mx.remote.example]:{REMOTE} }} }}
"""


class Site:
    def __init__(self, test):
        self.test, self.count, self.sent = test, 0, set()
        relay = "relay unix - - n - - smtp\n  -o syslog_name=postfix-{0}/relay\n"
        self.a = Postfix(test, [f"{PORT} inet n - n - - smtpd\n", relay.format("A")], main=MAIN)
        self.b = Postfix(test, [f"{PORT_B} inet n - n - - smtpd\n"], name="B",
                         main=MAIN + "maillog_file =\n")
        self.postern = Postern(test, [one_class("others", 100)], edit=self.edit)
        self.postern.kinds = self.postern.kinds | {"feed"}
        self.postern.start()
        self.a.start(PORT)
        self.b.start(PORT_B)

    def edit(self, text):
        return text + (
            f'mta = ( {{ name = "a"; log = "{self.a.log}"; syslog_name = "postfix-A";\n'
            f'  ports = [ {REMOTE} ]; }},\n'
            f'{{ name = "b"; log = "{self.test.logs}/syslog"; syslog_name = "postfix-B";\n'
            f'  ports = [ {REMOTE} ]; }} );\n')

    def destinations(self, *pattern):
        return {row["name"]: row for row in self.postern.ask("destinations", "--relays", *pattern)}

    def counter(self, name):
        return self.postern.status()["counters"][name]

    def counted(self, name, wanted):
        """At the end of the turn in which the feed has read the lines that are seen already."""
        self.test.poll(lambda: self.counter(name) >= wanted, 5)
        self.test.equal(self.counter(name), wanted, f"it is counted: {name}")

    def send(self, postfix, port, count):
        """Mail to as many domains that nobody has seen."""
        for _ in range(count):
            self.count += 1
            domain = f"d{self.count}.example"
            before = self.delivered()
            postfix.send(port, domain)
            self.sent.add(domain)
            self.test.wait_for(lambda: self.delivered() > before, f"mail to {domain} is delivered")

    def delivered(self):
        return len(self.sink.delivered)

    def all_seen(self, what, limit=5):
        self.test.within(limit, lambda: self.sent <= set(self.destinations()), what)

    def feed(self):
        return self.postern.roles().get("feed.0")

    def is_followed(self, log):
        """A generation counts as reached a moment before its logs are taken up."""
        return any(os.path.realpath(file) == str(log)
                   for file in Path(f"/proc/{self.feed()}/fd").iterdir())

    def feed_after(self, pid):
        self.test.wait_for(lambda: self.feed() not in (None, pid), "another feed runs")


def what_is_seen(test, site):
    site.send(site.a, PORT, 2)
    site.send(site.b, PORT_B, 1)
    site.all_seen("a log that did not exist at the start, and one written by syslog")
    rows = site.destinations()
    test.equal(rows["d1.example"], {"name": "d1.example", "relays": "192.0.2.11",
                                    "cloned_by": "a", "other_by": None,
                                    "seen_age": rows["d1.example"]["seen_age"],
                                    "ok": 1, "failed": 0, "held": 0},
               "relay, mail server and transport")
    test.equal(rows["d3.example"]["cloned_by"], "b", "the other mail server")
    test.equal(set(site.destinations("d1.*")), {"d1.example"}, "a pattern")
    test.equal(set(site.destinations("*.example")) >= site.sent, True, "another one")
    test.equal(site.postern.command("destinations", "a..b").returncode, 64, "and a bad one")


def what_teaches_nothing(test, site):
    before = site.counter("feed_deliveries")
    site.a.send(PORT, "filtered.example")
    site.a.send(PORT, "relayed.example")
    site.a.send(PORT, "forged.example", user='"x>, relay=evil[192.0.2.66]:2500, status=sent ("')
    test.within(5, lambda: site.counter("feed_deliveries") >= before + 3, "three more are read")
    rows = site.destinations()
    test.equal(rows["relayed.example"]["other_by"], "a", "another transport than the cloned one")
    test.check("filtered.example" not in rows, "a content filter's port teaches nothing")
    test.equal(rows["forged.example"]["relays"], "192.0.2.11", "nor does a forged recipient")


def rename_and_create(test, site):
    replaced, pid = site.counter("feed_replaced"), site.feed()
    os.rename(site.a.log, f"{site.a.log}.1")
    site.send(site.a, PORT, 2)
    site.all_seen("mail logged to the renamed file")
    site.a.reload()
    site.send(site.a, PORT, 2)
    site.all_seen("mail logged to the new one, which root has to open")
    site.feed_after(pid)
    site.counted("feed_replaced", replaced + 1)


def missing(test, site):
    """A log that was moved away and did not come back was mentioned nowhere."""
    begun = len(site.postern.log_text())
    os.rename(site.a.log, f"{site.a.log}.away")
    test.within(15, lambda: "cannot read log: No such file" in site.postern.log_text()[begun:],
                "the daemon logs that its log is missing")
    note = next(row["note"] for row in site.postern.status()["mtas"] if row["mta"] == "a")
    test.check("the log does not exist" in (note or ""), f"status says so: {note}")
    told = site.postern.command("check", json_output=False).stdout
    test.check("does not exist" in told, f"check says so: {told}")
    os.rename(f"{site.a.log}.away", site.a.log)


def copy_and_truncate(test, site):
    truncated = site.counter("feed_truncated")
    shutil.copy(site.a.log, f"{site.a.log}.2")
    os.truncate(site.a.log, 0)
    site.send(site.a, PORT, 2)
    site.all_seen("mail logged after the log was cut")
    site.counted("feed_truncated", truncated + 1)


def killed(test, site):
    for _ in range(3):
        pid = site.feed()
        os.kill(pid, signal.SIGKILL)
        site.send(site.a, PORT, 1)
        site.send(site.b, PORT_B, 1)
        site.feed_after(pid)
    site.all_seen("mail logged while the feed was killed again and again")
    pid = site.feed()
    os.kill(pid, signal.SIGSTOP)
    site.send(site.a, PORT, 1)
    site.feed_after(pid)
    site.all_seen("mail logged while it was stopped, until it was killed for that")


def reload(test, site):
    """Logs change with a reload."""
    site.postern.configure([one_class("others", 100)], lambda text: text)
    site.postern.ask("reload")
    test.wait_for(lambda: not site.is_followed(site.a.log), "the feed has let go of the logs")
    line = f'log={site.a.log} text="reading log"'
    before = site.postern.log_text().count(line)
    site.postern.configure([one_class("others", 100)], site.edit)
    site.postern.ask("reload")
    test.wait_for(lambda: site.postern.log_text().count(line) > before, "the log is read again")
    site.send(site.a, PORT, 1)
    site.all_seen("mail after the mail servers were taken out and put back")


def renamed_while_away(test, site):
    pid = site.feed()
    os.kill(pid, signal.SIGSTOP)
    site.send(site.a, PORT, 2)
    os.rename(site.a.log, f"{site.a.log}-20261122")
    site.send(site.a, PORT, 1)
    site.a.reload()
    site.send(site.a, PORT, 1)
    os.kill(pid, signal.SIGKILL)
    site.feed_after(pid)
    site.all_seen("mail logged to a file that was renamed while no feed ran, and to the new one")


def bad_lines(test, site):
    bad = site.counter("feed_bad_lines")
    with open(site.a.log, "ab") as log:
        log.write(b"Nov 21 05:48:22 mx postfix-A/smtp[1]: 5C1E9A7E2B8: to=<bad.exam\n")
        log.write(b"x" * 1_000_000 + b"\n\0\0\n")
    site.send(site.a, PORT, 1)
    site.all_seen("mail after a cut line, a huge one and NULs")
    site.counted("feed_bad_lines", bad + 2)


def body(test):
    sink = Sink(test, HOSTS, REMOTE)
    filters = Sink(test, HOSTS, FILTER)
    site = Site(test)
    site.sink = sink
    test.deaths_expected = True
    what_is_seen(test, site)
    what_teaches_nothing(test, site)
    test.check(len(filters.delivered) == 1, "the filter had its mail")
    missing(test, site)
    rename_and_create(test, site)
    copy_and_truncate(test, site)
    killed(test, site)
    renamed_while_away(test, site)
    bad_lines(test, site)
    reload(test, site)


main(body, hosts=HOSTS, addresses=list(HOSTS))
