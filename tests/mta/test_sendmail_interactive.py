#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""Sendmail with DeliveryMode=interactive: a process that delivers to the class of its own
client counts once, as XLA has it; one that delivers what another one took counts, too."""
import threading

from lib.leaving import PORT, Site, outbound_class
from lib.sendmail import find_root
from lib.smtp import Session
from lib.testing import main

HOSTS = {"127.0.1.1": "a.both.example", "127.0.1.2": "b.both.example"}
CLIENT = "127.0.7.1"
CLASSES = [outbound_class("both", f'"{CLIENT}", "*.both.example"', 3, "refuse_at = 9;")]


class Client(threading.Thread):
    """A session whose message is delivered before its end of DATA is answered."""

    def __init__(self, *recipients):
        super().__init__()
        self.session = Session(("127.0.0.1", PORT), CLIENT)
        self.recipients, self.code = recipients, None
        self.start()

    def run(self):
        self.code = self.session.send(self.recipients)[0]


def rows(site):
    return sorted(row["direction"] for row in site.postern.sessions() if row["class"] == "both")


def total(site):
    return site.postern.classes()["both"]["open"]


def body(test):
    site = Site(test, CLASSES, HOSTS, connect=test.directory / "postern/map")
    site.sendmail.process.terminate()
    site.sendmail.process.wait(10)
    site.sendmail.set_option("DeliveryMode", "interactive")
    site.sendmail.start()
    site.sink.held = True
    clients = [Client("u@a.both.example"), Client("v@b.both.example")]
    test.wait_for(lambda: len(site.sink.waiting()) == 2, "both deliver within their sessions")
    test.equal((total(site), rows(site)), (2, ["inbound", "inbound"]),
               "two processes, with a client and a server each, count two")
    third = Client("w@a.both.example")
    third.join(20)
    test.equal((third.code, total(site), len(site.sink.open)), (250, 3, 2),
               "a third is let in, and its mail waits: the class has 3 of 3")
    third.session.quit()
    test.within(1.0, lambda: total(site) == 2, "it has left")
    run = site.runs()
    test.wait_for(lambda: len(site.sink.waiting()) == 3, "a queue run delivers what waited")
    test.equal((total(site), rows(site)), (3, ["inbound", "inbound", "outbound"]),
               "it is a process of its own, and counts")
    site.sink.held = False
    site.finish(run)
    for client in clients:
        client.join(20)
        test.equal(client.code, 250, "delivered, and answered")
        client.session.quit()
    site.none_open("both")


main(body, hosts=HOSTS, before=find_root)
