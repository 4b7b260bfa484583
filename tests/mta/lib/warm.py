# SPDX-License-Identifier: ISC
"""Receivers that know each message's source address, and limit what comes from it."""
from collections import Counter

from lib.sink import Sink

TOO_MANY = "450 4.7.1 too much mail from your address today"


class Receiver(Sink):
    """`most`: source address -> recipients that it takes from there; more get a 450.  Counts what
    each address tried and what was taken, by source address and group of domains."""

    def __init__(self, test, hosts, port, groups):
        self.groups = groups            # domain -> group
        self.most_from = {}
        self.fresh()
        super().__init__(test, list(hosts), port)

    def fresh(self):
        self.tried, self.accepted = Counter(), Counter()
        self.addresses = []             # of recipients that were taken
        self.throttled = Counter()      # by source address

    def reply(self, client, address):
        group = self.groups[address.rpartition("@")[2]]
        with self.lock:
            self.tried[client, group] += 1
            if sum(count for (source, _), count in self.accepted.items() if source == client) >= \
                    self.most_from.get(client, 10**9):
                self.throttled[client] += 1
                return TOO_MANY
            self.accepted[client, group] += 1
            self.addresses.append(address)
        return None
