#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""posternd is stopped, killed, or hangs, while Postfix sends by lanes and Sendmail asks:
mail goes on as without Postern, that for a suspended destination and local mail
included; none is lost or sent twice; when Postern is back, it is obeyed again."""
import os
import signal

from lib.fail_open import HOSTS, Both
from lib.sendmail import find_root
from lib.testing import alive, main


def pids(both):
    """The supervisor first: it must not start the others again."""
    return [both.postern.process.pid, *both.postern.roles().values()]


def flows(test, both, text):
    """From the first moment; and without hints, when they are older than 5 s."""
    both.both_go(f"{text}, at once")
    both.sendmail_goes(f"{text}, that for the suspended one included", held=True)
    test.within(6, lambda: both.hint("held.example") == both.hint("lane.example") == "NOTFOUND",
                f"{text}: hints are not believed for longer than 5 s")
    sent = both.both_go(f"{text}, that for the suspended one included", held=True)
    test.equal(both.went_by_lane(sent), [], f"{text}: by no lane")


def stopped(test, both):
    both.postern.stop()
    flows(test, both, "stopped")
    both.postern.start()
    both.obeyed("started again")


def killed(test, both):
    for pid in pids(both):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass                # its parent's death was its own
    both.postern.process.wait(15)
    flows(test, both, "killed")
    both.postern.start()
    both.obeyed("started after a kill")


def hangs(test, both):
    """Every process of it: nobody kills what hangs.  (Sendmail waits for an answer, up to
    30 s, as conf/sendmail-outbound.mc says.)"""
    stopped = pids(both)
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    both.both_go("hangs, at once")
    test.within(6, lambda: both.hint("held.example") == "NOTFOUND", "hangs: hints are stale")
    both.both_go("hangs, that for the suspended one included", held=True)
    if test.rounds > 0:
        both.sendmail_goes("hangs", held=True, limit=140)
    for pid in stopped:
        if alive(pid):
            os.kill(pid, signal.SIGCONT)
    test.wait_for(both.postern.ready, "it goes on")
    both.obeyed("goes on")


def roles_hang(test, both):
    """The supervisor kills what hangs."""
    for pid in both.postern.roles().values():
        os.kill(pid, signal.SIGSTOP)
    both.both_go("its roles hang")
    both.sendmail_goes("its roles hang", limit=10)
    test.wait_for(both.postern.ready, "they run again")
    both.obeyed("its roles run again")


def body(test):
    """--rounds 1 (soak): Sendmail, too, while all of it hangs."""
    both = Both(test)
    both.ready()
    stopped(test, both)
    killed(test, both)
    roles_hang(test, both)
    hangs(test, both)
    both.each_once()


main(body, hosts=HOSTS, addresses=list(HOSTS), seconds=80,
     before=lambda: find_root(required=False))
