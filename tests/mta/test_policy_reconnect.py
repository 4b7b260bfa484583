#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""Policy lines alone: smtpd processes whose policy connection died with its role, or
with Postern, ask again and let nobody in unasked; and the second connection, of the
recipient list, holds no session."""
import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor

from lib.postern import one_class, substitute
from lib.postfix import conf_service
from lib.scenario import leave_all, refused_and_disconnected, sources
from lib.site import site
from lib.smtp import Session, admitted, open_sessions
from lib.stalls import Stalls
from lib.testing import main

PORT, LIMIT, CLIENTS = 2025, 3, 8
PROMPT = 1.9            # seconds: smtpd has tried once more
OWN = {"owner": 2026, "lease": 2027}    # proof of a policy socket of its own


def services():
    yield conf_service("postfix-policy.master.cf", PORT)
    for proof, port in OWN.items():
        text = conf_service("postfix-policy.master.cf", port)
        text = text.replace("unix:private/postern,", f"unix:private/postern-{proof},")
        # the second connection ends with each reply
        yield text.replace("try_limit=1,", "try_limit=1, request_limit=1,")


def own_sockets(text):
    groups = "".join(f', {{ address = "unix:/run/t/A/spool/private/postern-{proof}"; '
                     f'session_proof = "{proof}"; }}' for proof in OWN)
    return substitute(text, r"policy *= *\[ *(\"[^\"]*\") *\];",
                      'policy = ( "unix:/run/t/A/spool/private/postern"' + groups + " );")


class Timed(Session):
    def __init__(self, *words, **more):
        start = time.monotonic()
        super().__init__(*words, **more)
        self.seconds = time.monotonic() - start


def all_at_once(count):
    with ThreadPoolExecutor(max_workers=count) as pool:
        return list(pool.map(lambda source: Timed(("127.0.0.1", PORT), source), sources(count)))


def classes(limit):
    return [one_class("limited", limit, [PORT]),
            *(one_class(f"by-{proof}", LIMIT, [port]) for proof, port in OWN.items())]


def wake(test, postfix, postern):
    """As many idle smtpd processes as clients, each with a policy connection."""
    postern.configure(classes(CLIENTS), edit=own_sockets)
    postern.ask("reload")
    leave_all(admitted(open_sessions(("127.0.0.1", PORT), sources(CLIENTS))))
    test.wait_for(lambda: postern.open("limited") == 0, "all have left")
    postern.configure(classes(LIMIT), edit=own_sockets)
    postern.ask("reload")
    return postfix.policy_connections()


def kill_policy_roles(test, postern):
    old = {pid for role, pid in postern.roles().items() if role.startswith("policy")}
    for pid in old:
        os.kill(pid, signal.SIGKILL)
    test.wait_for(lambda: postern.ready() and not old & set(postern.roles().values()),
                  "other policy roles answer")


def come_after(test, postfix, postern, strike, what):
    """CLIENTS at once after the strike, and how long they waited; twice where the machine
    stood still meanwhile."""
    for _ in range(2):
        before = wake(test, postfix, postern)
        test.check(before >= CLIENTS, f"{what}: {before} idle smtpd processes keep a policy "
                                      f"connection")
        strike(test, postern)
        stalls = Stalls(test)
        sessions = all_at_once(CLIENTS)
        seconds = sorted(session.seconds for session in sessions)
        if seconds[-1] < PROMPT or stalls.since(0) == 0:
            break
        test.say(f"{what}: answers after {seconds[-1]:.2f} s: once more")
        leave_all(admitted(sessions))
    return sessions, seconds


def restart(_test, postern):
    postern.stop()
    postern.start()


def holds(test, postfix, postern, strike, what):
    sessions, seconds = come_after(test, postfix, postern, strike, what)
    inside = admitted(sessions)
    outside = [session for session in sessions if session not in inside]
    test.equal(len(inside), LIMIT, f"{what}: exactly {LIMIT} of {CLIENTS} read 220")
    test.check(refused_and_disconnected(outside), f"{what}: the others read 421")
    test.check(seconds[-1] < PROMPT, f"{what}: answers after {seconds[0]:.2f} to "
                                     f"{seconds[-1]:.2f} s")
    test.equal(postern.open("limited"), LIMIT, f"{what}: {LIMIT} in the count")
    test.equal([session.send()[0] for session in inside], [250] * LIMIT,
               f"{what}: their mail is taken")
    test.equal(postern.open("limited"), LIMIT, f"{what}: and they are in it still")
    connections = postfix.policy_connections()
    test.say(f"{what}: {connections} policy connections")
    leave_all(inside)
    test.within(1.0, lambda: postern.open("limited") == 0, f"{what}: 0 after they have left")


def two_connections(test, postfix, postern):
    """Only those smtpd processes that come to RCPT take a second one."""
    before = postfix.policy_connections()
    session = Session(("127.0.0.1", PORT), "127.0.0.9")
    test.equal(session.send()[0], 250, "a mail")
    after = postfix.policy_connections()
    test.check(after <= before + 2, f"{after - before} policy connections more by a mail")
    session.quit()
    test.wait_for(lambda: postern.open("limited") == 0, "it has left")


def second_connection_holds_nothing(test, postern, proof):
    name = f"by-{proof}"
    session = Session(("127.0.0.1", OWN[proof]), "127.0.0.9")
    test.equal(postern.open(name), 1, f"proof={proof}: counted")
    replies = [session.send(("b@example.com", "c@example.com"))[0] for _ in range(2)]
    test.equal(replies, [250, 250], f"proof={proof}: four recipients, each by a second "
                                    f"connection that ends with its reply")
    test.equal(postern.open(name), 1, f"proof={proof}: the session is in the count still")
    session.quit()


def away(test, postern):
    postern.stop()
    for _ in range(2):                  # twice where the machine stood still meanwhile
        stalls = Stalls(test)
        session = Timed(("127.0.0.1", PORT), "127.0.0.9")
        start = time.monotonic()
        test.equal((session.code, session.send()[0]), (220, 250), "without Postern mail goes")
        mail = time.monotonic() - start
        session.quit()
        if session.seconds < PROMPT and mail < 0.9 or stalls.since(0) == 0:
            break
    test.check(0.9 < session.seconds < PROMPT and mail < 0.9, f"at the price of "
               f"{session.seconds:.2f} s at the connect, {mail:.2f} s at the recipient")
    postern.start()


def body(test):
    test.deaths_expected = True
    postfix, postern = site(test, services(), classes(LIMIT), [PORT, *OWN.values()],
                            edit=own_sockets)
    two_connections(test, postfix, postern)
    holds(test, postfix, postern, kill_policy_roles, "kill -9 of the policy roles")
    holds(test, postfix, postern, restart, "restart")
    for proof in OWN:
        second_connection_holds_nothing(test, postern, proof)
    away(test, postern)


main(body)
