# SPDX-License-Identifier: ISC
"""A Postern that drives a real Sendmail's queue, and the journal below it: how it fares, what
it holds, and whether mail flows meanwhile."""
import json
import re
import shutil
import subprocess

from lib.driven import hosts
from lib.testing import alive

SITES = hosts(6)
NAMES = list(SITES.values())
HELD, OPEN = NAMES[0], NAMES[1:]
ROOMS = {"feed", "queue", "keeper", "decisions"}
BACK = 40                               # tried again after 30 s at most


def told(world, event, room):
    return len(re.findall(rf"event={event} .*room={room}\b", world.postern.log_text()))


def fares(world):
    """room -> (state, error)"""
    return {row["directory"]: (row["state"], row["error"]) for row in world.postern.status()["journal"]}


def counter(world, name):
    return world.postern.status()["counters"][name]


def mail_flows(test, world, what):
    world.far.forget()
    recipients = [f"u{n}@{OPEN[n % len(OPEN)]}" for n in range(20)]
    world.submit(*recipients[:10])
    world.submit_each(recipients[10:])
    world.wait_delivered(len(recipients))
    world.each_once(recipients, f"{what}: mail flows, to each once")
    world.none_queued()


def acts(world, why):
    """Enough of them that a block of the disk does not hold them."""
    for _ in range(30):
        world.postern.ask("hold", HELD, "--reason", f"{why}, " + "because it is so, " * 7)


def reason(world):
    row = next(iter(world.postern.ask("destinations", HELD)), {})
    return row.get("state"), (row.get("reason") or "").partition(",")[0]


def well(test, world, what):
    test.wait_for(lambda: fares(world) == {room: ("written", None) for room in ROOMS},
                  f"{what}: all of it is written", BACK)


def kept(test, world, what, why):
    """What was done last stands in the journal, and what was learned."""
    def there():
        rows = [json.loads(line) for line in journal(world, "dump", "--json").stdout.splitlines()]
        return (any((row["reason"] or "").startswith(why + ",") for row in rows
                    if row["type"] == "manual") and
                {row["name"] for row in rows if row["type"] == "destination"} >= set(OPEN))
    test.within(3, there, f"{what}: all that is known is in the journal")


def journal(world, *words):
    return subprocess.run([world.postern.build / "posternctl", "-c", world.postern.file, "journal", *words],
                          capture_output=True, text=True, timeout=30)


def check(world):
    return journal(world, "check")


def kill(test, world):
    """All of it, and nothing of it is open any more."""
    pids = world.postern.roles().values()
    world.postern.kill()
    test.wait_for(lambda: not any(alive(pid) for pid in pids), "the roles die with the supervisor")


def lose_all_but_the_journal(test, world, what, why):
    """Killed, and the state file is gone."""
    kept(test, world, what, why)
    # positions that speak of files that somebody removed are recorded anew
    test.wait_for(lambda: check(world).returncode == 0, f"{what}: nothing is missed", BACK)
    kill(test, world)
    shutil.rmtree(world.postern.root)
    test.equal(check(world).returncode, 0, f"{what}: the journal is whole")
    world.postern.start()
    test.equal(reason(world), ("held", why), f"{what}: what was done is there after a loss of all else")
    world.postern.ask("forget", HELD)
