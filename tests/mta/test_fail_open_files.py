#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""Postern's files are deleted, cut or made unreadable, and postern-lookup is killed,
while Postfix sends by lanes and Sendmail asks: mail goes on, local mail included; none is
lost or sent twice; Postern is obeyed again, at once or after a start."""
import contextlib
import os
import shutil
import signal

from lib.fail_open import HOSTS, Both
from lib.sendmail import find_root
from lib.testing import main, processes


def lookups(both):
    return [pid for pid, command in processes().items()
            if command.split()[:1] == [str(both.site.lookup)]]


def kill_lookups(both):
    for pid in lookups(both):
        with contextlib.suppress(ProcessLookupError):   # Postfix ends them, too
            os.kill(pid, signal.SIGKILL)


def lookup_killed(test, both):
    test.check(lookups(both), "Postfix runs postern-lookup")
    for _ in range(3):
        kill_lookups(both)
        sent = both.both_go("postern-lookup killed")
        test.equal(both.went_by_lane(sent), sent[:2], "postern-lookup killed: another one answers")


def unreadable(test, both):
    file = both.site.state.with_name("state.hints")
    mode = file.stat().st_mode & 0o777
    file.chmod(0)
    kill_lookups(both)
    test.equal(both.hint("held.example"), "NOTFOUND", "hints that cannot be read: none")
    both.both_go("hints that cannot be read", held=True)
    file.chmod(mode)
    both.obeyed("readable again")


def truncated(test, both, length):
    """Under the noses of the keeper, which writes there, and of postern-lookup."""
    file = both.site.state.with_name("state.hints")
    inode = file.stat().st_ino
    os.truncate(file, length)
    both.both_go(f"hints cut to {length}")
    test.within(3, lambda: file.exists() and file.stat().st_ino != inode,
                f"hints cut to {length}: there is another file")
    test.wait_for(both.postern.ready, "all roles run")
    both.obeyed(f"hints cut to {length}, made anew")


def hints_deleted(test, both):
    file = both.site.state.with_name("state.hints")
    file.unlink()
    both.both_go("hints deleted")
    both.sendmail_goes("hints deleted")
    test.within(3, file.exists, "hints deleted: they are there again")
    both.obeyed("hints made anew")


def sockets_deleted(test, both):
    for name in ("map", "milter", "control"):
        (both.postern.root / name).unlink()
    both.both_go("sockets deleted")
    both.sendmail_goes("sockets deleted", held=True)


def state_deleted(test, both):
    both.site.state.unlink()
    both.both_go("state deleted")
    both.sendmail_goes("state deleted", held=True)


def all_deleted(test, both):
    shutil.rmtree(both.postern.root)
    both.both_go("all of its files deleted")
    both.sendmail_goes("all of its files deleted", held=True)
    both.postern.stop()
    both.postern.start()
    test.wait_for(lambda: both.hint("lane.example") == "NOTFOUND" or
                  both.hint("lane.example").startswith("OK lane"), "it starts without them")
    test.wait_for(lambda: both.hint("held.example").startswith("OK retry:"),
                  "what was suspended is in the journal: it is so again")
    both.postern.command("resume", "held.example")
    test.wait_for(lambda: not both.hint("held.example").startswith("OK retry:"), "resumed")
    kill_lookups(both)                  # they have the hints of before, for 5 s
    both.both_go("started without them", held=True)
    test.wait_for(lambda: both.hint("lane.example").startswith("OK lane"), "there are lanes again")
    both.postern.ask("suspend", "held.example", "--for", "1h")
    both.obeyed("lanes learned again")


def body(test):
    both = Both(test)
    both.ready()
    lookup_killed(test, both)
    unreadable(test, both)
    size = both.site.state.with_name("state.hints").stat().st_size
    for length in (0, size // 2):
        truncated(test, both, length)
    hints_deleted(test, both)
    sockets_deleted(test, both)
    state_deleted(test, both)
    all_deleted(test, both)
    both.each_once()


main(body, hosts=HOSTS, addresses=list(HOSTS), seconds=80,
     before=lambda: find_root(required=False))
