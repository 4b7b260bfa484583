# SPDX-License-Identifier: ISC
"""When the machine stood still, or gave this process no time: what was promised for then is
nobody's fault, and looked at once more, or left out."""
import threading
import time

TICK, LEAST = 0.02, 0.3


class Stalls:
    """A thread that wants to be awake each TICK, and notes when it was not."""

    def __init__(self, test):
        self.found = []                 # (begin, end)
        self.looked = time.monotonic()  # all until then is noted
        self.over = threading.Event()
        threading.Thread(target=self.run, daemon=True).start()
        test.at_end(self.over.set)

    def run(self):
        while not self.over.wait(TICK):
            now = time.monotonic()
            if now - self.looked > LEAST:
                self.found.append((self.looked, now))
            self.looked = now

    def look(self):
        """One that is just over is noted."""
        now = time.monotonic()
        while self.looked < now and not self.over.is_set():
            time.sleep(TICK)            # until its thread had its turn
        return now

    def lost(self, begin, end, after=0.0, least=LEAST):
        """Seconds of that time, none of them twice; `after`: and those that others need to come
        to themselves, after one that was longer than `least`."""
        lost, last = 0.0, begin
        for a, b in list(self.found):
            a, b = max(a, last), min(b + after * (b - a > least), end)
            lost += max(0.0, b - a)
            last = max(last, b)
        return lost

    def since(self, begin):
        return self.lost(begin, self.look())

    def longer(self, seconds):
        """Those until now that were, as (begin, end)."""
        self.look()
        return [(begin, end) for begin, end in list(self.found) if end - begin > seconds]


def undisturbed(stalls, act, tries=3):
    """act() gives what it did and the time that it began at; again where the machine stood
    still since."""
    for _ in range(tries):
        result, begin = act()
        if stalls.since(begin) == 0:
            break
    return result, begin
