#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""A storm on a real Sendmail that asks by socket map and by milter."""
from lib.postern import Postern
from lib.sendmail import Sendmail, find_root
from lib.storm import SendmailServer, storm, storm_classes
from lib.storm_record import SERVER_TIMEOUT
from lib.testing import main

PORT = 2025


def body(test):
    postern = Postern(test, storm_classes(PORT))
    postern.start()
    sendmail = Sendmail(test, PORT, postern.root / "milter", connect=postern.root / "map")
    sendmail.set_option("Timeout.command", f"{SERVER_TIMEOUT}s")
    sendmail.start()
    storm(test, postern, SendmailServer(test, sendmail), PORT, ("policy.0", "policy.1", "milter.1"))


main(body, before=find_root)
