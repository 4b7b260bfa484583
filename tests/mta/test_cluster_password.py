#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""Another password, in the same file: a reload reads it, so that one that was made ready is
taken without a gap; where it was not, the machine that is refused takes it within seconds.
With a wrong one that stays, Redis is not asked again and again."""
import time

from lib.cluster import LEASE, NET, REDIS, USER, Network, Node, Redis, sleep_until
from lib.testing import main

SOON = 3.0                      # a second until the file is looked at, and an attempt
WRONG = 6.0
ATTEMPTS = 8                    # in that time: a second, then longer


class World:
    def __init__(self, test):
        self.test = test
        network = Network(test, {"mx1": f"{NET}1", "redis": REDIS})
        self.redis = Redis(test, network)
        self.redis.start()
        self.node = Node(test, network, "mx1", nodes=1)
        self.node.start()
        self.joined(LEASE + SOON, "at first")

    def row(self):
        return self.node.cluster_row()

    def is_in(self):
        """By both connections."""
        return self.redis.ask("CLIENT", "LIST").count(f" user={USER} ".encode()) == 2

    def joined(self, limit, what):
        self.test.within(limit, lambda: self.is_in() and self.row()["state"] == "joined",
                         f"{what}: joined")

    def user(self, *words):
        self.redis.ask("ACL", "SETUSER", USER, *words)

    def come_anew(self):
        """Whoever is in has to say who he is again."""
        self.redis.ask("CLIENT", "KILL", "USER", USER)

    def refusals(self):
        return self.row()["errors"]["password"]

    def role(self):
        return self.node.roles().get("cluster.0")

    def made_ready(self):
        """Redis takes both, the file has the new one, a reload, and Redis takes the new one alone."""
        test, before, role = self.test, self.refusals(), self.role()
        self.node.ask("reload")
        sleep_until(time.monotonic() + 0.5)     # some turns
        test.equal(self.role(), role, "a reload with the same password ends no process")
        self.user(">second")
        self.node.write(password="second")
        self.node.ask("reload")
        test.within(SOON, lambda: self.role() not in (None, role) and self.row()["state"] == "joined",
                    "the reload has the file read again")
        self.user("resetpass", ">second")
        self.come_anew()
        self.joined(SOON, "the old one is gone")
        test.equal(self.refusals(), before, "no attempt was refused")
        test.equal(self.node.log_text().count("state=without"), 0, "and no lease has ended")

    def not_made_ready(self):
        """Redis takes another one: refused, with few attempts; the file follows."""
        before = self.refusals()
        self.user("resetpass", ">third")
        self.come_anew()
        self.test.within(SOON, lambda: self.row()["state"] == "refused", "refused")
        sleep_until(time.monotonic() + WRONG)
        self.test.check(1 <= self.refusals() - before <= ATTEMPTS,
                        f"few attempts with a wrong one: {self.refusals() - before}")
        self.node.write(password="third")
        self.joined(SOON, "the file has it, without a reload")

    def hide(self):
        """From now on nobody but root can see the file, or when it was written."""
        file = self.test.directory / "mx1-password"
        (self.test.directory / "roots").mkdir(mode=0o700)
        file.rename(self.test.directory / "roots/password")
        file.symlink_to("roots/password")

    def file_first(self, word):
        """The file has it, nothing was reloaded, Redis follows."""
        self.node.write(password=word)
        sleep_until(time.monotonic() + 1.5)     # it is looked at each second, if it is
        self.test.equal(self.row()["state"], "joined", "a file that was written alone changes nothing")
        self.user("resetpass", f">{word}")
        self.come_anew()
        self.joined(SOON, f"{word}: refused, and read again at once")


def body(test):
    world = World(test)
    world.made_ready()
    world.not_made_ready()
    world.file_first("fourth")
    world.hide()
    world.file_first("fifth")
    role = world.role()
    world.node.ask("reload")
    test.within(SOON, lambda: world.role() not in (None, role), "what cannot be seen is read after a "
                "reload")
    world.joined(SOON, "and is the same")
    words = ("second", "third", "fourth", "fifth")
    test.check(not any(word in world.node.log_text() for word in words), "no log has a password")


main(body, seconds=40)
