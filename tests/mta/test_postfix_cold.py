#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""Real Postfix, and a destination never delivered to before, whose server takes 5 sessions at
once: its first mail goes by the lanes of a new window, hardly any is refused, none is held.
tests/bench/cold.py has the figures beside those of a Postfix without Postern."""
import re

from lib.limiter import Limiter
from lib.outbound import REMOTE, Outbound
from lib.postern import one_class
from lib.testing import main

PORT, MESSAGES, LIMIT = 2025, 200, 5
HOSTS = {"192.0.2.11": "cold.example"}
RESULT = re.compile(r"postfix-A/(\S*smtp|error)\[\d+\]: .*@cold\.example>.* status=(\w+) \((.*)")


def body(test):
    server = Limiter(test, ["192.0.2.11"], REMOTE, LIMIT, seconds=0.2)
    site = Outbound(test, PORT, [one_class("all", 1000)])
    test.within(2, lambda: site.ask("u@cold.example") == "OK lane5:",
                "mail for an unknown domain goes by the lanes of a new window")
    test.equal(site.explain("cold.example"), ("lane", "never-seen"), "explain says so")
    for key in ("*", "u@[192.0.2.11]", "u", "@cold.example", "u@localhost@[192.0.2.11]"):
        test.equal(site.ask(key), "NOTFOUND", f"{key}: none")
    site.postfix.send(PORT, "cold.example", MESSAGES)

    def results():
        return RESULT.findall(site.postfix.log_text())
    test.wait_for(lambda: len(results()) >= MESSAGES, f"{MESSAGES} results", limit=60)
    first = results()[:MESSAGES]
    bad = [text for _, status, text in first if status != "sent"]
    test.check(len(bad) <= MESSAGES * 0.03, f"{len(bad)} of {MESSAGES} deferred, 3 % at most")
    test.equal([text for text in bad if "refused to talk to me" not in text], [],
               "none is held, nor suspended by Postfix")
    test.equal({program for program, _, _ in first} & {"smtp"}, set(),
               "none went by the transport itself")
    test.check(server.most == LIMIT, f"{server.most} sessions at once: all that it takes")


main(body, hosts=HOSTS, addresses=list(HOSTS), seconds=100)
