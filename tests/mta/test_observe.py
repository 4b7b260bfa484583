#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""Observe mode: decides, counts and logs, but admits; the innermost wins."""
from lib.postern import one_class
from lib.postfix import conf_service
from lib.scenario import leave_all, sources
from lib.site import site
from lib.smtp import admitted, open_sessions
from lib.testing import main

PORTS = {"policy": 2025, "milter": 2026}
LIMIT, CAME = 3, 6
NETS = {"plain": "127.0.1", "strict": "127.0.2", "client": "127.0.3"}


def classes(observe_client):
    ports = list(PORTS.values())
    yield one_class("strict", LIMIT, ports, match='"127.0.2.0/24"', more="observe = false;")
    yield one_class("client", 100, ports, match='"127.0.3.0/24"', more="observe = false; "
                    f"client = {{ sessions = {LIMIT}; observe = {observe_client}; }};")
    yield one_class("plain", LIMIT, ports)


def come(to, name):
    net = NETS[name]
    return open_sessions(to, [f"{net}.1"] * CAME if name == "client" else sources(CAME, net))


def observed(test, postern, to, name, way):
    before = postern.classes()[name]["observed"]
    sessions = come(to, name)
    row = postern.classes()[name]
    test.equal(len(admitted(sessions)), CAME, f"{way}: {name}: all are let in")
    test.equal(row["open"], CAME, f"{way}: {name}: all are counted")
    test.equal(row["observed"] - before, CAME - LIMIT,
               f"{way}: {name}: {CAME - LIMIT} would have been refused")
    end(test, postern, sessions, name, way)


def enforced(test, postern, to, name, way):
    sessions = come(to, name)
    test.equal(len(admitted(sessions)), LIMIT, f"{way}: {name}: {LIMIT} are let in")
    end(test, postern, admitted(sessions), name, way)


def end(test, postern, sessions, name, way):
    leave_all(sessions)
    test.within(1.0, lambda: postern.open(name) == 0, f"{way}: {name}: 0 afterwards")


def body(test):
    services = [conf_service(f"postfix-{way}.master.cf", port) for way, port in PORTS.items()]
    _, postern = site(test, services, classes("true"), PORTS.values(), observe=True)
    status = postern.status()
    test.equal(status["observe"], True, "status says that it only observes")
    for way, port in PORTS.items():
        to = ("127.0.0.1", port)
        observed(test, postern, to, "plain", way)
        observed(test, postern, to, "client", way)
        enforced(test, postern, to, "strict", way)
    postern.settings["observe"] = False
    postern.configure(classes("false"))
    test.equal(postern.command("reload").returncode, 0, "observe = false, reload")
    for way, port in PORTS.items():
        for name in NETS:
            enforced(test, postern, ("127.0.0.1", port), name, way)
    log = postern.log_text()
    test.check("event=observed" in log and "event=refused" in log, "both are logged")
    refusal = next((line for line in log.splitlines() if "event=refused" in line), "")
    test.check("postern.conf:" in refusal and "strict" in refusal,
               "a refusal names its class and the rule's file and line")
    test.say(refusal)


main(body)
