#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""spawn(8) of Postfix 3.10 kills postern-lookup at its time limit; older ones only say so.
Here the limit is a second, not the shipped hour: mail goes on, and no question fails."""
from lib.outbound import REMOTE, Outbound
from lib.postern import one_class
from lib.sink import Sink
from lib.testing import main

PORT = 2025
HOSTS = {"192.0.2.11": "far.example"}
MORE = 40   # messages: some seconds
LIMIT = "-o postern-hint_time_limit="


def body(test):
    sink = Sink(test, HOSTS, REMOTE)
    site = Outbound(test, PORT, [one_class("all", 100)], mta="lanes = [ ];")
    master = site.postfix.etc / "master.cf"
    text = master.read_text()
    test.equal(text.count(f"{LIMIT}3600s\n"), 1, "shipped: an hour")
    master.write_text(text.replace(f"{LIMIT}3600s", f"{LIMIT}1s"))
    site.postfix.reload()
    sent = 0

    def reached():
        nonlocal sent
        sent += 1
        site.postfix.send(PORT, "far.example", user=f"u{sent}")
        return "command time limit exceeded" in site.postfix.log_text()
    test.wait_for(reached, "the limit is reached while mail comes")
    for _ in range(MORE):
        reached()
    test.wait_for(lambda: len(sink.delivered) >= sent, "all mail is delivered")
    log = site.postfix.log_until_now()
    test.check("socketmap" not in log and "lookup error" not in log
               and "lookup problem" not in log, f"no question of {sent} messages failed")
    test.equal(log.count("status=deferred"), 0, "none was put off")
    test.say(f"limit reached {log.count('time limit exceeded')} times, killed "
             f"{log.count('killed by signal 9')} times")


main(body, hosts=HOSTS, addresses=list(HOSTS))
