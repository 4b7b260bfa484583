#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""tests/bench/slow.py [--minutes N] [--limit N] [--up P/T]: a site that answers 421 4.7.28 to
what is above its messages per minute, and three senders with the same mail, half more than it
takes, at the same time: Postfix as it is, Postern with a rule that suspends, and Postern with
the shipped rules, but for how fast the pace rises.  One table; the last of them must get at least
90 % of what the site takes, with at most 2 % of its attempts refused in the second half.  Private to itself: needs root,
and Postfix."""
import re
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "mta"))
from lib.outbound import MAIN, REMOTE, Outbound     # noqa: E402
from lib.pace import Limits                         # noqa: E402
from lib.postern import one_class                   # noqa: E402
from lib.postfix import Postfix                     # noqa: E402
from lib.sink import Sink                           # noqa: E402
from lib.smtp import Session                        # noqa: E402
from lib.testing import SOURCE, main                # noqa: E402

REFUSAL = ("421 4.7.28 Gmail has detected an unusual rate of unsolicited mail originating from your "
           "IP address. To protect our users from spam, mail sent from your IP address has been "
           "temporarily rate limited.")
WARM, STOCK, SUSPEND, SLOW = "warm", "stock", "suspend", "slow"
PORTS = {STOCK: 2025, SUSPEND: 2026, SLOW: 2027}
# The provider "google" of the shipped rules is known by its relays.
NAMES = {STOCK: "stock-mx.google.com", SUSPEND: "suspend-mx.google.com", SLOW: "slow-mx.google.com"}
HOSTS = {f"198.51.100.{11 + n}": name for n, name in enumerate(NAMES.values())}
SUSPENDS = """version = 1;
replies = ( { name = "ip-rate"; match = "^4[0-9][0-9] 4\\\\.7\\\\.28 .*unusual (rate|amount) of";
  class = "remote-throttle"; action = "suspend"; for = "10m"; threshold = "3/10m"; } );
"""


class Sender:
    """A Postfix, and what its log tells."""

    def __init__(self, test, name, rules):
        self.test, self.name, self.port = test, name, PORTS[name]
        if rules is None:
            self.postfix = Postfix(test, [f"{self.port} inet n - n - - smtpd\n"], name=name, main=MAIN)
            self.postfix.start(self.port)
            return
        file = test.directory / f"{name}.conf"
        file.write_text(rules)
        site = Outbound(test, self.port, [one_class("all", 10000)], name=name,
                        settings=f'providers = "{file}";\n')
        self.postfix = site.postfix

    def send(self, user):
        session = Session(("127.0.0.1", self.port))
        code, text = session.send([f"{user}@{NAMES[self.name]}"])
        if code != 250:
            self.test.check(False, f"{self.name}: {user}: {code} {text}")
        session.quit()

    def row(self, limits, begun, seconds):
        site = limits[NAMES[self.name]]
        tried = [(at, taken) for at, taken in site.tries if begun <= at < begun + seconds]
        late = [taken for at, taken in tried if at >= begun + seconds / 2]
        taken = sum(taken for _, taken in tried)
        log = self.postfix.log_until_now()
        waits = re.findall(r"(\w+): to=<[^>]*>.* status=deferred \((.*)", log)
        return {"delivered": taken, "per hour": round(taken * 3600 / seconds),
                "of what it takes": 100 * taken / (site.most * seconds / 60),
                "tried": len(tried), "refused": 100 * (len(tried) - taken) / max(1, len(tried)),
                "refused, 2nd half": 100 * (len(late) - sum(late)) / max(1, len(late)),
                "mails it deferred": len({queue_id for queue_id, why in waits if "4.7.28" in why}),
                "lines for held mail": sum("Postern: " in why for _, why in waits)}


def follow(test, senders, seconds, per_minute):
    """The same arrivals for each."""
    begun, at, number = time.monotonic(), 0.0, 0
    while True:
        at += test.random.expovariate(per_minute / 60)
        if at >= seconds:
            break
        time.sleep(max(0, begun + at - time.monotonic()))
        threads = [threading.Thread(target=sender.send, args=(f"u{number}",)) for sender in senders]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        number += 1
    time.sleep(max(0, begun + seconds - time.monotonic()))
    return begun, number


def body(test):
    seconds, most = test.arguments.minutes * 60, test.arguments.limit
    sink = Sink(test, list(HOSTS), REMOTE)
    shipped = (SOURCE / "conf/providers.conf").read_text()
    shipped = shipped.replace('action = "slow";', f'action = "slow"; up = "{test.arguments.up}";')
    senders = [Sender(test, STOCK, None), Sender(test, SUSPEND, SUSPENDS), Sender(test, SLOW, shipped)]
    for sender in senders:
        sender.send(WARM)
    test.wait_for(lambda: len(sink.delivered) == len(senders), "each has delivered")
    limits = sink.replies = Limits({name: (most, 60) for name in NAMES.values()}, REFUSAL)
    begun, number = follow(test, senders, seconds, 1.5 * most)
    test.say(f"{number} messages in {seconds / 60:g} minutes, to a site that takes {most} a minute")
    rows = {sender.name: sender.row(limits, begun, seconds) for sender in senders}
    for figure in rows[SLOW]:
        test.say(f"{figure:<20}" + "".join(
            f"{name:>10} {rows[name][figure]:>6.4g}" for name in rows))
    for name in NAMES.values():
        got = [address for address in sink.delivered if address.endswith("@" + name)]
        test.equal(len(set(got)), len(got), f"{name}: nothing is sent twice")
    slow = rows[SLOW]
    test.check(slow["of what it takes"] >= 90, f"{slow['of what it takes']:.1f} % of what the site takes")
    test.check(slow["refused, 2nd half"] <= 2,
               f"{slow['refused, 2nd half']:.1f} % of attempts refused in the second half")


if __name__ == "__main__":
    main(body, hosts=HOSTS, addresses=list(HOSTS), seconds=3600,
         options=(("--minutes", {"type": float, "default": 10}),
                  ("--limit", {"type": int, "default": 30}),
                  ("--up", {"default": "10%/1m"})))
