#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""posternctl tail: what is remembered, what comes, filters, both outputs, a state file that
is made anew under it, and what came too fast."""
import json
import os
import queue
import re
import signal
import socket
import subprocess
import threading
import time

from lib.postern import Postern, one_class, substitute
from lib.smtp_log import SmtpLog
from lib.testing import main

REFUSED = "host mx.{0}[192.0.2.1] refused to talk to me: 421 4.7.0 \x1b[2Jbusy"


class Site:
    def __init__(self, test):
        self.test, self.port = test, 4000
        self.sessions = "64k"
        self.log = test.directory / "mail.log"
        self.mail_log = SmtpLog(self.log)
        self.postern = Postern(test, edit=self.edit)
        self.postern.kinds = self.postern.kinds | {"feed"}
        self.postern.start()

    def edit(self, text):
        text = substitute(text, r"^outbound *= *\{[^}]*\};", "outbound = { observe = false; };")
        text = substitute(text, r'sessions = "64k"; \};', f'sessions = "{self.sessions}"; }};')
        few = one_class("few", 0, match='"192.0.2.0/24"')
        text = re.sub(r"^classes = \(.*?^\);", lambda _: f"classes = (\n{few},\n" +
                      one_class("none", 0, match='"*"') + " );", text, flags=re.M | re.S)
        return text + f'mta = ( {{ name = "a"; log = "{self.log}"; log_start = "begin"; }} );\n'

    def fails(self, domain, count=8):
        self.mail_log.refuse(domain, count, REFUSED.format(domain))

    def learned(self):
        """All that the log tells is among what is remembered."""
        self.test.wait_for(lambda: all(row["log_unread"] == 0
                                       for row in self.postern.status()["mtas"]),
                           "the log is read")

    def refuse(self, client, count=1):
        """So many sessions, all turned away."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(10)
            connection.connect(str(self.postern.spool / "private/postern"))
            for _ in range(count):
                self.port = 4000 + (self.port - 3999) % 60000
                connection.sendall(
                    (f"request=smtpd_access_policy\nprotocol_state=CONNECT\nclient_address={client}\n"
                     f"client_name=unknown\nclient_port={self.port}\nserver_address=192.0.2.25\n"
                     f"server_port=25\n\n").encode())
                answer = b""
                while not answer.endswith(b"\n\n"):
                    answer += connection.recv(4096)

    def rows(self, *words):
        done = self.postern.command("tail", "--once", *words)
        self.test.equal(done.returncode, 0, f"tail {' '.join(words)}: {done.stderr.strip()}")
        return [json.loads(line) for line in done.stdout.splitlines()]


class Tail:
    """One that follows."""

    def __init__(self, site, *words):
        self.errors = open(site.test.logs / "tail-errors", "ab")
        self.process = subprocess.Popen(
            [site.postern.build / "posternctl", "-c", site.postern.file, "--json", "tail",
             "--lines", "0", *words], stdout=subprocess.PIPE, stderr=self.errors, text=True)
        self.queue, self.got = queue.Queue(), []
        threading.Thread(target=self.read, daemon=True).start()
        site.test.at_end(self.end)

    def read(self):
        for line in self.process.stdout:
            self.queue.put(json.loads(line))

    def rows(self):
        while not self.queue.empty():
            self.got.append(self.queue.get())
        return self.got

    def end(self):
        self.process.kill()
        self.process.wait()
        self.errors.close()


def follows(test, site):
    tail = Tail(site)

    def refusals():
        return [row for row in tail.rows() if row["kind"] == "refused"]
    # it begins with what comes after its first look; what is held for the class may come, too
    test.within(5, lambda: site.refuse("192.0.2.7") or refusals(), "a refusal is told")
    row = refusals()[0]
    test.equal((row["kind"], row["class"], row["client"], row["reason"], row["count"], row["limit"]),
               ("refused", "few", "192.0.2.7", "class-inbound", 0, 0) if row["count"] is not None
               else ("refused", "few", "192.0.2.7", row["reason"], None, None), "what and why")
    test.check(f"id={row['id']} " in site.postern.log_text(), "its id is that of the log")
    told = site.postern.ask("why", row["id"])
    test.equal((row["client_port"], row["port"]), (told["client_port"], told["port"]),
               "tail and why mean the same by port and client_port")
    test.check(row["client_port"] >= 4000 and row["port"] == 25, "port is the server's")
    test.check(abs(time.time() - time.mktime(time.strptime(row["time"][:19], "%Y-%m-%dT%H:%M:%S"))
                   + time.timezone) < 10, "and its time is now")
    site.fails("dead.example")
    test.within(3, lambda: any(row["kind"] == "suspended" for row in tail.rows()),
                "events come in between")
    kinds = [row["kind"] for row in tail.rows()]
    test.check(kinds.count("failure") >= 5 and kinds.index("failure") < kinds.index("suspended"),
               "failures before the suspension that they led to")
    return tail


