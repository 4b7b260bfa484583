#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""tests/bench/paced.py [--waiting N] [--minutes N] [--backoff T]: what mail that waits for a pace
costs mail for other destinations, and the log.  Three Postfix at the same time: one where none
waits, one where N messages wait for a pace of 1/1s, and one without Postern that has N messages for
a server that is down.  Each gets a message for another destination in turn, again and again; shown
is how long it takes from its acceptance to its server.  T: minimal_backoff_time, by which Postfix
itself tries again.  Private to itself: needs root, and Postfix."""
import re
import socketserver
import statistics
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "mta"))
from lib.outbound import MAIN, REMOTE, Outbound     # noqa: E402
from lib.postern import one_class                   # noqa: E402
from lib.postfix import Postfix                     # noqa: E402
from lib.smtp import Session                        # noqa: E402
from lib.testing import main                        # noqa: E402

NONE, PACED, DOWN = "none", "paced", "down"
PORTS = {NONE: 2025, PACED: 2026, DOWN: 2027}
WAITS, OTHER, AWAY = "198.51.100.11", "198.51.100.12", "198.51.100.13"
HOSTS = {WAITS: "paced.example", OTHER: "other.example", AWAY: "down.example"}
SETTINGS = 'destinations = ( { match = [ "paced.example" ]; pace = "60/1m"; } );\n'
BLOCK = 300             # messages to each, whose p99 is compared
MOST = 1.05


class Taker(socketserver.StreamRequestHandler):
    """Takes everything, and remembers when."""

    def handle(self):
        recipients = []
        self.wfile.write(b"220 sink ESMTP\r\n")
        for line in self.rfile:
            verb = line[:4].upper()
            if verb == b"RCPT":
                recipients.append(line.split(b"<")[1].split(b">")[0].decode())
            if verb == b"DATA":
                self.wfile.write(b"354 go on\r\n")
                while self.rfile.readline() != b".\r\n":
                    pass
                self.server.take(recipients, time.monotonic())
                recipients = []
            self.wfile.write(b"221 bye\r\n" if verb == b"QUIT" else b"250 ok\r\n")
            if verb == b"QUIT":
                return


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = daemon_threads = True

    def __init__(self, test, address):
        super().__init__((address, REMOTE), Taker)
        self.times, self.came = {}, threading.Condition()
        test.at_end(self.server_close)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def take(self, recipients, now):
        with self.came:
            self.times.update((address, now) for address in recipients)
            self.came.notify_all()

    def wait(self, address):
        """When it came; None: not within 20 s."""
        with self.came:
            self.came.wait_for(lambda: address in self.times, 20)
            return self.times.get(address)


class Sites:
    def __init__(self, test):
        self.test = test
        self.servers = {address: Server(test, address) for address in (WAITS, OTHER)}
        more = f"minimal_backoff_time = {test.arguments.backoff}\nmaximal_backoff_time = 4h\n"
        self.postfix = {name: Outbound(test, PORTS[name], [one_class("all", 10000)], name=name, main=more,
                                       settings=SETTINGS).postfix for name in (NONE, PACED)}
        self.postfix[DOWN] = Postfix(test, [f"{PORTS[DOWN]} inet n - n - - smtpd\n"], name=DOWN,
                                     main=MAIN + more)
        self.postfix[DOWN].start(PORTS[DOWN])
        self.sessions = {name: Session(("127.0.0.1", port)) for name, port in PORTS.items()}
        self.number = 0

    def waits(self, name):
        domain = {PACED: "paced", DOWN: "down"}[name]
        return set(re.findall(rf"(\w+): to=<[^>]*@{domain}\.example>.* status=deferred",
                              self.postfix[name].log_text()))

    def fill(self, count):
        for name, domain in ((PACED, "paced.example"), (DOWN, "down.example")):
            for _ in range(0, count, 1000):
                self.postfix[name].send(PORTS[name], domain, min(1000, count), user="w")
            self.test.wait_for(lambda: len(self.waits(name)) >= 0.95 * count - 60, "all wait", 600)

    def probe(self, name):
        """Seconds."""
        self.number += 1
        address = f"p{self.number}@other.example"
        code, text = self.sessions[name].send([address])
        accepted = time.monotonic()
        came = self.servers[OTHER].wait(address) if code == 250 else None
        if came is None:
            self.test.check(False, f"{name}: {address}: {code} {text}")
            return 20
        return came - accepted


def p99(took):
    return sorted(took)[int(0.99 * len(took))]


def tell(test, took):
    for name, times in took.items():
        ordered = sorted(times)
        test.say(f"{name:<6}" + ", ".join(
            f"{text} {1000 * ordered[min(len(times) - 1, int(share * len(times)))]:.1f} ms"
            for text, share in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999))))
    blocks = range(0, len(took[NONE]) - BLOCK + 1, BLOCK)
    moved = {}
    for name in (PACED, DOWN):
        ratios = [p99(took[name][at:at + BLOCK]) / p99(took[NONE][at:at + BLOCK]) for at in blocks]
        moved[name] = statistics.median(ratios)
        test.say(f"{name} beside {NONE}: p99 of {len(ratios)} blocks of {BLOCK}: median {moved[name]:.3f} "
                 f"({min(ratios):.2f} to {max(ratios):.2f}); of all {p99(took[name]) / p99(took[NONE]):.3f}")
    return moved


def lines(test, sites, count, minutes):
    """Those that tell of held mail, but for the first of each."""
    text = sites.postfix[PACED].log_until_now()
    first, more = set(), 0
    for queue_id in re.findall(r"(\w+): to=<[^>]*@paced\.example>.* status=deferred", text):
        more += queue_id in first
        first.add(queue_id)
    each = 10 * more / minutes / count
    test.say(f"{len(first)} messages were held, with {more} more lines in {minutes:.1f} minutes: "
             f"{each:.2f} a message and ten minutes")
    return each


def body(test):
    count, seconds = test.arguments.waiting, 60 * test.arguments.minutes
    sites = Sites(test)
    for name in (NONE, PACED):
        for domain in ("other.example", "paced.example"):
            sites.postfix[name].send(PORTS[name], domain, 1, user=f"first-{name}")
    filled = time.monotonic()
    sites.fill(count)
    took = {name: [] for name in PORTS}
    begun, went = time.monotonic(), len(sites.servers[WAITS].times)
    while time.monotonic() < begun + seconds:
        names = list(took)
        test.random.shuffle(names)
        for name in names:
            took[name].append(sites.probe(name))
        time.sleep(0.05)
    now = time.monotonic()
    test.say(f"{count} wait; {len(took[NONE])} messages to each in {(now - begun) / 60:.1f} minutes; "
             f"{(len(sites.servers[WAITS].times) - went) / (now - begun):.2f} a second of those that wait went")
    moved = tell(test, took)
    each = lines(test, sites, count, (now - filled) / 60)
    test.check(moved[PACED] <= MOST, f"the p99 of others is moved by {100 * (moved[PACED] - 1):.1f} %")
    if test.arguments.backoff != "300s":
        test.check(each <= 1, "at most one line for held mail in ten minutes")


if __name__ == "__main__":
    main(body, hosts=HOSTS, addresses=list(HOSTS), seconds=3600,
         options=(("--waiting", {"type": int, "default": 10000}),
                  ("--minutes", {"type": float, "default": 10}),
                  ("--backoff", {"default": "600s"})))
