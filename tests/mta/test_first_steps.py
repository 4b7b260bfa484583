#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""Lanes attached by hand, as postern-lookup(8), ATTACHING, says, step by step with a private
Postfix; at each of them posternctl status tells how far it is."""
import re

from lib.limiter import Limiter
from lib.postern import Postern, build_directory, substitute
from lib.routing import REMOTE, Site
from lib.testing import main

PORT = 2025
HOSTS = {"192.0.2.11": "one.example"}


def mta(postern):
    return postern.ask("status")["mtas"][0]


def told(test, postern, wanted, note, text):
    def right():
        row = mta(postern)
        return all(row[key] == value for key, value in wanted.items()) and \
            (note in row["note"] if note else row["note"] is None)
    is_told = test.poll(right, 10) is not None
    test.check(is_told, f"{text}: {note or 'nothing is missed'}" if is_told else
               f"{text}: {mta(postern)}")


def send(test, site, postern, what):
    before = site.postfix.log_text().count("status=sent")
    # Postfix keeps the answer for the last recipient: another one each time
    site.send([f"u{before}@one.example"])
    test.wait_for(lambda: site.postfix.log_text().count("status=sent") > before, what)
    test.wait_for(lambda: mta(postern)["log_unread"] == 0, "its log is read")


def body(test):
    Limiter(test, list(HOSTS), REMOTE, seconds=0)
    site = Site(test, "A", [PORT], "mydestination =\n", mta=f"ports = [ {REMOTE} ];")
    site.start()
    postern = Postern(test)
    postern.start()
    test.equal(postern.ask("status")["mtas"], [], "as shipped: no mail server")
    # 1, 2
    postern.file.write_text(postern.file.read_text() + f"\nmta = ( {site.mta} );\n")
    test.equal(postern.command("reload").returncode, 0, "reload")
    told(test, postern, {"site": "missing", "lanes": "0/6"}, "to read its settings", "2")
    # 3
    lines = postern.command("postfix-lanes", json_output=False).stdout
    told(test, postern, {"site": "read", "lanes": "0/6"}, "Postfix has no lanes", "3")
    # 4, 5, 6
    lines = re.sub(r"argv=\S+/postern-lookup", f"argv={build_directory() / 'postern-lookup'}",
                   lines)
    site.postfix.serve([*site.plain, lines])
    told(test, postern, {"site": "changed"}, "have changed", "4")
    site.postfix.reload()

    def noted():
        postern.command("postfix-lanes", json_output=False)
        return mta(postern)["lanes"] == "6/6"
    test.wait_for(noted, "Postfix has the lanes")
    # 7
    send(test, site, postern, "observed: mail goes")
    told(test, postern, {"site": "read", "lanes": "6/6", "observe": True, "lane_age": None},
         "observe mode", "7")
    test.check(mta(postern)["other_age"] is not None, "by the transport itself")
    # 8
    postern.file.write_text(substitute(postern.file.read_text(), r"^outbound *= *.*?;\s*};",
                                       "outbound = { observe = false; };"))
    test.equal(postern.command("reload").returncode, 0, "reload")
    told(test, postern, {"observe": False, "lane_age": None}, "no mail has used a lane", "8")

    def by_lane():
        send(test, site, postern, "mail goes")
        return "/lane" in site.postfix.log_text()
    test.wait_for(by_lane, "by a lane")
    told(test, postern, {"observe": False}, None, "all is well")
    test.check(mta(postern)["lane_age"] is not None, "a lane was used")
    # undone
    site.postfix.serve(site.plain)
    site.postfix.reload()
    lanes = site.postfix.log_until_now().count("/lane")
    send(test, site, postern, "undone: mail goes")
    test.equal(site.postfix.log_until_now().count("/lane"), lanes, "as before")


main(body, hosts=HOSTS, addresses=list(HOSTS), seconds=60)
