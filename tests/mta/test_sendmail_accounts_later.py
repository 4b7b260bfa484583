#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""Mail over a login's limit comes in later by itself: a customer's Postfix, that logs in at a
Sendmail with sasldb, sends more than it may.  --rounds 1: the window is a minute, and nobody makes
room."""
from lib.client_queue import (HERE, SINK, SINK_PORT, ClientQueue, all_once, limits, make_room,
                              wait_for_room)
from lib.postern import Postern, one_class
from lib.sasldb import AUTH, make_logins
from lib.sendmail import Sendmail, find_root
from lib.testing import main

PORT, LOGIN = 2025, "ann@mta.example.com"


def body(test):
    is_long = test.rounds > 0
    make_logins(test, "ann")
    accounts = f"""
accounts = ( {{ name = "all"; match = "*";
  each = {{ {limits("1m" if is_long else "1h")} }}; }} );
"""
    postern = Postern(test, [one_class("all", 100, [PORT])], edit=lambda text: text.replace(
        "listen = {", f'listen = {{ milter_accounts = "unix:{test.directory}/postern/accounts";') + accounts)
    postern.start()
    sendmail = Sendmail(test, PORT, postern.root / "milter", accounts=postern.root / "accounts",
                        outbound=SINK_PORT, before=AUTH)
    sendmail.start("-q1s")
    client = ClientQueue(test, PORT, LOGIN)
    wanted = client.submit()
    if is_long:
        wait_for_room(test, client, wanted)
    else:
        make_room(test, client, postern, LOGIN, wanted)
    all_once(test, client, wanted)


main(body, addresses=(HERE, SINK), before=find_root)
