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
        self.over = threading.Event()
        threading.Thread(target=self.run, daemon=True).start()
        test.at_end(self.over.set)

    def run(self):
        last = time.monotonic()
        while not self.over.wait(TICK):
            now = time.monotonic()
            if now - last > LEAST:
                self.found.append((last, now))
            last = now

    def lost(self, begin, end, after=0.0):
        """Seconds of that time; `after`: and those that others need to come to themselves."""
        return sum(max(0.0, min(b + after, end) - max(a, begin)) for a, b in list(self.found))

    def since(self, begin):
        time.sleep(2 * TICK)            # LINT-SLEEP: of one that is just over it hears now
        return self.lost(begin, time.monotonic())


def undisturbed(stalls, act, tries=3):
    """act() gives what it did and the time that it began at; again where the machine stood
    still since."""
    for _ in range(tries):
        result, begin = act()
        if stalls.since(begin) == 0:
            break
    return result, begin
