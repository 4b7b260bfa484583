#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""Real Postfix asks by both: policy opens, the milter's close releases."""
from lib.postern import one_class
from lib.postfix import conf_service
from lib.scenario import reads_as_explained, whole
from lib.site import site
from lib.testing import main

PORT, LIMIT = 2025, 8


def body(test):
    postfix, postern = site(test, [conf_service("postfix-both.master.cf", PORT)],
                            [one_class("limited", LIMIT, [PORT])], [PORT])
    whole(test, postern, ("127.0.0.1", PORT), "limited", LIMIT)
    reads_as_explained(test, postern, ("127.0.0.1", PORT), "limited", LIMIT, "policy")
    test.check(postfix.policy_connections() > 0, "smtpd keeps "
               f"{postfix.policy_connections()} policy connections, and 0 are counted")


main(body)
