#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""Real Sendmail, whose queue Postern runs: a message is one job whatever number of files
Sendmail made of it, and its destinations are delivered side by side: 40 sites at once, one
that never greets, a share of the processes in turn, single messages past bulk, local users
beside remote mail."""
import time

from lib.driven import Driven, hosts
from lib.sendmail import find_root
from lib.testing import main

SITES = hosts(50)
NAMES = list(SITES.values())
SLOW = "sleep 2"           # LINT-SLEEP: the delivery agent of slow users
DELAY = 0.5


def connections(world):
    return sum(row["open"] for row in world.far.state().values())


def most_at_once(test, world, count, limit):
    """Connections to all sites together, at one time, until so many are delivered."""
    most = 0
    end = time.monotonic() + limit
    while world.far.count() < count and time.monotonic() < end:
        most = max(most, connections(world))
        time.sleep(0.02)                        # LINT-SLEEP: the samples
    test.check(world.far.count() >= count, f"{world.far.count()} of {count} are delivered")
    return most


def forty_sites(test, world):
    recipients = [f"u{n}@{NAMES[n]}" for n in range(40)]
    accepted = world.submit(*recipients)
    most = most_at_once(test, world, 40, 30)
    took = max(world.far.when().values()) - accepted
    test.say(f"40 recipients at 40 sites: {took:.2f} s, {most} connections at once")
    test.check(took <= 2.0 + test.noise, f"40 recipients at 40 sites of {DELAY:g} s: {took:.2f} s")
    test.check(most >= 20, f"{most} connections at once")
    world.each_once(recipients, "each once")
    world.none_queued()


def one_that_never_greets(test, world):
    world.far.forget()
    world.far.tell(delay=DELAY)
    bad = list(SITES)[7]
    world.far.tell([bad], does="silent")
    recipients = [f"v{n}@{NAMES[n]}" for n in range(40)]
    accepted = world.submit(*recipients)
    good = [who for who in recipients if not who.endswith("@" + NAMES[7])]
    test.wait_for(lambda: len(set(good) & set(world.far.when())) == len(good), "the good ones", 40)
    last = max(world.far.when()[who] for who in good) - accepted
    test.check(last <= 1.5 + test.noise,
               f"one site never greets: the last good recipient after {last:.2f} s")


def slow_local_users(test, world):
    """Two of 22 processes would be enough to hold all up; here as many local users as there
    are processes, each for seconds."""
    world.far.forget()
    world.far.tell(delay=0.05)
    (world.sendmail.root / "slow").touch()
    begun = time.monotonic()
    for n in range(30):
        world.submit("root", sender=f"n{n}@example.org")
    waits = []
    for n in range(10):
        who = f"r{n}@{NAMES[20 + n]}"
        accepted = world.submit(who)
        test.wait_for(lambda who=who: who in world.far.when(), "a remote single is delivered")
        waits.append(world.far.when()[who] - accepted)
    busy = len(world.local())
    (world.sendmail.root / "slow").unlink()
    test.say(f"remote singles waited {max(waits):.2f} s at most, "
             f"{time.monotonic() - begun:.1f} s, {busy} local ones done meanwhile")
    test.check(busy < 30 and max(waits) < 1 + test.noise,
               f"slow local users hold up no remote mail: {max(waits):.2f} s at most")
    test.wait_for(lambda: len(world.local()) >= 30, "local mail is delivered", 30)
    world.none_queued()


def split(test, world):
    """Files of one destination each; the first stays where all such mail is."""
    world.far.forget()
    world.postern.ask("hold", "--class", "all")
    recipients = [f"{who}@{NAMES[n]}" for n in range(4) for who in "abc"]
    world.submit(*recipients, "root", "nobody")
    world.submit("single@" + NAMES[2])
    found = {}
    for file in world.sendmail.queue_files():
        text = file.read_text(errors="replace")
        found.setdefault(file.parent.name, []).append(
            {line.partition("@")[2].strip(">") for line in text.splitlines()
             if line.startswith("R")})
    test.say(f"directories: {sorted(found)}")
    test.check(all(len(hosts_of) == 1 for files in found.values() for hosts_of in files),
               "each file has one destination")
    test.equal(sorted(name[0] for name, files in found.items() for _ in files),
               ["d", "d", "d", "l", "q", "q"], "one of the first, three of further ones, one for "
               "local users; and a message with one destination")
    world.postern.ask("resume", "--class", "all")
    world.wait_delivered(13)
    world.each_once([*recipients, "single@" + NAMES[2]], "each once")
    world.none_queued()


def away(test, world):
    """Postern is not there: mail is taken, and not split."""
    world.postern.stop()
    world.submit(*(f"a@{NAMES[n]}" for n in range(3)))
    test.equal([file.parent.name[0] for file in world.sendmail.queue_files()], ["q"],
               "without Postern mail is taken, in one file")
    world.postern.start()
    world.none_queued()


def body(test):
    test.noise = 4.0 if test.arguments.noise else 0.0
    world = Driven(test, SITES, processes=22, delay=DELAY)
    mda = world.sendmail.root / "mda"
    mda.write_text(mda.read_text().replace(
        "cat >", f"[ -e {world.sendmail.root}/slow ] && {SLOW}\ncat >"))
    forty_sites(test, world)
    slow_local_users(test, world)
    split(test, world)
    away(test, world)
    one_that_never_greets(test, world)


main(body, hosts=SITES, addresses=list(SITES), before=find_root,
     options=(("--noise", {"type": int, "default": 1}),))
