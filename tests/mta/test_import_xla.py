#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""The two examples of the XLA read-me, imported, and in force for real sessions."""
from lib.postern import Postern
from lib.postfix import Postfix, conf_service
from lib.scenario import leave_all
from lib.smtp import Session, admitted, open_sessions
from lib.testing import Failed, main

PORT = 2025
CUSTOMER = """L/etc/sendmail.la
L*.customer.fr          8       8
L*                      3       3
"""
LYON = """# File name used to store the counters
L/etc/sendmail.la
# Classes definition
# Lname            #queue #reject
L*.insa-lyon.fr         8       3
L*.univ-lyon1.fr        6       4
L*                     15      16
"""
GATE = """L/etc/sendmail.la
L*.customer.fr          1       1
"""
# Ten hosts of each domain, the domain's own name among them.
NETS = {"127.1.1": "customer.fr", "127.1.2": "insa-lyon.fr", "127.1.3": "univ-lyon1.fr",
        "127.1.4": "elsewhere.example"}
HOSTS = {f"{net}.{number}": domain if number == 1 else f"Host{number}.{domain}"
         for net, domain in NETS.items() for number in range(1, 11)}


def clients(domain, count):
    net = next(net for net, its in NETS.items() if its == domain)
    return [f"{net}.{number % 10 + 1}" for number in range(count)]


def configure(test, postern, example):
    """import-xla, and what it printed in place of the shipped classes."""
    la = test.directory / "sendmail.cf"
    la.write_text(example)
    done = postern.command("import-xla", la, json_output=False)
    test.equal(done.returncode, 0, "import-xla")
    if done.returncode:
        raise Failed(done.stderr)
    text = postern.text([])
    start = text.index("\nclasses")
    end = text.index("\n);", start) + 3 if "\n);" in text[start:] else text.index(");", start) + 2
    postern.file.write_text(text[:start] + "\n" + done.stdout + text[end:])
    check = postern.command("check", json_output=False)
    test.equal(check.returncode, 0, "check of the imported classes")
    if check.returncode:
        raise Failed(check.stdout + check.stderr + done.stdout)


def come(test, domain, count, wanted, text):
    sessions = open_sessions(("127.0.0.1", PORT), clients(domain, count))
    inside = admitted(sessions)
    test.equal(len(inside), wanted, f"{text}: {wanted} of {count} from {domain} are let in")
    test.equal(sum(s.code == 421 for s in sessions), count - wanted,
               f"{text}: the others read 421")
    return inside


def nothing_open(test, postern, held):
    leave_all(held)
    test.within(1.0, lambda: all(row["open"] == 0 for row in postern.classes().values()),
                "0 in every class after all have left")


def customer(test, postern):
    held = come(test, "elsewhere.example", 5, 3, "customer.fr")
    held += come(test, "customer.fr", 10, 8, "customer.fr")
    held += come(test, "insa-lyon.fr", 1, 0, "gate")
    for address, name in (("198.51.100.1", "a.customer.fr"), ("198.51.100.2", "b.example")):
        test.equal(postern.ask("explain", "session", address, name)["verdict"], "refuse",
                   f"explain says so of {name}")
    one = next(session for session in held if session.name[0].startswith("127.1.1."))
    one.quit()
    held.remove(one)
    test.wait_for(lambda: sum(row["open"] for row in postern.classes().values()) == 10,
                  "one has left")
    held += come(test, "elsewhere.example", 1, 0, "one place for customer.fr")
    held += come(test, "customer.fr", 2, 1, "one place for customer.fr")
    nothing_open(test, postern, held)


def gate(test, postern):
    held = come(test, "elsewhere.example", 2, 2, "in no class")
    held += come(test, "customer.fr", 2, 1, "one place")
    come(test, "elsewhere.example", 1, 0, "every class is full")
    test.equal(postern.ask("explain", "session", "198.51.100.2", "b.example")["reason"],
               "gate-shut", "explain says that the gate is shut")
    nothing_open(test, postern, held)


def lyon(test, postern):
    held = come(test, "insa-lyon.fr", 10, 3, "insa-lyon.fr")
    held += come(test, "univ-lyon1.fr", 10, 4, "insa-lyon.fr")
    held += come(test, "customer.fr", 9, 9, "insa-lyon.fr")
    held += come(test, "elsewhere.example", 9, 7, "insa-lyon.fr")
    nothing_open(test, postern, held)
    exact = Session(("127.0.0.1", PORT), "127.1.2.1")
    row = next(row for row in postern.sessions() if row["client"] == "127.1.2.1")
    test.check("insa-lyon.fr" in row["class"], "*.insa-lyon.fr takes insa-lyon.fr itself")
    nothing_open(test, postern, [exact])


def body(test):
    postfix = Postfix(test, [conf_service("postfix-policy.master.cf", PORT)])
    postern = Postern(test, spool=postfix.spool)
    configure(test, postern, CUSTOMER)
    postern.start()
    postfix.start(PORT)
    customer(test, postern)
    configure(test, postern, LYON)
    test.equal(postern.command("reload").returncode, 0, "reload")
    lyon(test, postern)
    configure(test, postern, GATE)
    test.equal(postern.command("reload").returncode, 0, "reload")
    gate(test, postern)


main(body, hosts=HOSTS)
