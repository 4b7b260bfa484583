#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""Real Sendmail and its outbound questions: Postern's roles are killed, Postern is
away (open and closed), the site has rules of its own, and local mail."""
import os
import signal

from lib.leaving import OUT, PORT, Site, outbound_class
from lib.sendmail import Sendmail, find_root
from lib.testing import main

HOSTS = {f"127.0.1.{n}": f"h{n}.slow.example" for n in range(1, 6)}
NAMES = list(HOSTS.values())
CLASSES = [outbound_class("slow", '"*.slow.example"', 2),
           outbound_class("rest", '"*"', 0, "refuse_at = 100;")]
# A check_compat and a tls_server of the site's own, which must go on working.
OWN_RULES = """LOCAL_RULESETS
Scheck_compat
R$* $| $* forbidden @ $*\t$#error $@ 4.7.1 $: "451 4.7.1 the site forbids it"
LOCAL_RULESETS
SLocal_tls_server
R$*\t$: $&{server_name}
Rh5.slow.example\t$#error $@ 4.7.1 $: "450 4.7.1 the site wants none of h5"
"""
# FEATURE(`compat_check'), too.
ACCESS = "/run/t/access"
COMPAT_CHECK = f"""FEATURE(`access_db', `text -k0 -v1 -T<TMPF> {ACCESS}')dnl
FEATURE(`compat_check')dnl
"""
OPEN = "R$* <TMPF>\t\t$: OK"
CLOSED = "R$* <TMPF>\t\t$: DEFER Postern does not answer"


def policies(site):
    return {role: pid for role, pid in site.postern.roles().items() if role.startswith("policy")}


def roles_are_killed(test, site):
    for name in NAMES[:3]:
        site.submit(f"u@{name}")
    site.sink.held = True
    runs = site.runs(2)
    site.finish_held(runs, 2)
    before = policies(site)
    for pid in before.values():
        os.kill(pid, signal.SIGKILL)
    test.wait_for(lambda: len(policies(site)) == len(before)
                  and not set(policies(site).values()) & set(before.values()),
                  "the policy roles run again")
    test.throughout(1.5, lambda: site.open("slow") == 2,
                    "policy roles killed: the slots are kept while the processes live")
    third = site.runs()
    site.finish(third)
    test.equal(len(site.sink.pids()), 2, "policy roles killed: a third process is still deferred")
    site.kill(runs[0])
    test.within(5.0, lambda: site.open("slow") == 1, "kill -9 of one: its slot is free")
    site.sink.held = False
    site.finish(runs[1:])
    test.within(5.0, lambda: site.open("slow") == 0, "and the other's when it has ended")
    site.drain()
    test.equal(site.sink.most_processes, 2, "never more than 2 processes connected")


def local_and_own_rules(test, site):
    """No class would let local mail pass: "rest" has no place at all."""
    questions = site.postern.status()["counters"]["outbound_questions"]
    site.submit("root@localhost")
    site.submit("root+detail@localhost")
    site.submit("forbidden@" + NAMES[0])
    site.submit("discarded@" + NAMES[0])
    site.submit("u@" + NAMES[4])
    site.finish(site.runs())
    log, queue = site.syslog(), site.sendmail.queue_text()
    test.check("the site forbids it" in queue, "check_compat of the site works")
    test.check("the site wants none of h5" in log, "its tls_server, too")
    asked = site.postern.status()["counters"]["outbound_questions"] - questions
    test.check("discarded@" + NAMES[0] not in site.delivered() and "discarded@" not in queue,
               "FEATURE(`compat_check') works: what it discards is gone")
    test.equal(asked, 4, "asked about three recipients, once more when connected, and never for local mail")
    test.check(log.count("mailer=local") >= 2 and "class rest" not in queue,
               "local mail is not held")
    test.equal(site.delivered().count("u@" + NAMES[4]), 0, "what the site defers stays queued")
    for file in (site.sendmail.root / "queue").iterdir():
        file.unlink()


def without_postern(test, site):
    site.postern.stop()
    site.forget()
    for name in NAMES[:4]:
        site.submit(f"u@{name}")
    site.submit("u@[127.0.1.4]")
    site.finish(site.runs())
    test.equal(site.delivered(), sorted([f"u@{name}" for name in NAMES[:4]] + ["u@[127.0.1.4]"]),
               "Postern stopped for good: all mail goes")
    test.equal(site.sendmail.queued(), 0, "nothing is left")


def closed(test, site):
    """The variant of the comment."""
    site.forget()
    site.sendmail.process.terminate()
    site.sendmail.process.wait(10)
    shut = site.sendmail = Sendmail(test, PORT, name="closed", change=(OPEN, CLOSED),
                                    socketmap=site.postern.root / "map", outbound=OUT)
    shut.start()
    test.equal(shut.cf.read_text().count("DEFER Postern does not answer"), 2,
               "closed: both lines are replaced")
    site.submit("u@" + NAMES[0])
    site.finish(site.runs())
    test.equal((site.delivered(), shut.queued()), ([], 1), "closed, without Postern: mail stays")
    test.check("deferred by Postern: Postern does not answer" in site.syslog(),
               "closed: the log says why")
    site.postern.start()
    site.finish(site.runs())
    test.equal((site.delivered(), shut.queued()), (["u@" + NAMES[0]], 0),
               "closed, Postern is back: it goes")


def body(test):
    test.deaths_expected = True
    with open(ACCESS, "w") as access:
        access.write(f"compat:a@example.org<@>discarded@{NAMES[0]}\tDISCARD\n")
    site = Site(test, CLASSES, list(HOSTS), after=OWN_RULES + COMPAT_CHECK)
    roles_are_killed(test, site)
    local_and_own_rules(test, site)
    without_postern(test, site)
    closed(test, site)


main(body, hosts=HOSTS, before=find_root)
