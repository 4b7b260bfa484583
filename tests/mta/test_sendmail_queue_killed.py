#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""Real Sendmail, whose queue Postern runs: kill -9 of the queue role, of processes that
deliver, and of all of Postern, in the middle: every recipient gets its mail, once; or once
more at most where the process was killed that delivered it, as Sendmail repeats it then.
--rounds N: so many kills of each kind."""
import contextlib
import os
import signal
import time

from lib.driven import Driven, hosts
from lib.sendmail import find_root
from lib.testing import Failed, main

SITES = hosts(10)
NAMES = list(SITES.values())
DELAY = 0.02


def kill(pid):
    try:
        os.kill(pid, signal.SIGKILL)
        return True
    except ProcessLookupError:
        return False


def kill_role(test, world):
    pids = [pid for role, pid in world.postern.roles().items() if role.startswith("queue")]
    if not pids:                        # it is being started
        return False
    return kill(pids[0])


def kill_run(test, world):
    runs = world.runs()
    return bool(runs) and kill(test.random.choice(runs))


def kill_all(test, world):
    pids = [world.postern.process.pid, *world.postern.roles().values()]
    if test.random.random() < 0.5:
        pids.reverse()
    for pid in pids:
        kill(pid)
    world.postern.process.wait(15)
    world.postern.start_again()
    return True


def forget_left_files(world):
    """Sendmail waits 8 minutes for the tf of a process that was killed; one that lives has it
    for milliseconds."""
    for file in (world.sendmail.root / "queue").glob("**/tf*"):
        with contextlib.suppress(FileNotFoundError):
            if time.time() - file.stat().st_mtime > 3:
                file.unlink()


def in_the_middle(test, world, name, how, kills, count):
    """`count` recipients of bulk, as many of single messages; kills spread over them."""
    world.far.forget()
    recipients = [f"{name}-b{n}@{NAMES[n % 10]}" for n in range(count)]
    singles = [f"{name}-s{n}@{test.random.choice(NAMES)}" for n in range(count)]
    world.submit(*recipients, sender="bulk@example.org")
    world.submit_each(singles)
    done = 0
    for n in range(kills):
        # those that are delivered twice count twice: never more than this
        test.wait_for(lambda n=n: world.far.count() >= (n + 1) * 1.6 * count / (kills + 1)
                      or world.sendmail.queued() == 0, "mail goes on", 30)
        done += how(test, world)
    took = test.poll(lambda: forget_left_files(world) or world.sendmail.queued() == 0, 30)
    test.check(took is not None, f"{name}: {done} kills; the queue is empty at the end")
    got = world.far.delivered()
    all_of_them = [*recipients, *singles]
    lost = [who for who in all_of_them if not got[who]]
    twice = {who: got[who] for who in got if got[who] > 1}
    test.equal(lost, [], f"{name}: nobody's mail is lost")
    if how is kill_run:
        test.check(all(many <= 1 + kills for many in twice.values()) and len(twice) <= 40 * done,
                   f"{name}: {len(twice)} of {2 * count} twice, where a process was killed")
    else:
        test.equal(twice, {}, f"{name}: each once")
    test.check(done >= kills / 2, f"{name}: {done} of {kills} hit")


def body(test):
    test.deaths_expected = True
    world = Driven(test, SITES, processes=4, delay=DELAY, mta='retry = "1s";')
    rounds = test.rounds or 3
    count = 100 if not test.rounds else 30 * rounds
    for name, how in (("role", kill_role), ("run", kill_run), ("all", kill_all)):
        try:
            in_the_middle(test, world, name, how, rounds, count)
        except Failed as why:
            test.check(False, f"{name}: {why}")


main(body, hosts=SITES, addresses=list(SITES), before=find_root)
