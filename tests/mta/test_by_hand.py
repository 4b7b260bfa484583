#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""What is learned from a log and done by hand, on a running daemon: suspend, hold,
resume, forget, set; what is shown of it; that it outlives restarts; and bulk mail at the
door.  No mail server is needed: the test writes the log and asks as Postfix would."""
import pwd
import re
import socket
import subprocess
import time

from lib.postern import Postern, one_class, substitute
from lib.testing import main

COLUMNS = ["name", "law", "state", "window", "ceiling", "in_flight", "pace", "success", "failure",
           "fail_cohorts", "until", "share", "stopped_by", "node", "origin_id", "enforced", "not_enforced", "reason"]
DOWN = "connect to mx.{0}[192.0.2.1]:25: Connection refused"
BULK_PORT = 2025
CLASSES = [one_class("bulk", 100, ports=[BULK_PORT], more="bulk = true;"),
           one_class("slow", 100, match='"*.slow.example"')]


class Site:
    def __init__(self, test):
        self.test, self.serial, self.observe = test, 0, False
        self.log = test.directory / "mail.log"
        self.log.write_text("")
        self.postern = Postern(test, CLASSES, edit=self.edit)
        self.postern.kinds = self.postern.kinds | {"feed"}
        self.postern.start()

    def edit(self, text, destinations="64k"):
        text = substitute(text, r"^outbound *= *\{[^}]*\};",
                          f"outbound = {{ observe = {'true' if self.observe else 'false'}; "
                          f"back_pressure = true; }};")
        text = substitute(text, r'sessions = "64k"; \};',
                          f'sessions = "64k"; destinations = "{destinations}"; }};')
        return text + f'mta = ( {{ name = "a"; log = "{self.log}"; }} );\n'

    def write(self, domain, count, text=DOWN, took=0.1, relay="none", status="deferred"):
        """Results of deliveries that ended just now."""
        stamp = time.strftime("%b %e %H:%M:%S")
        lines = []
        for _ in range(count):
            self.serial += 1
            lines.append(f"{stamp} mx postfix/smtp[77]: 4A{self.serial:07X}: to=<u@{domain}>, "
                         f"relay={relay}, delay={took}, delays=0/0/{took}/0, "
                         f"dsn={'2.0.0' if status == 'sent' else '4.4.1'}, status={status} "
                         f"({text.format(domain)})\n")
        with open(self.log, "a") as log:
            log.write("".join(lines))

    def rows(self, *words):
        return {row["name"]: row for row in self.postern.ask("destinations", *words)}

    def row(self, name):
        return self.rows(name).get(name, {"state": None, "window": None})

    def state(self, name):
        return self.row(name)["state"]

    def counter(self, name):
        return self.postern.status()["counters"][name]

    def refused(self, code, *words):
        done = self.postern.command(*words)
        shown = " ".join(map(str, words))
        self.test.equal(done.returncode, code, f"exit code {code} of {shown}")
        self.test.check(done.stderr.startswith("posternctl: "), f"and why: {done.stderr.strip()}")


def what_is_wrong(test, site):
    for words in (("suspend",), ("suspend", ""), ("hold", "a b"), ("suspend", "d.example", "x"),
                  ("suspend", "d.example", "--for", "soon"),
                  ("suspend", "d.example", "--for", "0s"),
                  ("suspend", "d.example", "--for", "900d"),
                  ("suspend", "d.example", "--class", "slow"),
                  ("hold", "d.example", "--reason", "\x1b[2J"), ("hold", "d.example", "--reason", ""),
                  ("hold", "d.example", "--window", "4"), ("resume", "d.example", "--window", "0"),
                  ("limit", "d.example"), ("limit", "d.example", "--ceiling", "-1"),
                  ("limit", "d.example", "--window", "0"),
                  ("limit", "d.example", "--ceiling", "4", "--window", "9"), ("limit", "u@d.example", "--window", "1"),
                  ("limit", "--class", "slow", "--window", "1"), ("hold", "x" * 81),
                  ("hold", "provider:nobody"), ("hold", "class:slow"), ("forget", "d", "--for", "1s"),
                  ("hold", ";xample.org"), ("hold", "d.example:25"), ("hold", "x..y"),
                  ("hold", "a b@d.example"), ("hold", "@d.example")):
        site.refused(64, *words)
    site.refused(64, "destinations", "provider:*")
    site.refused(65, "hold", "--class", "none")     # as "sessions --class none"
    site.refused(68, "resume", "never.example")
    site.refused(68, "forget", "never.example")
    site.refused(68, "resume", "u@never.example")
    nobody = pwd.getpwnam("nobody")
    argv = [site.postern.build / "posternctl", "-c", site.postern.file, "hold", "d.example"]
    done = subprocess.run(argv, text=True, capture_output=True, timeout=20, user=nobody.pw_uid,
                          group=nobody.pw_gid, extra_groups=[])
    test.equal(done.returncode, 77, "a stranger may not")
    test.equal(site.rows(), {}, "not changed")


def by_hand(test, site):
    answer = site.postern.ask("suspend", "D.example.", "--for", "90s", "--reason", "they asked")
    test.equal((answer["name"], answer["kind"], answer["state"], answer["window"],
                answer["reason"], answer["observed"]),
               ("d.example", "domain", "dead", 0, "they asked", False), "suspend")
    test.check(85 <= answer["until"] <= 90, "for 90 s")
    test.equal((answer["hint_mta"], answer["doubt"]), ("a", "site-unknown"),
               "a Postfix that has no hints for it does not hold it")
    told = site.postern.command("suspend", "d.example", "--for", "90s", "--reason", "they asked",
                                json_output=False).stderr
    test.check("not enforced for mail already in this Postfix (mta a: posternctl postfix-lanes has not read" in told,
               f"and people are told: {told}")
    row = site.row("d.example")
    test.equal(list(row), COLUMNS, "the columns of destinations")
    test.equal((row["law"], row["state"], row["window"], row["reason"]),
               ("probe", "dead", 0, "they asked"), "its row")
    text = site.postern.command("destinations", json_output=False).stdout
    test.equal(text.splitlines()[0].split(), [name for name in COLUMNS if name != "pace"],
               "the same as text, where no destination has a pace")
    explained = site.postern.ask("explain", "destination", "d.example")
    test.equal((explained["owner"], explained["state"], explained["stopped_by"],
                explained["window_answer"], explained["window_observed"],
                explained["last_reason"]),
               ("d.example", "dead", "hand", "suspended", False, "they asked"), "explained")
    test.equal(explained["settings"], "defaults", "by which settings")
    test.equal((explained["verdict"], explained["reason"], explained["enforced"],
                explained["not_enforced"]), ("admit", "suspended", False, "not enforced: no hints for a"),
               "its mail would stay queued, but this Postfix has no hints")
    told = site.postern.command("explain", "destination", "d.example", json_output=False).stdout
    test.check(re.search(r"(?m)^state +would suspend$", told), "nothing says suspended")
    test.check(re.search(r"(?m)^d\.example +probe +would suspend ", text), "in no list")
    test.check("would suspend d.example" in site.postern.command("why", "d.example",
               json_output=False).stdout or "suspended d.example (not enforced: no hints for a)" in
               site.postern.command("why", "d.example", json_output=False).stdout, "nor why")
    test.equal(site.postern.ask("resume", "d.example")["window"], 5, "resume")
    test.equal(site.postern.ask("resume", "d.example", "--window", "3")["window"], 3,
               "resume with a window")
    site.refused(68, "resume", "d.example")         # it is not held
    test.equal(site.postern.ask("hold", "192.0.2.9")["name"], "[192.0.2.9]",
               "an address is held as mail names it")
    site.postern.ask("resume", "[192.0.2.9]")
    test.equal(site.postern.ask("hold", "d.example")["until"], None, "hold has no end")
    test.equal(site.state("d.example"), "held", "held")
    answer = site.postern.ask("limit", "d.example", "--ceiling", "7", "--window", "2")
    test.equal((answer["state"], answer["ceiling"]), ("held", 7), "set while it is held")
    answer = site.postern.ask("resume", "d.example")
    test.equal((answer["state"], answer["window"], answer["ceiling"]), ("limited", 2, 7),
               "each by itself")
    test.equal(site.postern.ask("forget", "d.example")["state"], "open", "forget")
    test.equal(site.row("d.example")["law"], None, "unknown destination; nothing to resume")
    site.postern.ask("suspend", "short.example", "--for", "1s")
    test.within(4, lambda: site.state("short.example") == "open", "it ends by itself")
    log = site.postern.log_text()
    test.check(re.search(r"event=by-hand role=keeper\.0 id=\w{12} command=suspend name=d\.example "
                         r"state=dead for=90s", log) and 'uid=0 text="they asked"' in log, "it is logged, and who it was")
    test.within(3, lambda: re.search(r"event=back role=keeper\.0 id=\w{12} destination=short\.example",
                                     site.postern.log_text()), "and so is that it is back")


def recipients_and_classes(test, site):
    test.equal(site.postern.ask("hold", "U@d.example", "--for", "1h")["kind"], "recipient",
               "a recipient")
    test.equal(site.row("u@d.example")["state"], "held", "is shown")
    answer = site.postern.ask("hold", "--class", "slow", "--reason", "line cut")
    test.equal((answer["name"], answer["kind"], answer["state"], answer["reason"]),
               ("slow", "class", "held", "line cut"), "a class")
    row = site.row("class:slow")
    test.equal((row["state"], row["law"], row["reason"]), ("held", None, "line cut"), "is shown")
    test.equal(site.postern.ask("resume", "--class", "slow")["state"], "open", "resumed")
    test.equal(site.postern.ask("resume", "u@d.example")["state"], "open", "resumed")
    test.check("u@d.example" not in site.rows(), "and gone")
    for words, verb, ends in ((["undone.example"], "hold", []), (["u@undone.example"], "hold", []),
                              (["--class", "slow"], "hold", []),
                              (["undone.example"], "suspend", []),
                              (["undone.example"], "hold", ["--for", "1h"]),
                              (["u@undone.example"], "hold", ["--for", "1h"]),
                              (["--class", "slow"], "hold", ["--for", "1h"])):
        site.postern.ask(verb, *ends, *words)
        site.postern.ask("resume", *words)
        number = re.findall(r"event=by-hand .*id=(\w{12}) command=resume",
                            site.postern.log_text())[-1]
        why = site.postern.ask("why", number)
        undo = why["undo"]
        wanted = " ".join([verb, *(["--for", r"3[0-9]{3}s"] if ends else []), *words])
        test.check(re.search(f" {wanted}$", undo) and why.get("until") is None,
                   f"what undoes the resume of a {verb}{' with an end' if ends else ''}: {undo}")


def learned(test, site):
    site.write("dead.example", 8)
    test.within(5, lambda: site.state("dead.example") == "dead", "8 failures suspend it")
    row = site.row("dead.example")
    test.equal(row["reason"], DOWN.format("dead.example"), "the reason is the last reply")
    test.check(0 < row["until"] <= 300, "for 300 s")
    test.within(3, lambda: re.search(r"event=suspended role=feed\.0 id=\w{12} destination=dead\.example "
                                     r"for=300s by=cohorts", site.postern.log_text()), "it is logged")
    time.sleep(1.1)  # LINT-SLEEP: the log's lines tell whole seconds
    site.postern.ask("resume", "dead.example")
    before = site.counter("results_echoed")
    site.write("dead.example", 20, took=30)
    test.within(5, lambda: site.counter("results_echoed") >= before + 20,
                "what was begun before is an echo")
    test.equal(site.state("dead.example"), "open", "and does not suspend it again")
    site.write("live.example", 3, "250 2.0.0 Ok", relay="mx.live.example[192.0.2.2]:25",
               status="sent")
    test.within(5, lambda: site.counter("results_ok") >= 3, "deliveries are counted")
    test.equal(site.state("live.example"), "open", "and nothing is held")
    test.equal(site.rows("--relays")["live.example"]["relays"], "192.0.2.2", "--relays tells them")


def set_while_dead(test, site):
    """Another window is no new cause: the next success brings the destination back."""
    site.write("failed.example", 8)
    test.within(5, lambda: site.state("failed.example") == "dead", "suspended by its failures")
    site.postern.ask("limit", "failed.example", "--window", "3")
    row = site.row("failed.example")
    test.equal((row["state"], row["stopped_by"]), ("dead", "cohorts"),
               "set --window leaves the cause as it was")
    site.write("failed.example", 1, "250 2.0.0 Ok", relay="mx.failed.example[192.0.2.3]:25",
               status="sent")
    test.within(5, lambda: site.state("failed.example") == "open", "a success revives it")


def ask_policy(site, **more):
    fields = {"request": "smtpd_access_policy", "protocol_state": "RCPT",
              "client_address": "192.0.2.77", "client_name": "unknown", "client_port": "4711",
              "server_address": "192.0.2.25", "server_port": str(BULK_PORT), "sender": "s@s.example",
              "recipient": "u@held.example", **more}
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(10)
        connection.connect(str(site.postern.spool / "private/postern"))
        connection.sendall("".join(f"{key}={value}\n" for key, value in fields.items()).encode()
                           + b"\n")
        answer = b""
        while not answer.endswith(b"\n\n"):
            answer += connection.recv(4096)
    return answer.decode().strip().removeprefix("action=")


def at_the_door(test, site):
    test.equal(ask_policy(site), "DUNNO", "nothing is held yet")
    site.postern.ask("hold", "held.example")
    before = site.counter("back_pressure")
    answer = ask_policy(site)
    test.check(re.fullmatch(r"DEFER_IF_PERMIT 4\.4\.1 Delivery to held\.example is suspended; "
                            r"try again later \(id=[0-9a-z]{12}\)", answer),
               f"bulk mail waits at the door: {answer}")
    test.equal(site.counter("back_pressure"), before + 1, "it is counted")
    test.check("class=bulk client=192.0.2.77[4711] destination=held.example"
               in site.postern.log_text(), "and logged")
    for what, more in (("another class", {"server_port": "25"}),
                       ("postmaster", {"recipient": "postmaster@held.example"}),
                       ("abuse", {"recipient": "Abuse@held.example"}),
                       ("the null sender", {"sender": ""}),
                       ("an authenticated sender", {"sasl_username": "joe"}),
                       ("another destination", {"recipient": "u@other.example"}),
                       ("another stage", {"protocol_state": "DATA"})):
        test.equal(ask_policy(site, **more), "DUNNO", f"but not {what}")
    site.postern.ask("resume", "held.example")
    test.equal(ask_policy(site), "DUNNO", "it is resumed")


def kept(test, site):
    site.postern.ask("hold", "kept.example", "--reason", "by contract")
    site.postern.ask("suspend", "short.example", "--for", "1h")
    site.postern.ask("limit", "few.example", "--ceiling", "4", "--window", "4")
    site.postern.ask("hold", "u@kept.example")
    site.postern.ask("hold", "--class", "slow")

    def all_there():
        rows = site.rows()
        return all((rows.get("kept.example", {}).get("reason") == "by contract",
                    rows.get("kept.example", {}).get("state") == "held",
                    rows.get("short.example", {}).get("state") == "dead",
                    3500 < (rows.get("short.example", {}).get("until") or 0) <= 3600,
                    rows.get("few.example", {}).get("ceiling") == 4,
                    rows.get("u@kept.example", {}).get("state") == "held",
                    rows.get("class:slow", {}).get("state") == "held"))

    test.check(all_there(), "five things are held or set")
    site.postern.stop()
    test.equal(site.postern.command("status").returncode, 69, "a daemon that was stopped is no "
               "live one, and at once")
    site.postern.start()
    test.check(all_there(), "a restart keeps them")
    site.postern.kill()
    site.postern.start()
    test.check(all_there(), "and so does a killed daemon")
    site.postern.stop()
    site.postern.configure(CLASSES, lambda text: site.edit(text, "32k"))
    site.postern.start()
    test.check(all_there(), "and so does a table of another size")


def observed(test, site):
    site.observe = True
    site.postern.configure(CLASSES, site.edit)
    site.postern.ask("reload")
    done = site.postern.command("hold", "seen.example")
    test.equal(done.returncode, 0, "in observe mode a hold is noted")
    test.check("not enforced" in done.stderr, "and said not to be applied")
    done = site.postern.command("destinations", json_output=False)
    test.check("no mail is held" in done.stderr, "and so it is where it is listed")
    status = site.postern.status()
    test.equal(status["outbound_observe"], True, "status says so")
    test.equal([status[name] for name in ("destinations_held", "destinations_suspended",
               "recipients_held", "classes_held", "not_enforced")], [0, 0, 0, 0, "observe mode"],
               "nothing is held or suspended")
    test.check(status["would_hold"] >= 2 and status["would_suspend"] == 1, "but would be")
    explained = site.postern.ask("explain", "destination", "seen.example")
    test.equal(explained["window_observed"], True, "so does explain")
    test.equal(ask_policy(site, recipient="u@seen.example"), "DUNNO", "nobody is deferred")


def body(test):
    site = Site(test)
    test.deaths_expected = True
    what_is_wrong(test, site)
    by_hand(test, site)
    recipients_and_classes(test, site)
    learned(test, site)
    set_while_dead(test, site)
    at_the_door(test, site)
    kept(test, site)
    observed(test, site)


main(body)
