#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""What was learned and done by hand outlives kill -9 of everything, and the loss of the
state and its text files (as by a reboot).  A real Postfix, without a driven queue."""
import os
import pwd
import signal
import stat

from lib.journal import Journal
from lib.limiter import Limiter
from lib.outbound import REMOTE, Outbound
from lib.postern import one_class
from lib.testing import alive, main, processes

PORT = 2025
HOSTS = {"192.0.2.11": "limited.example", "192.0.2.12": "gone.example",
         "192.0.2.13": "open.example"}
CLASSES = [one_class("all", 1000)]


def kill_everything(test, site):
    master = site.postfix.master()
    for pid in [*processes(master), master]:
        os.kill(pid, signal.SIGKILL)
    site.postern.kill()
    test.wait_for(lambda: not alive(master), "Postfix is dead")


def learned(test, site, journal, limited, gone):
    """Ceilings, a dead destination, and all that people do."""
    site.postfix.send(PORT, "limited.example", 60)
    test.wait_for(lambda: limited.count("limited.example") >= 20, "deliveries run")
    gone.down()
    site.postfix.send(PORT, "gone.example", 20)
    test.wait_for(lambda: journal.destinations().get("gone.example", {}).get("state") == "dead",
                  "one is suspended by its failures")
    for words in (("suspend", "open.example", "--for", "1h", "--reason", "their wish"),
                  ("hold", "held.example", "--reason", "until they call"),
                  ("limit", "set.example", "--window", "4", "--ceiling", "6"),
                  ("hold", "joe@open.example", "--reason", "over quota"),
                  ("hold", "again.example"), ("resume", "again.example")):
        site.postern.ask(*words)
    test.wait_for(lambda: journal.destinations()["limited.example"]["ceiling"] == 3,
                  "a ceiling is learned", limit=30)


def directories(test, journal):
    place = journal.postern.journal
    test.equal(sorted(path.name for path in place.iterdir()), ["decisions", "feed", "keeper"],
               "a site without a driven queue has no queue/")
    owner = pwd.getpwnam("postern").pw_uid
    for path in place.iterdir():
        status = path.stat()
        test.equal((stat.S_IMODE(status.st_mode), status.st_uid), (0o700, owner),
                   f"{path.name}/ is the roles' own")
        test.check(all(stat.S_IMODE(file.stat().st_mode) == 0o600 for file in path.iterdir()),
                   "and so are its files")
    test.equal(journal.states(), {room: ("written", None) for room in
                                  ("feed", "keeper", "decisions")}, "status shows them")


def all_of(test, site, limited, count):
    """Queue runs, as those that were refused wait for them."""
    def run():
        if limited.count("limited.example") < count:
            site.postfix.flush()
            test.poll(lambda: limited.count("limited.example") >= count, 1)
        return limited.count("limited.example") >= count
    test.wait_for(run, f"{count} are delivered", limit=45)


def counted_once(test, site, domain):
    """When Postfix has nothing to do, all of it is logged, and the log is read."""
    test.wait_for(lambda: not any(
        file.is_file() for place in ("maildrop", "incoming", "active")
        for file in (site.postfix.spool / place).rglob("*")), "no mail is on its way")
    sent = sum(f"@{domain}>" in line and "status=sent" in line and "smtp[" in line
               for line in site.postfix.log_until_now().splitlines())

    def counted():
        return next(row["ok"] for row in site.postern.ask("destinations", "--relays")
                    if row["name"] == domain)
    test.wait_for(lambda: not any(row["log_unread"] for row in site.postern.status()["mtas"]),
                  "the log is read")
    test.poll(lambda: counted() >= sent, 5)
    test.equal(counted(), sent, f"each delivery to {domain} counted once: {sent}")


def outlives_all(test, site, journal, limited):
    all_of(test, site, limited, 60)
    test.wait_for(journal.settled, "what was learned is written")
    before = journal.destinations()
    # the last action, and then at once
    site.postern.ask("hold", "last.example", "--reason", "just now")
    kill_everything(test, site)
    journal.lose_state()
    site.postern.start()
    after = journal.destinations()
    journal.same(before, after, "the state is gone")
    test.equal((after["last.example"]["state"], after["last.example"]["reason"]),
               ("held", "just now"), "what was done just before is there too")
    test.equal(site.postern.status()["recipients_held"], 1, "a recipient is held")
    test.equal(set(journal.told("journal-failed").values()), {0}, "nothing has failed")
    test.check('text="restored learned state and manual actions"' in site.postern.log_text(),
               "the log says where it came from")
    test.check(site.postern.status()["counters"]["journal_restored"] >= len(before),
               "and it is counted")
    test.within(2, lambda: site.ask("u@gone.example").startswith(
        "OK retry:4.7.1 Postern: gone.example is suspended"), "Postfix is told so")
    site.postfix.start(PORT)
    counted_once(test, site, "limited.example")
    site.postfix.send(PORT, "limited.example", 30, user="more")
    all_of(test, site, limited, 90)


def while_it_runs(test, site, journal, limited):
    """Killed in the middle of deliveries: twice."""
    for round_ in range(2):
        site.postfix.send(PORT, "limited.example", 40, user=f"run{round_}")
        test.wait_for(lambda: limited.count("limited.example") >= 100 + 40 * round_,
                      "deliveries run")
        kill_everything(test, site)
        journal.lose_state()
        site.postern.start()
        site.postfix.start(PORT)
        site.postfix.flush()
        test.equal(journal.destinations()["limited.example"]["ceiling"], 3,
                   "the ceiling is there")

    all_of(test, site, limited, 168)
    counted_once(test, site, "limited.example")


def body(test):
    limited = Limiter(test, ["192.0.2.11"], REMOTE, limit=3, seconds=0.1)
    gone = Limiter(test, ["192.0.2.12"], REMOTE, seconds=0.05)
    site = Outbound(test, PORT, CLASSES, settings="window = { suspend = \"10m\"; };\n")
    journal = Journal(test, site.postern)
    directories(test, journal)
    learned(test, site, journal, limited, gone)
    outlives_all(test, site, journal, limited)
    while_it_runs(test, site, journal, limited)


main(body, hosts=HOSTS, addresses=list(HOSTS), seconds=100)
