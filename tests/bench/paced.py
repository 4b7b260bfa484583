#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""tests/bench/paced.py [--waiting N] [--probes N]: what mail that waits for a pace costs mail
for other destinations.  A real Postfix with Postern; how long messages for another destination
take from their acceptance to their server, one by one; then N messages for a destination with a
pace of 1/1s wait, and the same once more.  Private to itself: needs root, and Postfix."""
import re
import socketserver
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "mta"))
from lib.outbound import REMOTE, Outbound           # noqa: E402
from lib.postern import one_class                   # noqa: E402
from lib.smtp import Session                        # noqa: E402
from lib.testing import main                        # noqa: E402

PORT = 2025
PACED, OTHER = "198.51.100.11", "198.51.100.12"
HOSTS = {PACED: "paced.example", OTHER: "other.example"}
SETTINGS = 'destinations = ( { match = [ "paced.example" ]; pace = "60/1m"; } );\n'
PATIENT = """queue_run_delay = 2h
minimal_backoff_time = 2h
maximal_backoff_time = 4h
"""


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
                now = time.monotonic()
                self.server.times.update((address, now) for address in recipients)
                recipients = []
            self.wfile.write(b"221 bye\r\n" if verb == b"QUIT" else b"250 ok\r\n")
            if verb == b"QUIT":
                return


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = daemon_threads = True

    def __init__(self, test, address):
        super().__init__((address, REMOTE), Taker)
        self.times = {}
        test.at_end(self.server_close)
        threading.Thread(target=self.serve_forever, daemon=True).start()


def probe(test, server, name, count):
    """Seconds, ascending."""
    took = []
    session = Session(("127.0.0.1", PORT))
    for n in range(count):
        address = f"{name}{n}@other.example"
        session.send([address])
        accepted = time.monotonic()
        test.wait_for(lambda: address in server.times, "a message arrives")
        took.append(server.times[address] - accepted)
    session.quit()
    return sorted(took)


def tell(test, text, took):
    at = {share: 1000 * took[min(len(took) - 1, int(len(took) * share))]
          for share in (0.5, 0.9, 0.99)}
    test.say(f"{text}: p50 {at[0.5]:.1f}, p90 {at[0.9]:.1f}, p99 {at[0.99]:.1f} ms")


def body(test):
    count, probes = test.arguments.waiting, test.arguments.probes
    site = Outbound(test, PORT, [one_class("all", 10000)], settings=SETTINGS, main=PATIENT)
    servers = {address: Server(test, address) for address in HOSTS}
    for name in HOSTS.values():
        site.postfix.send(PORT, name, 1, user="first")
    test.wait_for(lambda: all(server.times for server in servers.values()), "each was reached")
    for turn in range(2):
        tell(test, f"none waits ({turn})", probe(test, servers[OTHER], f"a{turn}-", probes))
    site.postfix.send(PORT, "paced.example", count, user="w")
    test.wait_for(lambda: len(re.findall(r"@paced\.example>.* status=deferred",
                                         site.postfix.log_text())) >= 0.95 * count,
                  "all wait", 300)
    for turn in range(2):
        went = len(servers[PACED].times)
        began = time.monotonic()
        took = probe(test, servers[OTHER], f"b{turn}-", probes)
        tell(test, f"{count} wait ({turn})", took)
        test.say(f"    and {(len(servers[PACED].times) - went) / (time.monotonic() - began):.2f} "
                 "a second of these went")


if __name__ == "__main__":
    main(body, hosts=HOSTS, addresses=list(HOSTS), seconds=900,
         options=(("--waiting", {"type": int, "default": 10000}),
                  ("--probes", {"type": int, "default": 500})))