def remembers(test, site):
    test.equal(len(site.rows("--lines", "3")), 3, "the last three")
    test.equal(len(site.rows("--lines", "0")), 0, "none of them")
    site.learned()
    all_rows = site.rows("--lines", "100")
    test.check(1 <= len(site.rows()) <= 10, "ten without a word")
    test.equal({row["name"] for row in site.rows("--destination", "*.example")}, {"dead.example"},
               "of a destination")
    site.refuse("198.51.100.7")
    for words, column, wanted in ((("--class", "none"), "class", {"none"}),
                                  (("--address", "192.0.2.0/24", "--kind", "refused"), "client",
                                   {"192.0.2.7"}),
                                  (("--kind", "suspended"), "kind", {"suspended"}),
                                  (("--kind", "refused,suspended"), "kind",
                                   {"refused", "suspended"})):
        got = {row[column] for row in site.rows("--lines", "1000", *words)}
        test.equal(got, wanted, f"only {' '.join(words)}")
    test.equal(len(site.rows("--since", "1h")), len(all_rows) + 1, "since an hour: all")
    test.equal(*([row["id"] for row in site.rows(*words, "--lines", "2")]
                 for words in (("--since", "1h"), ())), "both")
    site.postern.environment_of_commands = {"TZ": "Asia/Tokyo"}
    text = site.postern.command("tail", "--once", "--lines", "100", json_output=False).stdout
    site.postern.environment_of_commands = {}
    test.equal(len(text.splitlines()), len(all_rows) + 1, "the same as text")
    # but near the end of a second, as two looks at two clocks are some microseconds apart
    test.equal([line[:19] for line, row in zip(text.splitlines(), site.rows("--lines", "100"))
                if "005" < row["time"][20:23] < "995" and line[:19] != row["time"][:19]],
               [], "a time is the same at each look and in every time zone, UTC with its date")
    test.check(re.search(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z  \w{12}  would-suspend  dead\.example  by cohorts for "
                         r"300 s.*: 421 4\.7\.0 .*busy \(not enforced: no hints for \w+\)$", text, re.M), "a line for people")
    test.check(all(" " <= c <= "~" or c == "\n" for c in text), "of printable characters")
    for words in (("--kind", "nonsense"), ("--address", "x"), ("--since", "soon"),
                  ("--lines", "-1"), ("--destination", "a b")):
        done = site.postern.command("tail", "--once", *words)
        test.equal((done.returncode, done.stderr.startswith("posternctl: ")), (64, True),
                   f"{' '.join(words)} is no wish")
    done = site.postern.command("tail", "--once", "--class", "nosuch")
    test.equal((done.returncode, done.stderr),
               (0, "posternctl: the configuration has no class nosuch\n"), "a class that is not there")


def survives(test, site, tail):
    """A daemon that is killed, and one with another state file."""
    before = len(tail.rows())
    site.postern.kill()
    site.postern.start()
    test.within(5, lambda: site.refuse("192.0.2.8") or
                any(row["client"] == "192.0.2.8" for row in tail.rows()[before:]),
                "it goes on with a restarted daemon")
    site.postern.stop()
    site.sessions = "32k"
    site.postern.configure((), site.edit)
    site.postern.start()
    test.within(8, lambda: site.refuse("192.0.2.9") or
                any(row["client"] == "192.0.2.9" for row in tail.rows()),
                "and with a new state file")
    ids = [row["id"] for row in tail.rows() if row["kind"] != "lost"]
    test.equal(len(ids), len(set(ids)), "nothing is told twice")


def loses(test, site, tail):
    """While it is stopped more comes than is remembered."""
    os.kill(tail.process.pid, signal.SIGSTOP)
    size = 1
    tail.rows()
    while size < 1 << 20:               # until the first of them is forgotten
        first = site.rows("--lines", "1000000", "--kind", "refused")[0]["id"]
        site.refuse("192.0.2.10", 4096)
        size += 4096
        if site.rows("--lines", "1000000", "--kind", "refused")[0]["id"] != first:
            break
    site.refuse("192.0.2.10", 5000)
    os.kill(tail.process.pid, signal.SIGCONT)
    test.within(10, lambda: any(row["kind"] == "lost" for row in tail.rows()),
                "it says that some were lost")
    lost = next(row for row in tail.rows() if row["kind"] == "lost")
    test.check(lost["count"] > 0, f"and how many: {lost['count']}")


def body(test):
    site = Site(test)
    test.deaths_expected = True
    tail = follows(test, site)
    remembers(test, site)
    survives(test, site, tail)
    loses(test, site, tail)


main(body)
