# SPDX-License-Identifier: ISC
"""A driven Sendmail under load, and kill -9 of all of it and of Postern at once."""
import os
import re
import signal
import threading
import time
from collections import Counter

from lib.driven import PORT
from lib.smtp import Session


class Load(threading.Thread):
    """Hands mail to Sendmail until it is stopped, whatever dies meanwhile; `most` queue files
    at a time."""

    def __init__(self, world, rng, most, recipients):
        super().__init__(daemon=True)
        self.world, self.random, self.most = world, rng, most
        self.recipients = recipients    # of the message of that number
        self.number = 0
        self.taken = []                 # recipients of messages that Sendmail took
        self.doubtful = []              # the dot was sent, and no answer came
        self.going = True

    def submit(self, recipients):
        """True: taken; False: not; None: nobody knows."""
        session = Session(("127.0.0.1", PORT), limit=10.0)
        try:
            if session.code != 220 or session.data(recipients)[0] != 354:
                return False
            code = session.command("Subject: test\r\n\r\ntest\r\n.")[0]
            return None if code == 0 else code == 250
        finally:
            session.close()

    def one(self):
        self.number += 1
        recipients = self.recipients(self.number, self.random)
        while self.going:
            done = self.submit(recipients)
            if done is not False:
                (self.doubtful if done is None else self.taken).extend(recipients)
                return
            time.sleep(0.05)            # Sendmail is away

    def run(self):
        while self.going:
            if self.world.sendmail.queued() < self.most:
                self.one()
            else:
                time.sleep(0.02)

    def stop(self):
        self.going = False
        self.join(15)


def all_processes(world):
    """A run of the queue that was just being started is Postern's until it is Sendmail's."""
    programs = (str(world.sendmail.binary), str(world.postern.build / "posternd"))
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.readlink(f"/proc/{pid}/exe") in programs:
                found.append(int(pid))
        except OSError:
            continue
    return found


def kill_everything(world, rng):
    """Nobody has the time to write anything down; then again, for those that were just
    being started."""
    pids = all_processes(world)
    rng.shuffle(pids)
    while pids:
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        pids = all_processes(world)
    world.postern.process.wait(15)
    world.sendmail.process.wait(15)


def left_in_queue(world):
    """Recipients that the queue files have."""
    return Counter(re.findall(r"(?m)^R\w*:<?([^<>\s]+)>?$", world.sendmail.queue_text()))
