#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""Real Postfix, and a site that takes two messages a second and refuses the others: the action
slow of a reply rule finds the pace, mail waits for it, and what was refused goes, too, though
Postfix itself tries nothing again; refusals are few from then on."""
import re
import time

from lib.outbound import REMOTE, Outbound
from lib.postern import one_class
from lib.sink import Sink
from lib.testing import main

PORT, COUNT, AT_ONCE = 2025, 36, 2
HOSTS = {"198.51.100.11": "slow.example"}
PROVIDERS = "/run/t/providers.conf"
RULES = """version = 1; replies = ( { name = "slow"; match = "too fast"; class = "remote-throttle";
  action = "slow"; by = "50%"; floor = "6/1m"; up = "10%/5s"; } );
"""
PATIENT = """queue_run_delay = 2h
minimal_backoff_time = 2h
maximal_backoff_time = 4h
"""


class Replies:
    """To each recipient: a bucket that gets two a second."""

    def __init__(self):
        self.full_at, self.refused = 0.0, []

    def get(self, _, taken):
        now = time.monotonic()
        if self.full_at > now + (AT_ONCE - 1) / 2:
            self.refused.append(now)
            return "450 4.7.1 too fast"
        self.full_at = max(self.full_at, now) + 0.5
        return taken


def body(test):
    with open(PROVIDERS, "w") as file:
        file.write(RULES)
    sink = Sink(test, list(HOSTS), REMOTE)
    site = Outbound(test, PORT, [one_class("all", 10000)], main=PATIENT,
                    settings=f'providers = "{PROVIDERS}";\n')
    site.postfix.send(PORT, "slow.example", 1, user="first")
    test.wait_for(lambda: len(sink.delivered) == 1, "it was delivered to once")
    sink.replies = Replies()
    begun = time.monotonic()
    site.postfix.send(PORT, "slow.example", COUNT)
    test.wait_for(lambda: "event=pace " in site.postern.log_text(), "the pace is lowered")
    test.wait_for(lambda: len(sink.delivered) > COUNT, "all is delivered", 90)
    took = time.monotonic() - begun
    test.equal(len(set(sink.delivered)), COUNT + 1, "none is missing")
    test.equal(len(sink.delivered), COUNT + 1, "none is sent twice")
    late = sum(at > begun + 10 for at in sink.replies.refused)
    test.check(late <= 6, f"{len(sink.replies.refused)} refused, {late} of them 10 s later")
    test.check(took < 2.2 * COUNT / 2, f"{COUNT} messages in {took:.0f} s, {COUNT // 2} at least")
    held = len(re.findall(r"status=deferred \(Postern: pace of slow\.example is \S+ \(learned\)\)",
                          site.postfix.log_text()))
    test.check(held <= COUNT + 6, f"{held} lines for mail that waited")


main(body, hosts=HOSTS, addresses=list(HOSTS))
