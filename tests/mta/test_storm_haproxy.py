#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""A storm behind a real HAProxy and by XCLIENT, on a real Postfix that asks by policy, by
milter and by both."""
from lib.postfix import listening
from lib.site import site
from lib.storm_proxied import (BEHIND, BY_XCLIENT, classes, fronts, haproxy_text, services,
                               storm_proxied)
from lib.testing import main


def body(test):
    program = test.need("haproxy")
    postfix, postern = site(test, services(), classes(),
                            [*BEHIND.values(), *BY_XCLIENT.values()])
    (test.directory / "haproxy.cfg").write_text(haproxy_text())
    test.spawn([program, "-db", "-f", test.directory / "haproxy.cfg"], "haproxy")
    for port, _, _ in fronts():
        test.wait_for(lambda there=port: listening(there), f"HAProxy listens on port {port}")
    storm_proxied(test, postfix, postern)


main(body, seconds=90)
