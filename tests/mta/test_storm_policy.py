#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""A storm on a real Postfix that asks by the policy protocol alone, the hard case."""
from lib.postfix import conf_service
from lib.site import site
from lib.storm import PostfixServer, storm, storm_classes
from lib.storm_record import SERVER_TIMEOUT
from lib.testing import main

PORT = 2025


def body(test):
    service = conf_service("postfix-policy.master.cf", PORT,
                           extra=[f"smtpd_timeout={SERVER_TIMEOUT}s"])
    postfix, postern = site(test, [service], storm_classes(PORT), [PORT])
    storm(test, postern, PostfixServer(test, postfix), PORT, ("policy.0", "policy.1"))


main(body)
