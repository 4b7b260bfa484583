#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""Real Sendmail, whose queue Postern runs: what failed waits in the journal, not in memory, and its
runners bring it when it is due, also after kill -9 in the middle.  posternctl sendmail queue lists it
all the time."""
import json
import os
import re
import signal
import subprocess
from collections import Counter

from lib.driven import Driven, hosts
from lib.far import GOOD, REFUSING
from lib.sendmail import find_root
from lib.testing import main

SITES = hosts(8)
NAMES = list(SITES.values())
ADDRESS = {name: address for address, name in SITES.items()}
RETRY, MOST = 1, 3                      # seconds
MESSAGES, RETRIES = 200, 700


def tries(world):
    """Recipient -> how often it was tried in vain."""
    return Counter(re.findall(r"to=<(m\d+@[\w.]+)>[^\n]*stat=Deferred", world.syslog()))


def in_journal_alone(world):
    rows = {row["directory"]: row["waiting"] for row in world.postern.status()["journal"]}
    return rows.get("queue") or 0


def runners(world):
    """Runner of retries -> its place, as it was recorded last."""
    done = subprocess.run([world.postern.build / "posternctl", "-c", world.postern.file, "--json",
                           "journal", "stat"], capture_output=True, text=True, timeout=20)
    return {row["position"]: (row["file"] or 0, row["offset"] or 0)
            for row in json.loads(done.stdout)["queue"]["positions"]
            if row["position"] in (f"runner-{RETRY}s", f"runner-{MOST}s")}


def retried(test, world, recipients):
    begun, alone = {}, []

    def enough():
        begun.update(runners(world) if len(begun) < 2 else {})
        alone.append(in_journal_alone(world))
        return sum(tries(world).values()) >= MESSAGES + RETRIES
    took = test.wait_for(enough, f"{RETRIES} retries of {MESSAGES} messages", 60)
    test.check(max(alone) >= MESSAGES / 2, f"in {took:.1f} s; up to {max(alone)} waited in the journal alone")
    test.equal(set(tries(world)), set(recipients), "each was tried")
    test.within(20, lambda: begun and all(place > begun[name] for name, place in runners(world).items()),
                "the runners have moved")
    test.say(f"from {begun} to {runners(world)}")


def listed(test, world, recipients):
    """Wherever it is."""
    site = [who for who in recipients if who.endswith("@" + NAMES[0])]
    rows = world.postern.ask("sendmail", "queue")
    test.equal(len(rows), MESSAGES, "posternctl sendmail queue lists all of them")
    test.equal({row["destination"] for row in rows}, set(NAMES), "by destination")
    test.equal([row["destination"] for row in rows], sorted(row["destination"] for row in rows), "in its order")
    test.check(all(row["until"] is None or 0 < row["until"] <= MOST for row in rows) and
               any(row["wait"] == "retry" for row in rows) and all(row["tries"] >= 1 for row in rows),
               "with its tries, and when it is tried again")
    test.equal(len(world.postern.ask("sendmail", "queue", NAMES[0])), len(site), "the same for one destination")
    of_sites = world.postern.ask("sendmail", "queue", "--destinations")
    test.equal({row["destination"]: row["messages"] for row in of_sites},
               Counter(who.partition("@")[2] for who in recipients), "and summed up")
    test.equal(len(world.postern.command("sendmail", "queue", json_output=False).stdout.splitlines()), 1 + MESSAGES,
               "and as text")


def killed(test, world):
    test.deaths_expected = True
    before = tries(world)
    os.kill(world.postern.roles()["queue.0"], signal.SIGKILL)

    def all_again():
        now = tries(world)
        return all(now[who] > before[who] for who in before)
    test.within(2 * MOST + 14, all_again, "kill -9: no retry is missed by more than the interval")
    test.equal(len(world.postern.ask("sendmail", "queue")), MESSAGES, "and all are listed")


def held_and_resumed(test, world):
    """What waits for its time in the journal alone goes at once for who asks for it."""
    name = NAMES[1]
    waiting = len(world.postern.ask("sendmail", "queue", name))
    test.equal(world.postern.command("hold", name).returncode, 0, "one site is held")
    test.wait_for(lambda: {row["wait"] for row in world.postern.ask("sendmail", "queue", name)} == {"suspended"},
                  "and its mail says so")
    test.wait_for(lambda: in_journal_alone(world) >= waiting, "in the journal, too", 20)
    world.far.tell([ADDRESS[name]], does=GOOD)
    test.equal(world.postern.command("resume", name).returncode, 0, "it is resumed")
    test.within(10, lambda: world.far.count() == waiting, "its mail goes at once")


def body(test):
    world = Driven(test, SITES, processes=8, mta=f'retry = "{RETRY}s"; retry_most = "{MOST}s";')
    world.far.tell(does=REFUSING)
    world.postern.stop()
    recipients = world.fill(MESSAGES, NAMES)
    world.postern.start()
    retried(test, world, recipients)
    listed(test, world, recipients)
    killed(test, world)
    held_and_resumed(test, world)
    world.far.tell(does=GOOD)
    test.within(MOST + 30, lambda: world.far.count() >= MESSAGES, "the sites take it: all is delivered")
    world.each_once(recipients, "each once")
    world.none_queued()


main(body, hosts=SITES, addresses=list(SITES), seconds=60, before=find_root)
