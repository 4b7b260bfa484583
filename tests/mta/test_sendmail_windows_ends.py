#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""Windows and real Sendmail, when something dies: roles, a delivering process, the whole
daemon, its files.  Places stay exact, and mail flows on as without Postern, local mail
included."""
import os
import signal

from lib.leaving import Site, outbound_class
from lib.sendmail import find_root
from lib.testing import main

HOSTS = {"198.51.100.11": "h1.slow.example", "198.51.100.12": "h2.slow.example"}
CLASSES = [outbound_class("all", '"*"', 1000)]
SETTINGS = """window = { initial_destination_concurrency = 2; destination_concurrency_limit = 2; };
"""


def in_flight(site, name="h1.slow.example"):
    return {row["name"]: row["in_flight"] for row in site.postern.ask("destinations")}.get(name)


def kill_roles(test, site, kind):
    def there():
        return {role: pid for role, pid in site.postern.roles().items() if role.startswith(kind)}
    before = there()
    for pid in before.values():
        os.kill(pid, signal.SIGKILL)
    test.wait_for(lambda: len(there()) == len(before)
                  and not set(there().values()) & set(before.values()), f"{kind} runs again")


def two_held(test, site):
    """Two deliveries wait at the server, a third one was not let through."""
    for n in range(3):
        site.submit(f"u{n}@h1.slow.example")
    site.sink.held = True
    runs = site.runs(3)
    site.finish_held(runs, 2)
    test.equal(in_flight(site), 2, "two are in flight")
    return [run for run in runs if run.poll() is None]


def roles_die(test, site):
    runs = two_held(test, site)
    for kind in ("policy", "keeper", "feed"):
        kill_roles(test, site, kind)
        test.equal(in_flight(site), 2, f"{kind} killed: both places are kept")
    site.finish(site.runs())
    test.equal(len(site.sink.waiting()), 2, "and no third delivery runs")
    site.kill(runs[0])
    test.within(1.5, lambda: in_flight(site) == 1, "kill -9 of a delivering process: its place is free")
    site.sink.held = False
    site.finish(runs[1:])
    test.within(1.5, lambda: in_flight(site) == 0, "the other's, when it has ended")
    site.drain()
    test.equal(site.delivered(), [f"u{n}@h1.slow.example" for n in range(3)],
               "all is delivered, each once")


def flows(test, site, how):
    """More at once than the window holds, and local mail."""
    site.forget()
    log = len(site.syslog())
    recipients = [f"{how}{n}@h2.slow.example" for n in range(4)]
    for recipient in recipients:
        site.submit(recipient)
    site.submit("root@localhost")
    site.sink.held = True
    runs = site.runs(4)
    test.wait_for(lambda: len(site.sink.waiting()) == 4, f"{how}: all four are delivered at once")
    site.sink.held = False
    site.finish(runs)
    test.equal(site.delivered(), sorted(recipients), f"{how}: mail flows, each once")
    test.check("mailer=local" in site.syslog()[log:], f"{how}: local mail, too")
    for file in (site.sendmail.root / "queue").iterdir():
        file.unlink()                   # there is no local delivery agent


def the_daemon_dies(test, site):
    two_held(test, site)
    site.postern.kill()
    site.sink.held = False
    test.wait_for(lambda: not site.sink.open, "killed: what was under way ends")
    site.drain()
    flows(test, site, "killed")
    site.postern.start()
    test.within(2, lambda: in_flight(site) in (None, 0), "the next daemon knows that all have ended")
    runs = two_held(test, site)
    site.sink.held = False
    site.finish(runs)
    site.drain()
    site.postern.stop()
    flows(test, site, "stopped")


def its_files_are_deleted(test, site):
    site.postern.start()
    for file in [*site.postern.root.iterdir(), *site.postern.shared.iterdir()]:
        if file.is_file():
            file.unlink()
    site.forget()
    site.submit("deleted@h1.slow.example")
    site.submit("root@localhost")
    site.finish(site.runs())
    test.equal(site.delivered(), ["deleted@h1.slow.example"], "its files deleted: mail flows")
    (site.postern.root / "map").unlink()
    flows(test, site, "gone")


def body(test):
    test.deaths_expected = True
    site = Site(test, CLASSES, list(HOSTS), settings=SETTINGS)
    roles_die(test, site)
    the_daemon_dies(test, site)
    its_files_are_deleted(test, site)


main(body, hosts=HOSTS, addresses=list(HOSTS), before=find_root)
