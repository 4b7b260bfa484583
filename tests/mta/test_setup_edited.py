#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""postern-postfix-setup where somebody edited since, and where the admin accepts what is
in the way of asking by policy and milter at once."""
from lib.setup_site import BACK, LIMIT, OUTSIDE, Site
from lib.smtp import Session, open_sessions
from lib.testing import main
from lib.tree import tree


def edited(test, site):
    """Somebody goes on working after make."""
    master = site.postfix.etc / "master.cf"
    text = master.read_bytes()
    test.equal(site.setup("make")[0], 0, "make")
    made = master.read_bytes()
    master.write_bytes(made.replace(b"# Back from", b"# mine\n# Back from") + b"\nnew unix - - n - - smtp")
    status = tree(site.postfix.etc)
    done = site.plain("undo")
    test.check(done.returncode == 65 and "was edited since" in done.stdout and
               "--only-ours" in done.stdout and "-  -o { smtpd_milters" in done.stdout,
               "undo after an edit: refused, and shown what --only-ours would do")
    test.equal(tree(site.postfix.etc), status, "and nothing was changed")
    code, told = site.setup("undo", "--only-ours")
    test.equal((code, told["result"], master.read_bytes()),
               (0, "taken out", text.replace(b"# Back from", b"# mine\n# Back from")
                + b"\nnew unix - - n - - smtp"), "undo --only-ours: the rest stays")
    master.write_bytes(text)


def by_both(test, site):
    """The admin knows better about smtpd_delay_reject: policy and milter at once."""
    before = tree(site.postfix.etc)
    test.equal(site.setup("make", "--by", "both")[0], 69, "make --by both: refused")
    with site.postfix.renewed():
        code, told = site.setup("make", "--by", "both", "--accept", "delay-reject")
    test.equal((code, told.get("result")), (0, "made"), "make --by both --accept delay-reject")
    sessions = open_sessions(("127.0.0.1", 25), OUTSIDE[:LIMIT + 1])
    refused = [session.text for session in sessions if session.code == 421]
    test.check(len(refused) == 1 and "rejected" in refused[0], f"port 25: {refused}")
    for session in sessions:
        session.quit()
    test.wait_for(lambda: site.postern.open("limited") == 0, "0 open after all have left")
    session = Session(("127.0.0.1", 25), "127.0.5.99")
    test.equal(session.send(["x@example.com"])[0], 554, "the site's own checks go on")
    session.quit()
    test.equal((site.setup("undo")[0], tree(site.postfix.etc)), (0, before), "undo: byte-identical")


def body(test):
    site = Site(test)
    site.postern.start()
    site.postfix.start(25, 587, BACK)
    edited(test, site)
    by_both(test, site)


main(body)
