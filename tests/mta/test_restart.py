#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""posternd is restarted under open sessions, with the same layout and another."""
import subprocess

from lib.postern import one_class, substitute
from lib.postfix import conf_service
from lib.scenario import leave_all, sources
from lib.site import site
from lib.smtp import Session, admitted, open_sessions
from lib.tcp_ends import live_sessions
from lib.testing import alive, main

PORTS = {"policy": 2025, "milter": 2026, "both": 2027}
EACH = 3
LIMIT = EACH * len(PORTS)


def smaller(text):
    return substitute(text, r'\bsessions *= *"64k"', 'sessions = "32k"')


def wait_until_saved(test, postern, held):
    """In the text file for its layout is different, which is written each second."""
    file = postern.shared / "state.sessions"

    def all_there():
        text = file.read_text() if file.exists() else ""
        return all(f" {address} {port} " in text
                   for address, port in (session.name for session in held))
    test.wait_for(all_there, "the sessions are saved as text")


def goes_on(test, postern, what):
    """The count is there before the first answer, and still holds."""
    test.equal(postern.open("limited"), LIMIT, f"{what}: {LIMIT} sessions are in the count")
    codes = [Session(("127.0.0.1", port), "127.0.3.1").code for port in PORTS.values()]
    test.equal(codes, [421] * len(PORTS), f"{what}: the class is still full")


def one_leaves_one_comes(test, postern, held, what):
    session = held.pop()
    session.drop()
    test.within(1.0, lambda: postern.open("limited") == LIMIT - 1, f"{what}: one has left")
    held.insert(0, Session(("127.0.0.1", session.port), "127.0.3.2"))
    held[0].port = session.port
    test.equal(held[0].code, 220, f"{what}: another is let in")


def some_leave_meanwhile(test, postern, held, classes, edit, what):
    """Who left while nobody looked is not in the count when the first is answered."""
    wait_until_saved(test, postern, held)
    postern.stop()
    gone = [held.pop(0), held.pop(), held.pop()]
    for session in gone:
        session.drop()
    names = {session.name for session in gone}
    test.wait_for(lambda: not any((address, port) in names for address, port, _ in
                                  live_sessions(set(PORTS.values()))),
                  f"{what}: Postfix has let go of who left")
    postern.configure(classes, edit=edit)
    postern.start()
    back = [Session(("127.0.0.1", session.port), "127.0.3.4") for session in gone]
    test.equal([session.code for session in back], [220] * len(gone),
               f"{what}: as many as left meanwhile are let in")
    for session, old in zip(back, gone):
        session.port = old.port
    held += back
    goes_on(test, postern, what)


def arrive(way):
    sessions = open_sessions(("127.0.0.1", PORTS[way]), sources(EACH))
    for session in sessions:
        session.port = PORTS[way]
    return sessions


def second_daemon(test, postern):
    done = subprocess.run([postern.build / "posternd", "-c", postern.file, "-f"], text=True,
                          capture_output=True, timeout=20)
    said = done.stdout + done.stderr
    test.check(done.returncode != 0, f"a second daemon stops (exit code {done.returncode})")
    test.check(str(postern.process.pid) in said, "and names the pid of the first")
    test.say(said.strip().splitlines()[-1] if said.strip() else "(nothing said)")
    test.equal(postern.status()["health"], "live", "the first goes on")


def supervisor_dies(test, postern, what):
    roles = postern.roles()
    postern.kill()
    test.within(1.0, lambda: not any(alive(pid) for pid in roles.values()),
                f"{what}: no role outlives its supervisor ({', '.join(sorted(roles))})")


def outage(test, postern, what):
    """Who comes while nobody answers is let in, and counted later."""
    before = postern.classes()["limited"]["adopted"]
    postern.stop()
    more = [Session(("127.0.0.1", port), "127.0.3.3") for port in PORTS.values()]
    test.equal(len(admitted(more)), len(PORTS), f"{what}: without a daemon all are let in")
    postern.start()
    test.within(2.0, lambda: postern.open("limited") == LIMIT + len(more),
                f"{what}: who came meanwhile is counted")
    test.equal(postern.classes()["limited"]["adopted"] - before, len(more),
               f"{what}: and shown as adopted")
    for session in more:
        session.drop()
    test.within(1.0, lambda: postern.open("limited") == LIMIT, f"{what}: until they leave")


def body(test):
    services = [conf_service(f"postfix-{way}.master.cf", port) for way, port in PORTS.items()]
    classes = [one_class("limited", LIMIT, PORTS.values())]
    _, postern = site(test, services, classes, PORTS.values())
    held = [session for way in PORTS for session in arrive(way)]
    test.equal(len(admitted(held)), LIMIT, f"{LIMIT} clients fill the class")
    postern.stop()
    postern.start()
    goes_on(test, postern, "restart")
    one_leaves_one_comes(test, postern, held, "restart")
    supervisor_dies(test, postern, "kill -9")
    postern.start()
    goes_on(test, postern, "kill -9")
    wait_until_saved(test, postern, held)
    postern.stop()
    postern.configure(classes, edit=smaller)
    postern.start()
    tables = {table["table"]: table["size"] for table in postern.status()["tables"]}
    test.check(tables["sessions"] < 65536, f"its layout is different: {tables['sessions']} slots")
    goes_on(test, postern, "its layout is different")
    one_leaves_one_comes(test, postern, held, "its layout is different")
    # Without the text file (sessions of the last second) they are adopted.
    postern.stop()
    (postern.shared / "state.sessions").unlink()
    postern.configure(classes)
    postern.start()
    test.within(2.0, lambda: postern.open("limited") == LIMIT,
                f"a layout without saved sessions: {LIMIT} are adopted")
    some_leave_meanwhile(test, postern, held, classes, None, "ends while away")
    some_leave_meanwhile(test, postern, held, classes, smaller, "ends while away, its layout is different")
    second_daemon(test, postern)
    outage(test, postern, "outage")
    leave_all(held)
    test.within(1.0, lambda: postern.open("limited") == 0, "0 after all have left")


main(body)
