#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""Real Postfix, and mail that waits for a destination: held without a connection while it
is suspended, tried again when it comes back, oldest first and no more at a time than its
window; other mail is left alone."""
import json
import re
import subprocess
import time

from lib.outbound import REMOTE, Outbound
from lib.postern import one_class
from lib.sink import Sink
from lib.testing import main

PORT, WINDOW = 2025, 3
DEAD, GREY, OTHER = "198.51.100.11", "198.51.100.12", "198.51.100.13"
HOSTS = {DEAD: "dead.example", GREY: "grey.example", OTHER: "other.example"}
SETTINGS = f"""window = {{ initial_destination_concurrency = {WINDOW};
  destination_concurrency_limit = {WINDOW}; suspend = "@SUSPEND@"; }};
destinations = ( {{ match = [ "other.example" ]; window = {{ suspend = "1h"; }}; }} );
"""
# Postfix itself tries nothing again meanwhile.
PATIENT = """queue_run_delay = 2h
minimal_backoff_time = 2h
maximal_backoff_time = 4h
"""


class World:
    """Of `others` messages each wait for two destinations that are not dead.example."""

    def __init__(self, test, suspend, others):
        self.test, self.others = test, others
        self.sink = Sink(test, list(HOSTS), REMOTE)
        self.site = Outbound(test, PORT, [one_class("all", 10000)],
                             settings=SETTINGS.replace("@SUSPEND@", suspend), main=PATIENT)
        self.postfix = self.site.postfix
        self.sink.replies["grey.example"] = "450 4.2.0 greylisted"
        for name in ("dead.example", "other.example"):
            self.postfix.send(PORT, name, 1, user="first")
        test.wait_for(lambda: len(self.sink.delivered) == 2, "each was delivered to once")
        # lanes keep connections from the first message on, and mail goes by those
        test.wait_for(lambda: not self.sink.open, "no connection is kept any more")
        self.sink.refuse(OTHER)
        self.sink.deaf.add(DEAD)
        self.postfix.send(PORT, "grey.example", others)
        self.postfix.send(PORT, "other.example", others)
        self.waits(0)
        test.wait_for(lambda: self.results("grey.example") >= others
                      and self.results("other.example") >= others + 1, "and are in the log")

    def queue(self):
        """Messages of the deferred queue."""
        lines = subprocess.run(["postqueue", "-c", self.postfix.etc, "-j"], text=True,
                               capture_output=True).stdout.splitlines()
        return [message for message in map(json.loads, lines)
                if message["queue_name"] == "deferred"]

    def waits(self, count):
        """So many besides the others."""
        self.test.wait_for(lambda: len(self.queue()) == 2 * self.others + count,
                           f"{count} messages wait", 30 + self.others / 10)

    def send(self, count, user="u"):
        self.postfix.send(PORT, "dead.example", count, user=user)

    def events(self, word):
        """Ours about dead.example."""
        return [line for line in self.site.postern.log_text().splitlines()
                if f"event={word}" in line and "dead.example" in line]

    def lists_read(self):
        return self.site.postern.log_text().count("read the list of the queue")

    def deliveries_read(self):
        return self.site.postern.status()["counters"]["feed_deliveries"]

    def results(self, name):
        """Lines of the log that tell what became of a recipient of that domain."""
        return len(re.findall(rf"to=<[^>]*@{re.escape(name)}>.* status=",
                              self.postfix.log_text()))

    def delivered(self):
        return [address for address in self.sink.delivered
                if address.endswith("@dead.example") and not address.startswith("first")]


def held(test, world, count):
    """Refusals, and then no connection any more."""
    world.send(count)
    test.wait_for(lambda: world.events("suspended"), "dead.example is suspended")
    world.waits(count)
    before = world.sink.heard
    test.check(before <= 20, f"suspended after {before} connections")
    test.wait_for(lambda: world.site.ask("x@dead.example").startswith("OK retry:4.7.1 Postern: "),
                  "the hint says so")
    world.send(5, "later")
    world.waits(count + 5)
    test.equal(world.sink.heard, before, "mail that comes later is held without a connection")
    test.within(1.0, lambda: "status=deferred (Postern: dead.example is suspended"
                in world.postfix.log_text(), "and the log of Postfix says why")


def back(test, world, count, how):
    """It is there again since now, and `count` messages are waiting."""
    began = time.monotonic()
    test.within(5.0, world.delivered, f"{how}: the first delivery comes within 5 s")
    test.wait_for(lambda: len(world.delivered()) >= count, f"{how}: all is delivered",
                  30 + count / 10)
    test.say(f"{how}: {len(world.delivered())} deliveries in {time.monotonic() - began:.1f} s")
    world.waits(0)
    test.equal(len(world.delivered()), count, f"{how}: none is sent twice")
    test.equal(len(set(world.delivered())), count, f"{how}: none is missing")
    test.check(world.sink.most.get(DEAD, 0) <= WINDOW, f"{how}: {world.sink.most.get(DEAD)} "
               f"connections at a time at most, the window is {WINDOW}")


def oldest_first(test, world):
    """By the time that Postfix took them, which is told in seconds."""
    users = [address.split("@")[0] for address in world.delivered()]
    # smtp-source puts a number before or, from Postfix 3.9 on, behind the name
    late = [n for n, user in enumerate(users) if "later" in user]
    test.check(min(late) >= len(users) - len(late) - WINDOW - 1,
               "the oldest went first: those that came later are among the last")


def by_itself(test, world, count):
    before = world.results("grey.example"), world.results("other.example")
    held(test, world, count)
    world.sink.deaf.discard(DEAD)
    world.sink.most.clear()
    test.wait_for(lambda: world.events("back"), "its time is over", 400)
    back(test, world, count + 5, "the suspension ended")
    oldest_first(test, world)
    test.equal((world.results("grey.example"), world.results("other.example")), before,
               "no other destination was tried again")
    requeued = world.site.postern.status()["counters"]["requeued"]
    test.check(requeued <= len(world.delivered()) + 10,
               f"{requeued} times postqueue -i for {len(world.delivered())} messages")


def by_hand(test, world, count):
    """Held by hand, and the daemon starts anew meanwhile: the list of the queue tells."""
    world.sink.delivered.clear()
    world.site.postern.ask("hold", "dead.example")
    test.wait_for(lambda: world.site.ask("x@dead.example").startswith("OK retry:"),
                  "held by hand")
    world.send(count, "hand")
    world.waits(count)
    read = world.lists_read()
    world.site.postern.stop()
    world.site.postern.start()
    test.wait_for(lambda: world.lists_read() > read, "read the list of the queue")
    test.equal(len(world.delivered()), 0, "a new start: it is held still")
    world.site.postern.ask("resume", "dead.example")
    back(test, world, count, "resumed by hand")


def alone(test, world, address, *what):
    """One message: Postfix would take the answer of before, and defer it once more each time."""
    def deferred():
        return len(re.findall(rf"to=<{re.escape(address)}>.* status=deferred",
                              world.postfix.log_until_now()))

    held_name = " ".join(what)
    world.sink.delivered.clear()
    world.site.postern.ask("hold", *what)
    test.wait_for(lambda: world.site.ask(address).startswith("OK retry:"), f"{held_name} is held")
    read = world.deliveries_read()
    world.send(1, address.split("@")[0])
    test.wait_for(lambda: world.deliveries_read() > read, "its message was deferred")
    test.equal(deferred(), 1, "deferred once")
    requeues = world.site.postern.log_text().count("event=requeue ")
    world.site.postern.ask("resume", *what)
    test.within(3, lambda: world.site.postern.log_text().count("event=requeue ") > requeues,
                f"{held_name} is back for the mail that waits")
    time.sleep(2)  # LINT-SLEEP: nothing is to happen
    world.postfix.send(PORT, "grey.example", 1)
    test.within(10, world.delivered, f"{held_name}: delivered when Postfix has looked up another")
    test.equal((world.delivered(), deferred()), ([address], 1),
               f"{held_name}: resume makes no more deferred lines")


def body(test):
    """--rounds N (soak): N messages for dead.example, 3 times as many for others."""
    count = test.rounds or 25
    world = World(test, "6s" if test.rounds == 0 else "300s", 3 * test.rounds // 2 or 10)
    by_itself(test, world, count)
    by_hand(test, world, count)
    alone(test, world, "alone@dead.example", "dead.example")
    alone(test, world, "one@dead.example", "one@dead.example")
    alone(test, world, "classed@dead.example", "--class", "all")


main(body, hosts=HOSTS, addresses=list(HOSTS))
