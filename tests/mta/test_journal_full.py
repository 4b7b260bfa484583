#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""The journal of a Postern that drives a real Sendmail's queue on a disk that is full, that
is read-only, whose files are removed, damaged or of a later version: it is told once, and
counted, mail flows, and all is well again by itself as soon as it can be; what was learned
and done meanwhile is then there after a kill and the loss of the state file, too."""
import shutil

from lib.driven import Driven
from lib.journal_driven import (BACK, ROOMS, SITES, acts, check, counter, fares, kept, kill,
                                lose_all_but_the_journal, mail_flows, reason, told, well)
from lib.journal_file import File
from lib.sendmail import find_root
from lib.testing import main, mount


def full(test, world):
    """No room, until there is some."""
    mail_flows(test, world, "as ever")
    well(test, world, "at first")
    with open(world.postern.journal / "filler", "wb", buffering=0) as file:
        try:
            while file.write(bytes(65536)) > 0:
                pass
        except OSError:
            pass
    acts(world, "full")

    def all_failed():       # the last page of a file may have room for what some seconds bring
        mail_flows(test, world, "a full disk")
        return fares(world) == {room: ("failed", "No space left on device") for room in ROOMS}
    test.wait_for(all_failed, "a full disk: status says so")
    test.check("No space left on device" in world.postern.command("status", json_output=False).stdout,
               "also as text")
    mail_flows(test, world, "a full disk, again")
    test.equal([told(world, "journal-failed", room) for room in ROOMS], [1] * 4, "it is logged once for each")
    test.wait_for(lambda: counter(world, "journal_lost") > 0 and counter(world, "journal_failures") >= 3,
                  "and it is counted")
    (world.postern.journal / "filler").unlink()
    well(test, world, "there is room again")
    test.equal([told(world, "journal", room) for room in ROOMS], [1] * 4, "that is logged, too")
    mail_flows(test, world, "there is room again")
    lose_all_but_the_journal(test, world, "after a full disk", "full")


def removed(test, world):
    """Somebody cleans up."""
    acts(world, "removed")
    well(test, world, "before")
    for room in ROOMS:
        shutil.rmtree(world.postern.journal / room)
    mail_flows(test, world, "directories were removed")
    test.wait_for(lambda: all((world.postern.journal / room).is_dir() for room in ROOMS),
                  "directories that were removed are made again")
    well(test, world, "they were removed")
    kept(test, world, "they were removed", "removed")
    acts(world, "cleaned")
    for room in ROOMS:
        for path in (world.postern.journal / room).iterdir():
            path.unlink()
    mail_flows(test, world, "files were removed")
    test.wait_for(lambda: all(list((world.postern.journal / room).glob("*.log")) for room in ROOMS),
                  "files that were removed are written anew", BACK)
    well(test, world, "files were removed")
    lose_all_but_the_journal(test, world, "after files were removed", "cleaned")


def read_only(test, world):
    """As a disk is after an error; found so at the start."""
    acts(world, "read-only")
    mail_flows(test, world, "before")
    well(test, world, "before")
    kill(test, world)
    shutil.rmtree(world.postern.root)
    mount("-o", "remount,ro", world.postern.journal)
    world.postern.start()
    test.equal(reason(world), ("held", "read-only"), "a read-only disk: what stands there is read")
    mail_flows(test, world, "a read-only disk")
    test.wait_for(lambda: {state for state, _ in fares(world).values()} == {"failed"},
                  "a read-only disk: status says so")
    mount("-o", "remount,rw", world.postern.journal)
    well(test, world, "it can be written again")
    mail_flows(test, world, "it can be written again")
    lose_all_but_the_journal(test, world, "after a read-only disk", "read-only")


def damaged(test, world):
    """Bits have flipped all over it, and a later Postern has written to it."""
    mail_flows(test, world, "before")
    well(test, world, "before")
    kill(test, world)
    spoiled = 0
    for path in world.postern.journal.glob("*/*.log"):
        data = bytearray(path.read_bytes())
        for at in range(200, len(data), 300):
            data[at] ^= 1 << test.random.randrange(8)
            spoiled += 1
        path.write_bytes(data)
    for room in ROOMS:
        last = max((world.postern.journal / room).glob("*.log"))
        path = File(room, int(last.stem) + 1, 10**6, (int(last.stem), last.stat().st_size),
                    version=9).write(world.postern.journal / room)
        shutil.chown(path, "postern", "postern")
    done = check(world)
    if not test.check(done.returncode == 65 and "damage: " in done.stdout and "a later Postern" in done.stdout,
                      f"{spoiled} bits have flipped, and files of a later version: check tells of both"):
        test.say(f"{done.returncode} {done.stdout} {done.stderr}")
    shutil.rmtree(world.postern.root)
    world.postern.start()
    mail_flows(test, world, "a damaged journal")
    test.wait_for(lambda: "event=journal-damaged" in world.postern.log_text(), "that it was damaged is logged")
    test.wait_for(lambda: counter(world, "journal_damaged") > 0, "and counted")
    well(test, world, "a damaged journal")
    test.equal([len(list((world.postern.journal / room).glob("*.log"))) > 1 for room in ROOMS], [True] * len(ROOMS),
               "files of a later version are kept")


def body(test):
    test.deaths_expected = True
    world = Driven(test, SITES, start=False)
    world.postern.journal.mkdir()
    mount("-t", "tmpfs", "-o", "size=2m,mode=755", "tmpfs", world.postern.journal)
    world.postern.start()
    full(test, world)
    removed(test, world)
    read_only(test, world)
    damaged(test, world)


main(body, hosts=SITES, addresses=list(SITES), before=find_root, seconds=110)
