#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""Mail over a login's limit comes in later by itself: a customer's Postfix, that logs in at a
Postfix submission service with Dovecot SASL, sends more than it may.  --rounds 1: the window is a
minute, and nobody makes room."""
from lib.client_queue import (HERE, SINK, SINK_PORT, ClientQueue, all_once, limits, make_room,
                              wait_for_room)
from lib.dovecot import SASL, dovecot
from lib.postern import one_class
from lib.postfix import conf_service
from lib.site import site
from lib.testing import main

PORT, LOGIN = 2087, "alice@staff.example"


def body(test):
    is_long = test.rounds > 0
    accounts = f"""
accounts = ( {{ name = "staff"; match = "*@staff.example";
  each = {{ {limits("1m" if is_long else "1h")} }}; }} );
"""
    postfix, postern = site(
        test, [conf_service("postfix-accounts.master.cf", PORT, extra=SASL)],
        [one_class("some", 100, match='"198.51.100.0/24"')], [PORT],
        main=f"transport_maps = inline:{{[{SINK}]=smtp:[{SINK}]:{SINK_PORT}}}\nmynetworks =\n",
        edit=lambda text: text + accounts)
    dovecot(test, postfix, [LOGIN])
    client = ClientQueue(test, PORT, LOGIN)
    wanted = client.submit()
    if is_long:
        wait_for_room(test, client, wanted)
    else:
        make_room(test, client, postern, LOGIN, wanted)
    all_once(test, client, wanted)


main(body, addresses=(HERE, SINK))
