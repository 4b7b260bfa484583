#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""Real Postfix asks by the policy protocol at CONNECT."""
from lib.postern import one_class
from lib.postfix import conf_service
from lib.scenario import whole
from lib.site import site
from lib.testing import main

PORT, LIMIT = 2025, 8


def body(test):
    postfix, postern = site(test, [conf_service("postfix-policy.master.cf", PORT)],
                            [one_class("limited", LIMIT, [PORT])], [PORT])
    whole(test, postern, ("127.0.0.1", PORT), "limited", LIMIT)
    test.check(postfix.policy_connections() > 0, "smtpd keeps "
               f"{postfix.policy_connections()} policy connections, and 0 are counted")
    proofs = {row["proof"] for row in postern.sessions()}
    test.equal(proofs, set(), "no session is left in the table")


main(body)
