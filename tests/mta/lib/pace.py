# SPDX-License-Identifier: ISC
"""Messages per time, as a server sees them."""
import threading
import time


def worst(times, per_minute):
    """How many more were taken in any time than the pace alone gives."""
    most = 0
    for i, begin in enumerate(times):
        for j in range(i, len(times)):
            most = max(most, j - i + 1 - (times[j] - begin) * per_minute / 60)
    return most


def rate(times):
    """A minute, between the first and the last."""
    return (len(times) - 1) / (times[-1] - times[0]) * 60


class Limit:
    """At most so many in any time of so many seconds."""

    def __init__(self, most, seconds):
        self.most, self.seconds = most, seconds
        self.tries = []                 # (when, was it taken)
        self.taken = []                 # the latest of those that were

    def takes(self):
        now = time.monotonic()
        self.taken = [at for at in self.taken if at > now - self.seconds]
        self.tries.append((now, len(self.taken) < self.most))
        if self.tries[-1][1]:
            self.taken.append(now)
        return self.tries[-1][1]

    def refused(self):
        """When."""
        return [at for at, taken in self.tries if not taken]


class Limits(dict):
    """A sink's replies: domain -> what it takes (a Limit's arguments), and the reply to the rest."""

    def __init__(self, domains, reply):
        super().__init__({domain: Limit(*limit) for domain, limit in domains.items()})
        self.lock, self.reply = threading.Lock(), reply

    def get(self, domain, otherwise=None):
        with self.lock:
            return otherwise if domain not in self or self[domain].takes() else self.reply
