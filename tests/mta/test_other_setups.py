#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""What contrib/guides/other-setups.md says: services chrooted and not, a second instance,
submission beside them, and a Postfix that asks over TCP out of another network namespace,
as a container's does, with the guide's own lines."""
import re

from lib.document import blocks
from lib.postern import Postern, one_class
from lib.postfix import Postfix, conf_service
from lib.smtp import Session, admitted, open_sessions
from lib.testing import SOURCE, main

GUIDE = SOURCE / "contrib/guides/other-setups.md"
HERE, THERE = "172.17.0.1", "172.17.0.2"    # the guide's bridge, and the container
LIMIT = 4
ORPHAN = 2
CHROOTED, PLAIN, SECOND, SUBMISSION = 2025, 2026, 2027, 2587
CONTAINER = 2025
LOCAL = [f"127.0.0.{number}" for number in range(11, 31)]
DISTANT = [f"172.17.0.{number}" for number in range(11, 31)]


def from_guide(words):
    """The first block of the guide that has these words."""
    return next(text for text in ("\n".join(lines) + "\n" for _, lines, _ in
                                  blocks(GUIDE.read_text())) if words in text)


def zero(postern, name):
    return lambda: postern.open(name) == 0


def leave(test, postern, sessions, name, what, seconds=1.0):
    for session in sessions:
        session.quit()
    test.within(seconds, zero(postern, name), f"{what}: 0 after they have left")


def rewritten(test, postfix, reply):
    """By the guide's table for Postfix 3.11, which any Postfix can look up."""
    table = test.directory / "replies"
    table.write_text(from_guide("Too busy"))
    found = test.run(["postmap", "-c", postfix.etc, "-q", reply, f"regexp:{table}"]).strip()
    decided = re.search(r" \(id=[0-9a-z]{12}\)$", reply)
    test.equal(found, f"{reply[:9]} Too busy; please try again later{decided and decided[0]}",
               "the guide's table rewrites the reply, and keeps the id")


def on_one_host(test):
    """A class on three ports of two instances; submission asks nobody."""
    def service(port, chroot):
        line, *options = conf_service("postfix-policy.master.cf", port).splitlines(True)
        words = line.split()
        words[4] = chroot
        return " ".join(words) + "\n" + "".join(options)
    first = Postfix(test, [service(CHROOTED, "y"), service(PLAIN, "n"),
                           f"{SUBMISSION} inet n - n - - smtpd\n"])
    second = Postfix(test, [service(SECOND, "y")], name="B")

    def both(text):
        socket = f'"unix:{first.private}/postern"'
        test.equal(text.count(socket), 1, "postern.conf has one socket for policy questions")
        return text.replace(socket, f'{socket}, "unix:{second.private}/postern"')
    postern = Postern(test, [one_class("hosts", LIMIT, [CHROOTED, PLAIN, SECOND])],
                      spool=first.spool, edit=both)
    postern.start()
    for postfix, ports in ((first, (CHROOTED, PLAIN, SUBMISSION)), (second, (SECOND,))):
        postfix.start(*ports)
    for port, what in ((CHROOTED, "chrooted"), (PLAIN, "not chrooted"), (SECOND, "second instance")):
        sessions = open_sessions(("127.0.0.1", port), LOCAL[:LIMIT + 2])
        test.equal(len(admitted(sessions)), LIMIT, f"{what}: {LIMIT} of {LIMIT + 2} are let in")
        leave(test, postern, admitted(sessions), "hosts", what)
    held = [Session(("127.0.0.1", port), LOCAL[number])
            for number, port in enumerate((CHROOTED, PLAIN, SECOND, SECOND))]
    test.equal([session.code for session in held], [220] * LIMIT,
               "one class counts sessions of both instances")
    refused = Session(("127.0.0.1", PLAIN), LOCAL[9])
    test.equal(refused.code, 421, "together they fill it")
    rewritten(test, first, f"421 {refused.text}")
    test.equal(Session(("127.0.0.1", SUBMISSION), LOCAL[9]).code, 220,
               "submission lets its users in nevertheless")
    leave(test, postern, held, "hosts", "all")
    postern.stop()
    for postfix in (first, second):
        postfix.stop()


def make_container(test):
    ip = test.need("ip")
    for words in (["netns", "add", "container"],
                  ["link", "add", "name", "veth0", "type", "veth", "peer", "name", "veth1"],
                  ["link", "set", "veth1", "netns", "container"],
                  *(["addr", "add", f"{address}/24", "dev", "veth0"] for address in [HERE, *DISTANT]),
                  ["link", "set", "veth0", "up"],
                  ["-n", "container", "addr", "add", f"{THERE}/24", "dev", "veth1"],
                  ["-n", "container", "link", "set", "lo", "up"],
                  ["-n", "container", "link", "set", "veth1", "up"]):
        test.run([ip, *words])


class Contained(Postfix):
    """It runs in the container's namespace."""

    def start(self, port):
        inside = ["ip", "netns", "exec", "container"]
        self.test.run([*inside, "postfix", "-c", self.etc, "start"])
        self.test.at_end(self.stop)
        self.test.wait_for(lambda: f":{port:04X} " in self.test.run(
            [*inside, "cat", "/proc/net/tcp"]), f"Postfix listens on port {port}")


def in_a_container(test):
    make_container(test)
    lines = re.sub(r"\Asmtp ", f"{CONTAINER} ", from_guide("max_idle=1s"))
    postfix = Contained(test, [lines], name="contained")

    def over_tcp(text):
        policy = re.search(r"policy = \(.*\);", from_guide("session_proof"))[0]
        text, count = re.subn(r"policy *= *\[[^]]*\];", policy, text)
        test.equal(count, 1, "the guide's listener takes the place of the shipped one")
        return text + f'\nlease = {{ owner = "1h"; orphan = "{ORPHAN}s"; }};\n'
    postern = Postern(test, [one_class("outside", LIMIT, [CONTAINER])], name="beside",
                      spool=postfix.spool, edit=over_tcp)
    postern.start()
    postfix.start(CONTAINER)
    to = (THERE, CONTAINER)
    sessions = open_sessions(to, DISTANT[:LIMIT + 2])
    test.equal(len(admitted(sessions)), LIMIT, f"container: {LIMIT} of {LIMIT + 2} are let in")
    test.equal({row["proof"] for row in postern.sessions()}, {"lease"}, "nothing proves them")
    leave(test, postern, admitted(sessions), "outside", "container, max_idle=1s", 5.0)
    held = open_sessions(to, DISTANT[:LIMIT])
    test.equal(postern.open("outside"), LIMIT, "container: it fills again")
    postern.kill()
    test.equal(Session(to, DISTANT[9]).code, 220, "without Postern all are let in")
    postern.start_again()
    test.within(ORPHAN + 5.0, zero(postern, "outside"),
                "restarted: those that were open are forgotten by lease.orphan, as the guide says")
    test.equal([session.command("NOOP")[0] for session in held], [250] * LIMIT,
               "although they live")


def body(test):
    test.deaths_expected = True
    on_one_host(test)
    in_a_container(test)


main(body)
