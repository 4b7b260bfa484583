#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""Real Sendmail under load, whose queue Postern runs, and kill -9 of everything at once: of
Postern's processes and of all of Sendmail's, again and again, now and then with the state
file deleted as by a reboot, or while it starts.  Every recipient gets its mail once, or once
more at most for each kill that came between a delivery and Sendmail's own record of it;
what was learned and what was told by hand is there afterwards; no result counts twice.
--rounds N: so many kills."""
import re
import shutil
from collections import Counter
from pathlib import Path

from lib.driven import Driven, hosts
from lib.killed import Load, kill_everything, left_in_queue
from lib.sendmail import find_root
from lib.testing import main

SITES = hosts(12)
NAMES = list(SITES.values())
HELD, SUSPENDED, LIMITED, JUST, OPEN = *NAMES[:4], NAMES[4:]
ADDRESS = {name: address for address, name in SITES.items()}
QUEUED = 120                            # messages that wait, more or less
# Fewer in memory than are queued: the others come from the journal.
SETTINGS = "schedule = { qmgr_message_active_limit = \"40\"; };\n"


def recipients_of(number, rng):
    """Small mail, and bulk now and then; some for the sites that get nothing."""
    many = 40 if number % 10 == 0 else rng.choice((1, 1, 2, 5))
    names = OPEN + [HELD, SUSPENDED] if number % 7 == 0 and number < 200 else OPEN
    return [f"m{number}-{n}@{rng.choice(names)}" for n in range(many)]


def may_come_again(test, world, record):
    """Those that the sites have taken, and Sendmail has not written down."""
    test.wait_for(lambda: all(site["open"] == 0 for site in world.far.state().values()),
                  "every connection ends with its process")
    # Sendmail waits 8 minutes for one that a killed process has left
    for file in (world.sendmail.root / "queue").glob("**/tf*"):
        file.unlink()
    taken = world.far.delivered()
    again = [who for who in left_in_queue(world) if taken[who]]
    record.update(again)
    return len(again)


def forget_state(world):
    """As a reboot does: /run is empty."""
    shutil.rmtree(world.postern.root)


def start_again(world, ready):
    world.postern.start_again(ready)
    world.start_sendmail()


def unsent(world):
    """What waits to be delivered: a queue file may be left of a message that was, or that
    was being taken in; Sendmail's own next queue run removes it."""
    return left_in_queue(world)


def tell_what_waits(test, world):
    test.say(f"unsent: {unsent(world)}; far sites: {world.far.state()}")
    for words in (("sendmail", "queue"), ("sendmail", "queue", "--destinations"), ("sendmail", "queue", "--runs"), ("destinations",)):
        test.say(world.postern.command(*words, json_output=False).stdout)
    for file in world.sendmail.queue_files():
        test.say(f"{file}\n{file.read_text(errors='replace')}" + world.postern.command(
            "journal", "dump", "--id", file.name[2:], json_output=False).stdout)
    for pid in world.runs():
        test.say(f"{pid}: " + " ".join(f"{name} {Path(f'/proc/{pid}/{name}').read_text().strip()}"
                                       for name in ("cmdline", "wchan", "syscall")))


def row(world, name):
    return next(iter(world.postern.ask("destinations", name)), {})


def told_by_hand(world):
    """What must survive: name -> (state, reason, ceiling)."""
    return {name: tuple(row(world, name).get(key) for key in ("state", "reason", "ceiling"))
            for name in (HELD, SUSPENDED, LIMITED)}


def prepare(test, world):
    """One site takes two sessions at a time, which is learned; two are stopped by hand."""
    world.far.tell([ADDRESS[LIMITED]], limit=2)
    recipients = [f"l{n}@{LIMITED}" for n in range(60)]
    world.submit_each(recipients)
    test.wait_for(lambda: row(world, LIMITED).get("ceiling") == 2, "a ceiling of 2 is learned")
    test.wait_for(lambda: not unsent(world), "its mail is delivered", 30)
    for words in (("hold", HELD, "--reason", "moved; ask noc"),
                  ("suspend", SUSPENDED, "--for", "3h", "--reason", "maintenance")):
        test.equal(world.postern.command(*words).returncode, 0, " ".join(words))
    return recipients


def one_round(test, world, load, number, known, record):
    before = world.far.count()
    test.wait_for(lambda: world.far.count() >= before + test.random.randrange(60, 160),
                  "mail goes on", 30)
    world.postern.ask("hold", JUST, "--reason", f"just before kill {number + 1}")
    kill_everything(world, test.random)
    test.equal(world.postern.command("journal", "check").returncode, 0, f"kill {number + 1}: the journal is whole")
    again = may_come_again(test, world, record)
    reboot = number % 2 == 1
    if reboot:
        forget_state(world)
    hurry = number % 5 == 4
    start_again(world, ready=not hurry)
    if hurry:                           # and once more, while it recovers
        test.throughout(test.random.random(), lambda: True, "it starts")
        kill_everything(world, test.random)
        again += may_come_again(test, world, record)
        if reboot:
            forget_state(world)
        start_again(world, ready=True)
    test.equal(told_by_hand(world), known, f"kill {number + 1}{', with the state file' if reboot else ''}: "
               "what was learned and told by hand is there")
    test.equal(row(world, JUST).get("reason"), f"just before kill {number + 1}",
               "what was told just before it, too")
    left = row(world, SUSPENDED).get("until") or 0
    test.check(10800 - 600 - 10 * number < left <= 10800, f"and until when ({left} s)")
    return again


def counted(world):
    """Deliveries that were taken, by destination, as Postern has counted them."""
    return {line["name"]: line["ok"] for line in world.postern.ask("destinations", "--relays")
            if line["name"] in SITES.values() and line["ok"]}


def logged(world):
    """The same, as Sendmail has logged them: a line each."""
    return dict(Counter(re.findall(r" to=\S+@([\w.-]+)>, .*stat=Sent", world.syslog())))


def body(test):
    test.deaths_expected = True
    world = Driven(test, SITES, processes=6, delay=0.02, mta='retry = "1s"; retry_most = "2s";',
                   settings=SETTINGS)
    early = prepare(test, world)
    known = told_by_hand(world)
    load, record = Load(world, test.random, QUEUED, recipients_of), Counter()
    load.start()
    rounds = test.rounds or 2
    again = [one_round(test, world, load, number, known, record) for number in range(rounds)]
    load.stop()
    got = world.far.delivered()
    stopped = [who for who in got if who.endswith((HELD, SUSPENDED))]
    test.equal(stopped, [], "nothing went to the sites that were stopped by hand")
    for name in (HELD, SUSPENDED):
        world.postern.ask("resume", name)
    expected = [*early, *load.taken]
    if not test.check(test.poll(lambda: not unsent(world), 60) is not None, "all goes in the end"):
        tell_what_waits(test, world)
    got = world.far.delivered()
    lost = [who for who in expected if not got[who]]
    test.equal(lost, [], f"{rounds} kills: nobody's mail of {len(expected)} is lost")
    twice = {who: got[who] for who in got if got[who] > 1 + record[who]}
    test.equal(twice, {}, f"each once, or again where a kill came before Sendmail had written it "
               f"down ({sum(again)} might, {sum(many - 1 for many in got.values())} did)")
    invented = set(got) - set(expected) - set(load.doubtful)
    test.equal(invented, set(), "and nobody else")
    test.poll(lambda: counted(world) == logged(world), 5)
    test.equal(counted(world), logged(world), "every result that was logged counts once")


main(body, hosts=SITES, addresses=list(SITES), before=find_root, seconds=80)
