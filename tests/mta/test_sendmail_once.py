#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""Real Sendmail, whose queue Postern runs, on a disk that writes queue files late, and kill -9
of everything: who was delivered, by the log, when a process died that had not written it down,
gets nothing again (mta[].exactly_once = "enforce").  With "observe" he does, and it is told.
--rounds N: so many kills with each, under a load that goes on, at any moment."""
import os
import re
import signal
import subprocess
import time
from pathlib import Path

from lib.driven import Driven, hosts
from lib.killed import Load, kill_everything, left_in_queue
from lib.sendmail import find_root
from lib.testing import Skipped, main

SITES = hosts(6)
NAMES = list(SITES.values())
SENT = re.compile(r"sendmail\[\d+\]: \w+: to=(\S+), .*mailer=esmtp, .*stat=Sent \(")
SLOW_MS = 4000
LATE_MS = (0, 0, 20, 200, 2000)         # a disk on most days, and on some
QUEUED = 60


class SlowDriven(Driven):
    """Runs of its queue write late while they are told to."""

    def slow_down(self):
        library = self.test.directory / "slow_queue.so"
        source = Path(__file__).parent / "lib/slow_queue.c"
        built = subprocess.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", "-O1", "-o",
                                library, source, "-ldl"], capture_output=True, text=True)
        if built.returncode != 0:
            raise Skipped(f"no library to be slow with: {built.stderr}")
        self.file = self.test.directory / "slow_queue"
        self.late(0)
        program = self.sendmail.root / "program"
        program.write_text(program.read_text().replace(
            "LD_LIBRARY_PATH", f"SLOW_QUEUE={self.file} LD_PRELOAD={library} LD_LIBRARY_PATH", 1))

    def late(self, milliseconds):
        self.file.write_text(f"{milliseconds}\n")

    def once(self, how):
        """The setting; from the next start on."""
        text = self.postern.file.read_text()
        self.postern.file.write_text(re.sub(r'exactly_once = "\w+"', f'exactly_once = "{how}"', text))

    def counters(self):
        return self.postern.status()["counters"]

    def kill(self):
        kill_everything(self, self.test.random)
        self.test.wait_for(lambda: all(site["open"] == 0 for site in self.far.state().values()),
                           "every connection ends with its process")
        self.forget_left_files()

    def forget_left_files(self):
        """Sendmail waits 8 minutes for one that a killed process has left, and leaves those
        without a recipient to its own next queue run."""
        for file in (self.sendmail.root / "queue").glob("**/tf*"):
            file.unlink()
        for file in self.sendmail.queue_files():
            if not re.search(r"(?m)^R", file.read_text(errors="replace")):
                file.unlink()

    def start_again(self):
        self.postern.start_again()
        self.start_sendmail()


def logged(world):
    """Recipients that the log tells as delivered, each as often as it does."""
    return [who.strip("<>") for line in world.syslog().splitlines()
            for match in [SENT.search(line)] if match
            for who in match[1].rstrip(",").split(",")]


def recorded(world):
    """Recipients in delivery records of the journal."""
    dump = world.postern.command("journal", "dump", "--type", "delivery").stdout
    return {who for words in re.findall(r'"to":\s*"([^"]+)"', dump) for who in words.split(",")}


# --- all at one moment --------------------------------------------------------------------


def kill_runs(world):
    """Alone: all else goes on."""
    for pid in world.runs():
        os.kill(pid, signal.SIGKILL)
    world.forget_left_files()


def in_the_middle(test, world, name, kill=SlowDriven.kill):
    """All are delivered, and none of it is written down, when they are killed."""
    before = world.counters()["deliveries_recorded"]
    world.submit("first@" + NAMES[0])       # from its line on the log is known to tell
    test.wait_for(lambda: world.counters()["deliveries_recorded"] > before, "a delivery is recorded")
    world.far.forget()
    # so many and so long that Sendmail cuts the list into several lines of the log
    many = [f"{name}-m{n}-{'x' * 50}@{NAMES[n % 3]}" for n in range(60)]
    each = [f"{name}-s{n}@{NAMES[3 + n % 3]}" for n in range(4)]
    world.late(SLOW_MS)
    world.submit(*many)
    world.submit_each(each)
    test.wait_for(lambda: set(many + each) <= set(logged(world)),
                  f"{name}: all are delivered, by the log")
    took = test.poll(lambda: set(many + each) <= recorded(world), 1.2)
    test.check(took is not None, f"{name}: a second later each has a delivery record")
    kill(world)
    waits = world.sendmail.queue_text()
    left = [who for who in [*many, *each] if f"<{who}>" in waits]
    test.check(len(left) > 55, f"{name}: Sendmail's queue files list {len(left)} of them still")
    world.late(0)
    return [*many, *each], left


def afterwards(test, world, name, recipients):
    """Those that went out twice."""
    world.none_queued(15)
    got = world.far.delivered()
    test.equal([who for who in recipients if not got[who]], [], f"{name}: nobody's mail is lost")
    return {who for who in got if got[who] > 1}


def explained(test, world, event, words):
    text = (test.logs / "postern").read_text()
    ids = re.findall(rf"event={event} role=\S+ id=(\w+) [^\n]*reason=delivered", text)
    if not test.check(ids, f"event={event} is in the log ({len(ids)})"):
        return
    why = world.postern.command("why", ids[-1], json_output=False).stdout
    test.check(all(word in why for word in (ids[-1], *words)), f"why {ids[-1]} explains it: {why}")


def short(test, world):
    everybody, left = in_the_middle(test, world, "run", kill_runs)
    test.equal(afterwards(test, world, "run", everybody), set(),
               f"runs alone: none of {len(left)} goes out twice")
    before = world.counters()["duplicates_discarded"]
    test.equal(before, len(left), "status counts them")
    everybody, left = in_the_middle(test, world, "enforce")
    world.start_again()
    test.equal(afterwards(test, world, "enforce", everybody), set(),
               f"enforce: none of {len(left)} goes out twice")
    test.equal(world.counters()["duplicates_discarded"] - before, len(left), "status counts them")
    explained(test, world, "discarded", ("removed from its queue file",))
    everybody, left = in_the_middle(test, world, "observe")
    world.once("observe")
    world.start_again()
    test.equal(afterwards(test, world, "observe", everybody), set(left),
               f"observe: these go out twice ({len(left)})")
    explained(test, world, "observed", ("would be removed from its queue file",))


# --- at any moment --------------------------------------------------------------------------


def recipients_of(number, rng):
    many = 40 if number % 10 == 0 else rng.choice((1, 1, 2, 5))
    return [f"m{number}-{n}@{rng.choice(NAMES)}" for n in range(many)]


def one_kill(test, world):
    """When it began and was over, and what stood in the log then."""
    before = world.far.count()
    world.late(test.random.choice(LATE_MS))
    test.wait_for(lambda: world.far.count() >= before + test.random.randrange(40, 140),
                  "mail goes on", 60)
    begins = time.monotonic()
    world.kill()
    ends, lines = time.monotonic(), set(logged(world))
    world.start_again()
    return begins, ends, lines


def second_times(world):
    """(recipient, when it was first delivered) of those that were delivered again."""
    first, again = {}, []
    for when, _, recipients in world.far.deliveries():
        for who in recipients:
            if who in first:
                again.append((who, first[who]))
            first.setdefault(who, when)
    return again


def at_any_moment(test, world, how, rounds):
    world.once(how)
    world.kill()
    world.start_again()
    world.far.forget()
    load = Load(world, test.random, QUEUED, lambda number, rng: [
        f"{how}-{who}" for who in recipients_of(number, rng)])
    load.start()
    kills = [one_kill(test, world) for _ in range(rounds)]
    load.stop()
    world.late(0)
    test.check(test.poll(lambda: not left_in_queue(world), 60) is not None, "all goes in the end")
    got = world.far.delivered()
    test.equal([who for who in load.taken if not got[who]], [],
               f"{how}: {rounds} kills: nobody's mail of {len(load.taken)} is lost")
    again = second_times(world)
    told, certain = [], []
    for who, first in again:
        begins, _, lines = next((kill for kill in kills if kill[1] >= first), (first, 0, ()))
        if who in lines:
            told.append(who)
            if begins - first >= 1.0:
                certain.append(who)
    test.say(f"{how}: {rounds} kills, {len(load.taken)} recipients: {len(again)} came twice, of "
             f"{len(told)} of them a line stood in the log at the kill, and {len(certain)} had "
             f"been delivered a second before")
    counters = world.counters()
    test.say(f"{how}: " + ", ".join(f"{name} {counters[name]}" for name in (
        "deliveries_recorded", "deliveries_not_recorded", "duplicates_discarded",
        "duplicates_observed")))
    return certain


def body(test):
    test.deaths_expected = True
    world = SlowDriven(test, SITES, processes=8, mta='retry = "1s"; retry_most = "2s"; '
                       'exactly_once = "enforce";', start=False)
    world.slow_down()
    world.postern.start()
    if not test.rounds:
        short(test, world)
        return
    at_any_moment(test, world, "observe", test.rounds)
    test.equal(at_any_moment(test, world, "enforce", test.rounds), [],
               "enforce: nobody who was delivered, by the log, a second before a kill")


main(body, hosts=SITES, addresses=list(SITES), before=find_root, seconds=60)
