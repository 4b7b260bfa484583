#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""postern-postfix-setup with lanes: qmgr's line gives way to those of posternctl
postfix-lanes, mail goes by lanes and is held, and undo gives back the very file."""
from pathlib import Path

from lib.limiter import Limiter
from lib.outbound import REMOTE
from lib.plain_site import PORT, site_with_lanes
from lib.testing import main
from lib.tree import tree

HOSTS = {"192.0.2.13": "open.example"}


def by_lane(test, site, sink):
    test.wait_for(lambda: site.ask("u@open.example").startswith("OK lane"),
                  "mail for a new domain has lanes")
    site.postfix.send(PORT, "open.example")
    site.postfix.send(PORT, "open.example", user="second")
    test.wait_for(lambda: sink.count("open.example") == 2, "two mails are delivered")
    test.wait_for(lambda: site.lines_of("open.example", "status=sent") == 2, "the log tells both")
    test.check(site.lines_of("open.example", "postfix-A/lane") == 2, "by lanes")


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


def only_looks(test, site):
    """look, show and make -n wrote the site's file, and had the daemon reload."""
    noted = Path(site.postern.ask("postfix-lanes", "--dry-run")["site"])
    text, generation = noted.read_bytes(), site.postern.ask("status")["generation"]
    noted.write_bytes(b"as it was\n")
    for words in (("look",), ("show",), ("make", "-n")):
        site.setup(*words)
        test.equal((noted.read_bytes(), site.postern.ask("status")["generation"]),
                   (b"as it was\n", generation), f"{' '.join(words)}: nothing is noted or reloaded")
    noted.write_bytes(text)


def body(test):
    sink = Limiter(test, list(HOSTS), REMOTE, seconds=0.05)
    site, before = site_with_lanes(test)
    only_looks(test, site)
    test.equal(site.setup("make")[1]["result"], "unchanged", "make again: nothing to do")
    by_lane(test, site, sink)
    held(test, site, sink)
    with site.postfix.renewed():
        code, told = site.setup("undo")
    test.equal((code, told["result"], tree(site.postfix.etc)), (0, "undone", before),
               "undo: byte-identical")
    site.postfix.send(PORT, "open.example", user="last")
    test.wait_for(lambda: sink.count("open.example") == 5 and
                  site.lines_of("last@open.example", "status=sent"), "mail goes")
    test.equal(site.lines_of("last@open.example", "postfix-A/lane"), 0, "by no lane any more")


main(body, hosts=HOSTS, addresses=list(HOSTS))
