#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""A site with lanes whose main.cf changes after postern-postfix-setup make: that is noted, make
takes it up, and undo gives back the very file, also where main.cf is broken."""
import os
import re

from lib.plain_site import PORT, site_with_lanes
from lib.testing import main
from lib.tree import tree


def drift(test, site):
    """main.cf changes after make."""
    main_cf = site.postfix.etc / "main.cf"
    old, status = main_cf.read_text(), main_cf.stat()
    main_cf.write_text(old + "smtpd_milters = { inet:127.0.0.1:9, default_action=accept }\n")
    os.utime(main_cf, (1e9, 1e9))
    test.within(5, lambda: site.postern.status()["mtas"][0]["note"] == "no hints: its settings "
                "have changed; run postern-postfix-setup make", "status names make as the remedy")
    test.within(3, lambda: re.search(r'event=site-changed .*main\.cf text="no hints until '
                                     r'postern-postfix-setup make has read the change"',
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
    site, before = site_with_lanes(test)
    code, told = site.setup("make", "--by", "milter")
    test.equal((code, told["lanes"], [row["service"] for row in told["services"]]),
               (0, True, [f"{PORT}/inet"]), "make --by, after --no-inbound: the lanes stay, the milter comes")
    drift(test, site)
    without_services(test, site)
    test.equal(tree(site.postfix.etc), before, "byte-identical")


main(body)
