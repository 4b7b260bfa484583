#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""Every command of README is tried, in its order, and the files that it names are there.
What cannot be tried stands here, with the reason."""
from pathlib import Path

from lib.document import Reader
from lib.examples import CODES, LEFT_OUT, readme
from lib.limiter import Limiter
from lib.machine import HERE, Machine
from lib.testing import SOURCE, main

FAR = {"192.0.2.11": "d.example"}


class World(Machine):
    def __init__(self, test):
        super().__init__(test)
        self.postfix()
        self.sink = Limiter(test, list(FAR), 25, seconds=0.02)
        Path("/etc/mail").mkdir(exist_ok=True)
        Path("/etc/mail/sendmail.cf").write_text("L/etc/sendmail.la\nL*.customer.fr 8 8\n")
        self.begin()
        self.start_postfix()

    def learned(self):
        """A mail went to d.example, and the log is read."""
        self.test.run(["smtp-source", "-f", "ann@example.com", "-t", "u@d.example", f"{HERE}:25"])
        self.test.wait_for(lambda: self.asked("destinations", "d.example"), "the log is read")


def body(test):
    world = World(test)
    steps, paths = readme(SOURCE / "README")
    missing = [f"README:{line}: {path}" for line, path in paths if not (SOURCE / path).exists()]
    test.equal(missing, [], f"README: the {len(paths)} files that it names are there")
    reader = Reader(test, LEFT_OUT, before=(
        (r"posternctl sessions --class", lambda: world.test.run(["posternctl", "reload"])),
        (r"posternctl destinations", world.learned)), codes=CODES)
    reader.follow(SOURCE / "README", steps)


main(body, hosts=FAR, addresses=[HERE, *FAR])
