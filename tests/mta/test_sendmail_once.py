#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""Real Sendmail, whose queue Postern runs, on a disk that writes queue files late, and kill -9
of everything: who was delivered, by the log, when a process died that had not written it down,
gets nothing again (mta[].exactly_once = "enforce").  With "observe" he does, and it is told.
--rounds N: so many kills, under a load that goes on, at any moment."""
import os
import re
import signal
import subprocess
import time
from pathlib import Path

from lib.driven import Driven, hosts
from lib.sendmail import find_root
from lib.testing import Skipped, main

SITES = hosts(6)
NAMES = list(SITES.values())
SENT = re.compile(r"sendmail\[(\d+)\]: (\w+): to=(\S+), delay=.*, stat=Sent")
SLOW_MS = 4000


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

    def status(self):
        return self.postern.status()["counters"]


def recipients_of(words):
    return re.findall(r"<?([^<>,\s]+@[^<>,\s]+)>?", words)


def logged(world):
    """Recipients that a line of the log tells as delivered -> lines."""
    got = {}
    for line in world.syslog().splitlines():
        match = SENT.search(line)
        if match and "mailer=esmtp" in line:
            for who in recipients_of(match[3]):
                got[who] = got.get(who, 0) + 1
    return got


def recorded(world):
    """Recipients in delivery records of the journal."""
    got = set()
    for line in world.postern.command("journal", "dump", "--type", "delivery").stdout.splitlines():
        for who in re.findall(r'"to":\s*"([^"]+)"', line):
            got.update(who.split(","))
    return got


def all_processes(world):
    programs = (str(world.sendmail.binary), str(world.postern.build / "posternd"))
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.readlink(f"/proc/{pid}/exe") in programs:
                found.append(int(pid))
        except OSError:
            continue
    return found


def kill_everything(world):
    pids = all_processes(world)
    while pids:
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        pids = all_processes(world)
    world.postern.process.wait(15)
    world.sendmail.process.wait(15)
    # Sendmail waits 8 minutes for one that a killed process has left
    for file in (world.sendmail.root / "queue").glob("**/tf*"):
        file.unlink()


def in_the_middle(test, world, name):
    """All are delivered, and none of it is written down, when everything is killed."""
    before = world.status()["deliveries_recorded"]
    world.submit("first@" + NAMES[0])       # from its line on the log is known to tell
    test.wait_for(lambda: world.status()["deliveries_recorded"] > before, "a delivery is recorded")
    world.far.forget()
    many = [f"{name}-m{n}@{NAMES[n % 3]}" for n in range(30)]
    each = [f"{name}-s{n}@{NAMES[3 + n % 3]}" for n in range(4)]
    world.late(SLOW_MS)
    world.submit(*many)
    world.submit_each(each)
    test.wait_for(lambda: all(who in logged(world) for who in [*many, *each]),
                  f"{name}: all are delivered, by the log")
    took = test.poll(lambda: set(many + each) <= recorded(world), 1.2)
    test.check(took is not None, f"{name}: a second later each has a delivery record")
    kill_everything(world)
    waits = world.sendmail.queue_text()
    left = [who for who in [*many, *each] if f"<{who}>" in waits]
    test.check(len(left) > 25, f"{name}: Sendmail's queue files list {len(left)} of them still")
    world.late(0)
    return [*many, *each], left


def afterwards(test, world, name, recipients):
    """Those that went out twice."""
    world.postern.start_again()
    world.start_sendmail()
    world.none_queued(15)
    got = world.far.delivered()
    test.equal([who for who in recipients if not got[who]], [], f"{name}: nobody's mail is lost")
    return {who for who in got if got[who] > 1}


def told(world, event):
    """IDs of what was told of it."""
    text = (world.test.logs / "postern").read_text()
    return re.findall(rf"event={event} role=\S+ id=(\w+) [^\n]*reason=delivered", text)


def explained(test, world, event, words):
    ids = told(world, event)
    if not test.check(ids, f"event={event} is in the log ({len(ids)})"):
        return
    why = world.postern.command("why", ids[-1], json_output=False).stdout
    test.check(all(word in why for word in (ids[-1], *words)), f"why {ids[-1]} explains it: {why}")


def body(test):
    test.deaths_expected = True
    world = SlowDriven(test, SITES, processes=8, mta='retry = "1s"; exactly_once = "enforce";',
                       start=False)
    world.slow_down()
    world.postern.start()
    everybody, left = in_the_middle(test, world, "enforce")
    test.equal(afterwards(test, world, "enforce", everybody), set(),
               f"enforce: none of {len(left)} goes out twice")
    test.equal(world.status()["duplicates_discarded"], len(left), "status counts them")
    explained(test, world, "discarded", ("delivered",))
    everybody, left = in_the_middle(test, world, "observe")
    world.once("observe")
    test.equal(afterwards(test, world, "observe", everybody), set(left),
               f"observe: these go out twice ({len(left)})")
    explained(test, world, "observed", ("delivered", "observe"))


main(body, hosts=SITES, addresses=list(SITES), before=find_root)
