#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""postern-sendmail-setup on a site with a milter and a check_compat of its own: both go
on, limits are in force, mail that leaves is asked about, and undo leaves byte-identical
files."""
from lib.leaving import PORT
from lib.sendmail import find_root
from lib.sendmail_site import HOST, LIMIT, OUTSIDE, SERVERS, Site
from lib.smtp import open_sessions
from lib.testing import main
from lib.tree import tree


def look(test, site):
    code, told = site.setup("look")
    kept = {row["word"]: row["where"] + ": " + row["text"] for row in told["findings"]
            if row["kind"] == "kept"}
    test.check(code == 0 and {"check-compat", "check-relay", "milter", "rulesets", "submit"} <=
               set(kept),
               f"look: nothing is in the way; what is not touched: {sorted(kept)}")
    mc = (site.etc / "sendmail.mc").read_text().splitlines()
    test.check(f"line {mc.index('Scheck_compat') + 1}:" in kept["check-compat"] and
               "opendkim" in kept["milter"] and "Own" in kept["rulesets"],
               "look: the site's own check_compat, milter and rulesets, with their lines")


def show(test, site, before):
    done = site.plain("show")
    gone = [line for line in done.stdout.splitlines()
            if line.startswith("-") and not line.startswith(("---", "-#####"))]
    test.equal((done.returncode, [line.split("=")[0] for line in gone]),
               (0, ["-O InputMailFilters", "-O Milter.macros.connect"]),
               "show: two lines of sendmail.cf change, all else is added")
    test.check("+O InputMailFilters=postern, opendkim" in done.stdout, "show: ours is first")
    test.equal(tree(site.etc), before, "show: nothing is changed")


def in_force(test, site):
    test.wait_for(lambda: site.postern.open("limited") == 0, "nobody is there any more")
    sessions = open_sessions(("127.0.0.1", PORT), OUTSIDE)
    test.equal(sorted(session.code for session in sessions),
               [220] * LIMIT + [421] * (len(OUTSIDE) - LIMIT), f"{LIMIT} sessions, the next 421")
    texts = {session.text for session in sessions if session.code == 421}
    ids = {row["id"] for row in site.postern.ask("why")}
    test.check(all("Too many sessions" in text and any(f"(id={one})" in text for one in ids)
                   for text in texts), f"they read the text of their class, and the ID: {texts}")
    for session in sessions:
        session.quit()
    test.within(5.0, lambda: site.postern.open("limited") == 0, "0 open after all have left")
    site.postern.ask("suspend", HOST)
    site.send("held")
    site.run_queue()
    test.check("deferred by Postern" in site.sendmail.queue_text(),
               "mail for a suspended destination stays in the queue, and says why")
    site.postern.ask("resume", HOST)
    site.run_queue()
    test.equal((site.sendmail.queued(), f"held@{HOST}" in site.sink.delivered), (0, True),
               "resumed, it leaves")


def by_milter_alone(test, site, made):
    file = site.sendmail.root / "sendmail.pid"
    pid, command = file.read_text().splitlines()
    file.write_text(f"{pid}\nsendmail -bd\n")
    code, told = site.setup("make", "--no-connect")
    file.write_text(f"{pid}\n{command}\n")
    test.check("not reloaded: it was started without a full path (sendmail -bd)" in told["reload"]
               and command.startswith("/"), f"a Sendmail that SIGHUP would end is let be: {command}")
    cf = (site.etc / "sendmail.cf").read_text()
    test.check(code == 0 and "PosternClient" not in cf and "Xpostern," in cf and
               "PosternBefore" in cf, "make --no-connect: without the map for clients")
    test.equal((site.setup("make", "--no-reload")[1]["result"],
                site.setup("make", "--connect", "--no-reload")[1]["result"]), ("unchanged", "made"),
               "that is remembered, until --connect")
    test.equal(tree(site.etc)["sendmail.mc"][0], made["sendmail.mc"][0], "and all is as before")


def accounts(test, site):
    code, told = site.setup("make", "--accounts", "--no-reload")
    cf = (site.etc / "sendmail.cf").read_text()
    test.check(code == 0 and "O InputMailFilters=postern, opendkim, postern-accounts" in cf,
               f"make --accounts: below all other milters: {told if code else ''}")
    test.equal(told["free"], ["other.example", "own.example"], "and the domains of class w")
    test.check('    free = [ "other.example", "own.example" ];\n' in site.plain("look").stdout,
               "in a line to paste")
    test.equal(site.setup("make", "--no-accounts", "--no-reload")[1]["result"], "made",
               "and --no-accounts takes it away")


def body(test):
    site = Site(test)
    before, as_before = tree(site.etc), site.every_way()
    test.equal(as_before, ((250, True), True, False, True, 550), "the site works")
    look(test, site)
    show(test, site, before)
    code, told = site.setup("make")
    test.equal((code, told["result"] if code == 0 else told), (0, "made"), "make")
    site.restarted()
    made = tree(site.etc)
    test.equal({name for name in made if made[name] != before.get(name)},
               {"sendmail.mc", "sendmail.cf"}, "make: two files are others")
    code, told = site.setup("make")
    test.equal((code, told["result"], tree(site.etc)), (0, "unchanged", made),
               "make again: nothing to do")
    test.equal(site.every_way(), as_before, "mail goes every way as before")
    in_force(test, site)
    by_milter_alone(test, site, made)
    accounts(test, site)
    code, told = site.setup("undo")
    test.equal((code, told["result"] if code == 0 else told), (0, "undone"), "undo")
    test.equal(tree(site.etc), before, "undo: byte-identical, with mode, owner and time")
    site.restarted()
    test.equal(site.every_way(), as_before, "mail goes every way as before")
    sessions = open_sessions(("127.0.0.1", PORT), OUTSIDE)
    test.equal([session.code for session in sessions], [220] * len(OUTSIDE), "and no limit")
    for session in sessions:
        session.quit()


main(body, hosts=SERVERS, before=find_root)
