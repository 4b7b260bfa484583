#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""Postfix in another network namespace, behind a pair of virtual interfaces.  Where
witness.netns names it, each end counts within a second.  Where it does not, sessions
live by their owners and leases: none is dropped while its owner lives."""
import contextlib
import os
import signal
import time

from lib.postern import Postern, one_class
from lib.postfix import Postfix, conf_service
from lib.smtp import LEAVE, Herd, admitted, open_sessions
from lib.testing import main, processes

HERE, THERE = "10.9.0.1", "10.9.0.2"
POLICY, MILTER, BOTH, MORTAL = 2025, 2026, 2027, 2028
LIMIT = 6
IDLE = 2            # seconds until an idle smtpd ends, and its policy connection
ORPHAN = 2          # seconds of the lease of those without an owner
SOURCES = [f"10.9.0.{number}" for number in range(11, 31)]


def inside(*words):
    return ["ip", "netns", "exec", "mail", *words]


class Elsewhere(Postfix):
    """It runs in the namespace `mail`."""

    def start(self, *ports):
        self.test.run(inside("postfix", "-c", self.etc, "start"))
        self.test.at_end(self.stop)
        for port in ports:
            self.test.wait_for(lambda: f":{port:04X} " in self.test.run(
                inside("cat", "/proc/net/tcp")), f"Postfix listens on port {port}")


def make_namespace(test):
    ip = test.need("ip")
    for words in (["netns", "add", "mail"],
                  ["netns", "add", "spare"],
                  ["link", "add", "name", "veth0", "type", "veth", "peer", "name", "veth1"],
                  ["link", "set", "veth1", "netns", "mail"],
                  *(["addr", "add", f"{address}/24", "dev", "veth0"]
                    for address in [HERE, *SOURCES]),
                  ["link", "set", "veth0", "up"],
                  ["-n", "mail", "addr", "add", f"{THERE}/24", "dev", "veth1"],
                  ["-n", "mail", "link", "set", "lo", "up"],
                  ["-n", "mail", "link", "set", "veth1", "up"]):
        test.run([ip, *words])


def configuration(netns):
    def edit(text):
        witness = 'witness = { netns = [ "mail", "spare" ]; };\n' if netns else ""
        return text + f'\n{witness}lease = {{ owner = "1h"; orphan = "{ORPHAN}s"; }};\n'
    return edit


def zero(postern):
    return lambda: postern.open("limited") == 0


def come(test, postern, port, count, what):
    sessions = open_sessions((THERE, port), SOURCES[:count])
    test.equal(len(admitted(sessions)), min(count, LIMIT), f"{what}: {count} come to {LIMIT} places")
    test.equal(postern.open("limited"), min(count, LIMIT), f"{what}: and are counted")
    return admitted(sessions)


def exact(test, postern):
    """witness.netns: each way to leave, and a killed client."""
    for port, what in ((POLICY, "policy"), (MILTER, "milter"), (BOTH, "both")):
        held = come(test, postern, port, LIMIT + 2, what)
        for number, leave in enumerate(LEAVE):
            leave(held.pop())
            test.within(1.0, lambda: postern.open("limited") == len(held),
                        f"{what}: {leave.__name__} frees a place")
        for session in held:
            session.drop()
        test.within(1.0, zero(postern), f"{what}: 0 after all have left")
        herd = Herd(test, (THERE, port), SOURCES[:LIMIT])
        test.equal((herd.count, postern.open("limited")), (LIMIT, LIMIT), f"{what}: {LIMIT} again")
        herd.kill()
        test.within(1.0, zero(postern), f"{what}: 0 after kill -9 of the client")


def smtpd_dies(test, postern, postfix):
    # Postfix stops a service for a minute whose process did not end its first session
    held = come(test, postern, MORTAL, 3, "policy")
    mortal = [pid for pid, command in processes(postfix.master()).items()
              if command.startswith(f"smtpd -n {MORTAL} ")]
    test.check(len(mortal) >= 3, "they have an smtpd each")
    for pid in mortal:
        with contextlib.suppress(ProcessLookupError):   # one that was idle for long enough
            os.kill(pid, signal.SIGKILL)
    test.within(1.0, zero(postern), "0 after kill -9 of the smtpd processes")
    for session in held:
        session.drop()


def made_anew(test, postern):
    """A container that is started again has another namespace under the old name."""
    keeper = postern.roles()["keeper.0"]
    test.run(["ip", "netns", "add", "again"])
    test.run(["mount", "--bind", "/run/netns/again", "/run/netns/spare"])
    test.wait_for(lambda: postern.roles().get("keeper.0") not in (None, keeper)
                  and postern.ready(), "a new namespace has the keeper begin anew")
    test.check("was recreated" in postern.log_text(), "a namespace that is made anew is opened")


def by_milter(test, postern, port, what):
    held = come(test, postern, port, LIMIT + 2, what)
    test.throughout(ORPHAN + 1.0, lambda: postern.open("limited") == LIMIT,
                    f"{what}: none is dropped while it lives")
    test.check("witness" not in {row["proof"] for row in postern.sessions()},
               f"{what}: the kernel's table proves nothing of them")
    herd = Herd(test, (THERE, port), SOURCES[:1])
    test.equal(herd.codes, [421], f"{what}: and the class is full")
    for number, session in enumerate(held):
        LEAVE[number % len(LEAVE)](session)
    test.within(1.0, zero(postern), f"{what}: 0 after all have left")


def by_policy(test, postern):
    what = "policy alone"
    held = come(test, postern, POLICY, LIMIT + 2, what)
    test.throughout(ORPHAN + 1.0, lambda: postern.open("limited") == LIMIT,
                    f"{what}: none is dropped while it lives")
    for session in held[3:]:
        session.reset()
    test.throughout(0.5, lambda: postern.open("limited") >= 3, f"{what}: three still live")
    test.within(IDLE + 1.5, lambda: postern.open("limited") == 3,
                f"{what}: the ended are forgotten with their policy connections")
    test.equal([session.command("NOOP")[0] for session in held[:3]], [250] * 3,
               f"{what}: the three that count do live")
    # The next session of an smtpd process ends the one before.
    for session in held[:3]:
        session.quit()
    test.within(IDLE + 1.5, zero(postern), f"{what}: 0 after the owners' ends")


def by_lease(test, postern):
    """Whoever asked is gone with its role: leases of orphans run."""
    held = come(test, postern, POLICY, 3, "orphans")
    roles = postern.roles()
    start = time.monotonic()
    for name, pid in roles.items():
        if name.startswith("policy"):
            os.kill(pid, signal.SIGKILL)
    test.throughout(ORPHAN / 2, lambda: postern.open("limited") == 3
                    or time.monotonic() - start > ORPHAN,       # it was long to ask
                    "orphans: a role's death ends nothing")
    test.within(ORPHAN / 2 + 3, zero(postern), "orphans: 0 by their lease")
    for session in held:
        session.drop()


def body(test):
    test.deaths_expected = True
    make_namespace(test)
    classes = [one_class("limited", LIMIT, [POLICY, MILTER, BOTH, MORTAL])]
    postfix = Elsewhere(test, [conf_service(f"postfix-{name}.master.cf", port, extra=["max_idle=2s"])
                               for name, port in (("policy", POLICY), ("milter", MILTER),
                                                  ("both", BOTH), ("policy", MORTAL))])
    postern = Postern(test, classes, spool=postfix.spool, edit=configuration(True))
    postern.start()
    postfix.start(POLICY, MILTER, BOTH, MORTAL)
    exact(test, postern)
    made_anew(test, postern)
    smtpd_dies(test, postern, postfix)
    postern.stop()
    postern.configure(classes, configuration(False))
    postern.start()
    by_milter(test, postern, MILTER, "milter")
    by_milter(test, postern, BOTH, "both")
    by_policy(test, postern)
    by_lease(test, postern)


main(body)
