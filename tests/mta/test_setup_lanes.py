#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""postern-postfix-setup with lanes: qmgr's line gives way to those of posternctl
postfix-lanes, mail goes by lanes and is held, later changes of the site are taken up, and
undo gives back the very file."""
import json
import os
import re
import shutil
import subprocess

from lib.limiter import Limiter
from lib.outbound import REMOTE, Outbound
from lib.postern import one_class
from lib.testing import SOURCE, main, mount
from lib.tree import tree

PORT = 25
HOSTS = {"192.0.2.13": "open.example"}


class Plain(Outbound):
    """Not attached yet."""

    def services(self):
        return [line.replace("smtp unix - - y", "smtp unix - - n") for line in self.plain]

    def setup(self, *words):
        """Exit code, and what it told as JSON."""
        done = subprocess.run(
            [SOURCE / "contrib/postern-postfix-setup", "-c", self.postfix.etc, "--json", "--store",
             self.test.directory / "store", "--postern-conf", self.postern.file, "--posternctl",
             self.postern.build / "posternctl", *words], text=True, capture_output=True, timeout=60)
        return done.returncode, json.loads(done.stdout) if done.stdout else done.stderr

    def lines_of(self, address, text):
        return sum(f"{address}>" in line and text in line
                   for line in self.postfix.log_text().splitlines())


def lookup_in_place(test, site):
    """The lines name the place that make install would use."""
    place = test.directory / "sbin"
    place.mkdir()
    shutil.copy(site.lookup, place)
    mount("--bind", place, "/usr/local/sbin")


def by_lane(test, site, sink):
    site.postfix.send(PORT, "open.example")
    test.wait_for(lambda: site.ask("u@open.example").startswith("OK lane"), "its window has lanes")
    site.postfix.send(PORT, "open.example", user="second")
    test.wait_for(lambda: sink.count("open.example") == 2, "two mails are delivered")
    test.wait_for(lambda: site.lines_of("open.example", "status=sent") == 2, "the log tells both")
    test.check(site.lines_of("open.example", "postfix-A/lane") == 1, "the second by a lane")


def held(test, site, sink):
    site.postern.ask("suspend", "open.example", "--for", "1h")
    test.wait_for(lambda: site.ask("u@open.example").startswith("OK retry:"), "the hint says so")
    site.postfix.send(PORT, "open.example", user="third")
    test.wait_for(lambda: site.lines_of("open.example", "status=deferred (Postern: "),
                  "mail for a suspended destination is held")
    site.postern.ask("resume", "open.example")
    site.postfix.send(PORT, "open.example", user="other")    # the resolver remembers the last
    site.drain("u@open.example", lambda: sink.count("open.example") == 4, "resumed, it goes")
    test.check(True, "suspended, mail is held; resumed, it goes")


def drift(test, site):
    """main.cf changes after make."""
    main_cf = site.postfix.etc / "main.cf"
    old, status = main_cf.read_text(), main_cf.stat()
    main_cf.write_text(old + "smtpd_milters = { inet:127.0.0.1:9, default_action=accept }\n")
    os.utime(main_cf, (1e9, 1e9))
    test.within(5, lambda: site.postern.status()["mtas"][0]["note"] == "no hints: its settings "
                "have changed: run postern-postfix-setup make", "status names make as the remedy")
    test.within(3, lambda: re.search(r'event=site-changed .*main\.cf text="no hints until '
                                     r'postern-postfix-setup make has read it"',
                                     site.postern.log_text()), "and so does the log")
    checked = site.postern.command("check")
    test.check("gets a hint until postern-postfix-setup make has read it"
               in checked.stdout + checked.stderr, "and check")
    code, told = site.setup("look")
    test.equal((code, told["files"][0]["state"]), (0, "made, out of date"),
               "look: main.cf has changed since")
    code, told = site.setup("make", "--no-reload")
    master = (site.postfix.etc / "master.cf").read_text()
    test.check(code == 0 and "inet:127.0.0.1:9, default_action=accept } }" in master and
               master.count("lane5     ") + master.count("\nlane5 ") == 1,
               "make again: our line has it, and the lanes stay")
    main_cf.write_text(old)
    os.utime(main_cf, ns=(status.st_atime_ns, status.st_mtime_ns))


def without_services(test, site):
    """main.cf is broken, and postconf says nothing: undo needs neither."""
    main_cf = site.postfix.etc / "main.cf"
    old, status = main_cf.read_text(), main_cf.stat()
    main_cf.write_text("smtpd_milters = ${{x}\n")
    os.utime(main_cf, (1e9, 1e9))               # Postfix waits for younger ones
    code, told = site.setup("undo", "--no-reload")
    test.equal((code, told["result"]), (0, "undone"), "undo with a broken main.cf")
    main_cf.write_text(old)
    os.utime(main_cf, ns=(status.st_atime_ns, status.st_mtime_ns))


def body(test):
    sink = Limiter(test, list(HOSTS), REMOTE, seconds=0.05)
    site = Plain(test, PORT, [one_class("all", 1000)])
    lookup_in_place(test, site)
    os.utime(site.postfix.etc / "master.cf", ns=(10**18, 10**18 + 5))
    before = tree(site.postfix.etc)
    with site.postfix.renewed():
        code, told = site.setup("make", "--lanes", "--no-inbound")
        found = site.postern.ask("postfix-lanes", "out")
    test.equal((code, told["result"] if code == 0 else told), (0, "made"), "make --lanes")
    test.equal((found["attached"], {row["used"] for row in found["lanes"]}), ("yes", {True}),
               "when it has ended Postfix has all lanes")
    test.equal(site.setup("make")[1]["result"], "unchanged", "make again: nothing to do")
    by_lane(test, site, sink)
    held(test, site, sink)
    code, told = site.setup("make", "--by", "milter")
    test.equal((code, told["lanes"], [row["service"] for row in told["services"]]),
               (0, True, [f"{PORT}/inet"]), "make --by, after --no-inbound: the lanes stay, the milter comes")
    drift(test, site)
    with site.postfix.renewed():
        code, told = site.setup("undo")
    test.equal((code, told["result"], tree(site.postfix.etc)), (0, "undone", before),
               "undo: byte-identical")
    site.postfix.send(PORT, "open.example", user="last")
    test.wait_for(lambda: sink.count("open.example") == 5 and
                  site.lines_of("last@open.example", "status=sent"), "mail goes")
    test.equal(site.lines_of("last@open.example", "postfix-A/lane"), 0, "by no lane any more")
    test.equal(site.setup("make", "--no-reload")[0], 0, "make, once more")
    without_services(test, site)
    test.equal(tree(site.postfix.etc), before, "byte-identical")


main(body, hosts=HOSTS, addresses=list(HOSTS))
