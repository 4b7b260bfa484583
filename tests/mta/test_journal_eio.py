#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""The journal of a Postern that drives a real Sendmail's queue on a disk whose writes, whose
syncs, and then whose reads end with EIO: told once for each directory, with its path, counted
and shown; nobody dies of it or spins, mail flows, all is well again by itself, and what was
learned and done is there after a kill and the loss of the state file."""
import os
import shutil
import time

from lib.bad_disk import READS, SYNCS, WRITES, BadDisk
from lib.driven import Driven
from lib.journal_driven import (ROOMS, SITES, acts, counter, fares, kept, kill, mail_flows,
                                reason, told, well)
from lib.sendmail import find_root
from lib.testing import main, mount

ERROR = "Input/output error"


def work_of(pids):
    """Seconds of the processor's."""
    ticks = 0
    for pid in pids:
        with open(f"/proc/{pid}/stat") as stat:
            ticks += sum(map(int, stat.read().rpartition(")")[2].split()[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")


def lines(world, event):
    return [line for line in world.postern.log_text().splitlines() if f"event={event} " in line]


def fails(test, world, disk, calls, what):
    """While all is running."""
    roles, failures = world.postern.roles(), counter(world, "journal_failures")
    before = {room: told(world, "journal-failed", room) for room in ROOMS}
    back = {room: told(world, "journal", room) for room in ROOMS}
    work, begun = work_of(roles.values()), time.monotonic()
    disk.fail(calls)
    acts(world, what)
    mail_flows(test, world, f"{what} fail")
    test.wait_for(lambda: fares(world) == {room: ("failed", ERROR) for room in ROOMS},
                  f"{what} fail: status says so")
    tried = disk.failed()
    test.wait_for(lambda: disk.failed() > tried, f"{what} fail: it is tried again")
    work = work_of(roles.values()) - work
    share = work / (time.monotonic() - begun)
    test.check(share < 0.5, f"{what} fail: nobody spins ({share:.0%} of a processor)")
    test.equal({room: told(world, "journal-failed", room) - before[room] for room in ROOMS},
               dict.fromkeys(ROOMS, 1), f"{what} fail: it is told once of each")
    for room in ROOMS:
        line = next(line for line in reversed(lines(world, "journal-failed")) if f"room={room}" in line)
        test.check(str(world.postern.journal / room) in line and ERROR in line,
                   f"{what} fail: with the path and the error: {line.partition('event=')[2]}")
    test.wait_for(lambda: counter(world, "journal_failures") >= failures + len(ROOMS) and
                  counter(world, "journal_lost") > 0, "it is counted, and what is not kept, too")
    disk.fail(0)
    well(test, world, f"{what} go well again")
    test.equal({room: told(world, "journal", room) - back[room] for room in ROOMS},
               dict.fromkeys(ROOMS, 1), f"{what} go well again: it is told")
    test.equal(world.postern.roles(), roles, f"{what} fail: nobody has died of it")
    kept(test, world, f"{what} go well again", what)


def fails_at_the_start(test, world, disk):
    """All is lost but the journal, and that cannot be read for a while."""
    kill(test, world)
    shutil.rmtree(world.postern.root)
    before = lines(world, "journal-failed")
    disk.fail(READS)
    world.postern.start()
    mail_flows(test, world, "reads fail")
    test.wait_for(lambda: {state for state, _ in fares(world).values()} == {"failed"},
                  "reads fail: status says so")
    failed = [line for line in lines(world, "journal-failed")[len(before):] if ERROR in line]
    test.check(failed, "reads fail: it is told")
    roles = world.postern.roles()
    disk.fail(0)
    well(test, world, "reads go well again")
    test.equal(world.postern.roles(), roles, "reads fail: nobody dies of it")
    test.equal(reason(world), ("held", "syncs"), "reads go well again: what was done before is in force")
    kill(test, world)
    shutil.rmtree(world.postern.root)
    world.postern.start()
    test.equal(reason(world), ("held", "syncs"), "reads go well again: what was done before is there")


def body(test):
    test.deaths_expected = True
    world = Driven(test, SITES, start=False)
    world.postern.journal.mkdir()
    mount("-t", "tmpfs", "-o", "size=8m,mode=755", "tmpfs", world.postern.journal)
    disk = BadDisk(test, world.postern.journal)
    world.postern.environment = disk.environment
    world.postern.start()
    mail_flows(test, world, "as ever")
    well(test, world, "at first")
    fails(test, world, disk, WRITES, "writes")
    fails(test, world, disk, SYNCS, "syncs")
    fails_at_the_start(test, world, disk)


main(body, hosts=SITES, addresses=list(SITES), before=find_root, seconds=90)
