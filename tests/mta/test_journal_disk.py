#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""The journal's disk is full, read-only, or its directories are removed: told once, shown,
counted; Postern works on, and writes all that it knows as soon as it can again.  No mail
server is needed: the test writes the log."""
import fcntl
import os
import shutil
import struct
import subprocess

from lib.journal import Journal
from lib.postern import Postern, one_class, substitute
from lib.smtp_log import SmtpLog
from lib.testing import main, mount

BUSY = 40                               # actions that fill what is left of a page


class Site:
    def __init__(self, test, journal=None):
        self.test = test
        self.log = test.directory / "mail.log"
        self.mail_log = SmtpLog(self.log)
        self.postern = Postern(test, [one_class("some", 100)],
                               edit=lambda text: self.edit(text, journal))
        self.postern.kinds = self.postern.kinds | {"feed"}

    def edit(self, text, journal):
        if journal:
            text = substitute(text, r"^journal = .*?$", f"journal = {{ {journal} }};")
        return text + f'mta = ( {{ name = "a"; log = "{self.log}"; }} );\n'

    def deliver(self, domain, count):
        self.mail_log.tell(domain, count, "sent (250 ok)", dsn="2.0.0", delay="1")

    def ok(self, domain):
        return next((row["ok"] for row in self.postern.ask("destinations", "--relays")
                     if row["name"] == domain), None)


def fill(path):
    """To the last page."""
    with open(path / "filler", "wb", buffering=0) as out:
        size = 1 << 16
        while size:
            try:
                out.write(bytes(size))
            except OSError:
                size //= 2


def keep_busy(test, site, journal, wanted):
    """Results and actions, until both directories have noticed."""
    for number in range(BUSY):
        if all(row == wanted for row in journal.states().values()):
            break
        site.deliver("busy.example", 10)
        site.postern.ask("limit", f"busy{number}.example", "--window", "7", "--reason", "x" * 150)
    test.wait_for(lambda: all(row == wanted for row in journal.states().values()),
                  f"status says of both: {wanted}")


def is_locked_to_write(file):
    with open(file, "rb") as opened:
        try:
            fcntl.fcntl(opened, fcntl.F_OFD_SETLK, struct.pack("hhqqi4x", fcntl.F_RDLCK, 0, 0, 0, 0))
        except BlockingIOError:
            return True
    return False


def came_back(test, site, journal, before, what):
    test.wait_for(lambda: all(row == ("written", None) for row in journal.states().values()),
                  f"{what}: it recovers by itself", limit=35)
    test.check(all(is_locked_to_write(journal.postern.journal / room / "lock")
                   for room in ("feed", "keeper")), f"{what}: no other posternd can write there")
    after = journal.told("journal")
    test.equal({room: after[room] - before[room] for room in after}, {"feed": 1, "keeper": 1},
               f"{what}: and says so")
    # at once: it says so when all that is known was written anew
    known, ok = journal.destinations(), site.ok("count.example")
    journal.postern.kill()
    journal.lose_state()
    journal.postern.start()
    wrong = [name for name, row in known.items()
             if any(row[key] != journal.destinations().get(name, {}).get(key)
                    for key in ("state", "ceiling", "reason"))]
    test.equal(wrong, [], f"{what}: all that is known outlives the state, "
               f"{len(known)} destinations")
    test.equal(site.ok("count.example"), ok, f"{what}: and each result counted once: {ok}")


def degraded(test, site, journal, number, what, error, spoil, mend):
    failed, back = journal.told("journal-failed"), journal.told("journal")
    site.deliver("count.example", 50)
    spoil()
    site.postern.ask("suspend", f"while{number}.example", "--for", "1h", "--reason", "meanwhile")
    keep_busy(test, site, journal, ("failed", error))
    site.deliver("count.example", 50)
    test.wait_for(lambda: site.ok("count.example") == 100 * number, "results are counted")
    test.equal(site.postern.status()["health"], "live", f"{what}: it works on")
    test.check(error in site.postern.command("status", json_output=False).stdout,
               f"{what}: the text of status says so")
    now = journal.told("journal-failed")
    test.equal({room: now[room] - failed[room] for room in now}, {"feed": 1, "keeper": 1},
               f"{what}: it is told once of each")
    counters = site.postern.status()["counters"]
    test.check(counters["journal_failures"] >= 2, f"{what}: it is counted")
    mend()
    came_back(test, site, journal, back, what)
    test.equal(journal.destinations()[f"while{number}.example"]["reason"], "meanwhile",
               f"{what}: what was done meanwhile is there")


def removed(test, site, journal):
    """The supervisor makes them again."""
    back = journal.told("journal")
    shutil.rmtree(journal.postern.journal / "feed")
    shutil.rmtree(journal.postern.journal / "keeper")
    test.wait_for(lambda: all(journal.told("journal")[room] > back[room] for room in back),
                  "directories that are removed come back", limit=20)
    came_back(test, site, journal, back, "removed")


def start_read_only(site, place):
    """Only while nobody writes there it can be made so: the roles die a moment later."""
    site.postern.kill()
    site.test.wait_for(lambda: subprocess.run(["mount", "-o", "remount,ro", place],
                                              capture_output=True).returncode == 0,
                       "the disk is read-only")
    site.postern.start()


def none(test):
    """Without a journal all is as it was."""
    site = Site(test, 'path = "none";')
    site.postern.name = "none"
    site.postern.start()
    test.equal(site.postern.status()["journal"], [], "none: status shows nothing")
    site.postern.ask("hold", "a.example")
    site.postern.kill()
    Journal(test, site.postern).lose_state()
    site.postern.start()
    test.equal(site.postern.ask("destinations"), [], "none: nothing is kept")
    site.postern.kill()


def below_a_file(test):
    """One cause, one line; and it recovers when the path can be made."""
    plain = test.directory / "plain"
    plain.write_text("")
    test.deaths_expected = True         # roles are started again with the new directory
    for name, path in (("is", plain), ("stands-below", plain / "journal")):
        site = Site(test, f'path = "{path}";')
        site.postern.name = f"{name}-a-file"
        site.postern.start()
        test.wait_for(lambda s=site: [row["state"] for row in s.postern.status()["journal"]] ==
                      ["failed"] * 3, f"journal.path {name} a plain file: status says so of each")
        lines = [line for line in site.postern.log_text().splitlines()
                 if "event=journal" in line]
        test.equal(len(lines), 1, f"journal.path {name} a plain file: one line in the log")
        test.say(lines[0])
        if name == "stands-below":
            plain.unlink()
            test.wait_for(lambda s=site: all(row["state"] == "written" for row in
                                             s.postern.status()["journal"]),
                          "as soon as it is gone the journal is written", limit=35)
        site.postern.kill()
        Journal(test, site.postern).lose_state()


def body(test):
    none(test)
    below_a_file(test)
    site = Site(test)
    place = site.postern.journal
    place.mkdir()
    mount("-t", "tmpfs", "-o", "mode=755,size=512k", "tmpfs", place)
    site.postern.start()
    journal = Journal(test, site.postern)
    degraded(test, site, journal, 1, "full", "No space left on device",
             lambda: fill(place), lambda: os.unlink(place / "filler"))
    degraded(test, site, journal, 2, "read-only", "Read-only file system",
             lambda: start_read_only(site, place), lambda: mount("-o", "remount,rw", place))
    removed(test, site, journal)


main(body, seconds=120)
