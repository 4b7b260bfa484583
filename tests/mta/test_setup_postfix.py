#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""postern-postfix-setup on a site with OpenDKIM, SASL submission, a content filter and
postscreen: mail goes every way as before, limits are in force on port 25, and undo
leaves byte-identical files."""
import shutil

from lib.setup_site import BACK, LIMIT, OUTSIDE, Site
from lib.smtp import open_sessions
from lib.testing import main
from lib.tree import tree


def look(test, site):
    code, told = site.setup("look")
    test.equal((code, [row["service"] for row in told["services"]], told["by"]),
               (0, ["smtpd/pass"], "milter"), "look: the smtpd behind postscreen, by milter")
    kept, notes = site.words(told, "kept"), site.words(told, "note")
    test.check({"submission", "re-injection", "local-mail", "routes", "leaving"} <= set(kept) and
               "submission/inet" in kept["submission"] and
               "127.0.0.1:10025/inet" in kept["re-injection"],
               "look: submission and the port behind the filter are left alone, and why")
    test.check({"postscreen", "milters", "filter"} <= set(notes) and
               str(site.dkim) in notes["milters"], "look: OpenDKIM, the filter, postscreen")
    code, told = site.setup("look", "--by", "both")
    obstacles = site.words(told, "obstacle")
    test.check(code == 69 and "check_recipient_access" in obstacles.get("delay-reject", "") and
               "smtpd_sender_restrictions" in obstacles["delay-reject"],
               "look --by both: what smtpd_delay_reject=no would break is in the way")


def show(test, site, before):
    done = site.plain("show")
    added = [line[1:] for line in done.stdout.splitlines()
             if line.startswith("+") and not line.startswith("+++")]
    test.equal((done.returncode, [line for line in done.stdout.splitlines()
                                  if line.startswith("-") and not line.startswith("---")]),
               (0, []), "show: lines are added, none is taken away")
    test.check(f"unix:{site.dkim} }}" in added[1] and "default_action=accept }" in added[1] and
               added[1].index("private/postern-milter") < added[1].index("dkim.sock"),
               "show: ours first, then OpenDKIM")
    test.equal((tree(site.postfix.etc), site.plain("make", "-n").stdout), (before, done.stdout),
               "show, and make -n: nothing is changed")


def limits(test, site):
    test.wait_for(lambda: site.postern.open("limited") == 0, "nobody is there any more")
    sessions = open_sessions(("127.0.0.1", 25), OUTSIDE[:LIMIT + 2])
    test.equal(sorted(session.code for session in sessions), [220] * LIMIT + [421] * 2,
               f"port 25: {LIMIT} sessions, the next are told 421")
    others = open_sessions(("127.0.0.1", 587), OUTSIDE)
    test.equal([session.code for session in others], [220] * len(OUTSIDE),
               "submission: no limit")
    for session in sessions + others:
        session.quit()
    test.within(5.0, lambda: site.postern.open("limited") == 0, "0 open after all have left")


def no_access(test, site):
    """A group in postern.conf that is not smtpd's: mail would flow without any limit."""
    socket = site.postfix.spool / "private/postern-milter"
    group = socket.stat().st_gid
    shutil.chown(socket, group=0)
    code, told = site.setup("look")
    found = [row for row in told["findings"] if row["word"] == "socket-access"]
    test.check(code == 69 and [row["where"] for row in found] == [str(socket)] and
               "postfix cannot open" in found[0]["text"], f"look: {found}")
    shutil.chown(socket, group=group)


def accounts(test, site, before):
    with site.postfix.renewed():
        code, told = site.setup("make", "--no-inbound", "--accounts")
    test.equal((code, told["accounts"] if code == 0 else told, told["services"]),
               (0, ["submission/inet"], []), "make --accounts: the submission service")
    line = next(line for line in (site.postfix.etc / "master.cf").read_text().splitlines()
                if "smtpd_recipient_restrictions = check_policy" in line)
    test.check("}, reject_unauth_destination," in line and "sasl_authenticated" not in line,
               "the site's own restrictions follow")
    test.equal([site.submission()[1] for _ in range(3)], [250, 250, 450], "2 recipients an hour")
    test.equal(site.outside()[1], 250, "mail from outside is not asked about")
    with site.postfix.renewed():
        test.equal(site.setup("undo")[1]["result"], "undone", "undo")
    test.equal((site.submission()[1], tree(site.postfix.etc)), (250, before), "byte-identical")


def logins_on_port_25(test, site):
    """smtpd_sasl_auth_enable in main.cf: it is on for every smtpd."""
    test.run(["postconf", "-c", site.postfix.etc, "-e", "smtpd_sasl_auth_enable = yes"])
    before, refused = tree(site.postfix.etc), site.refused()
    site.postern.command("forget", "account", "ann@mx.example.com")
    code, told = site.setup("look", "--accounts")
    notes = site.words(told, "note")
    test.equal((code, told["accounts"]), (0, ["smtpd/pass", "submission/inet"]),
               "look --accounts: port 25, too, where users log in there")
    test.check("127.0.0.1:10025/inet" in notes["no-quotas"], f"and which not: {notes['no-quotas']}")
    with site.postfix.renewed():
        code, told = site.setup("make", "--accounts")
    test.equal((code, told["result"] if code == 0 else told), (0, "made"), "make --accounts")
    test.equal([site.submission(port)[1] for port in (25, 587, 25)], [250, 250, 450],
               "2 recipients an hour, at both together")
    test.equal(site.outside()[1], 250, "mail from outside is not limited")
    test.equal(site.refused(), refused, "and the site's own checks stay")
    limits(test, site)
    with site.postfix.renewed():
        test.equal(site.setup("undo")[1]["result"], "undone", "undo")
    test.equal(tree(site.postfix.etc), before, "byte-identical")
    own_domains(test, site)
    code, told = site.setup("show", "--accounts", "--by", "policy", "--accept", "delay-reject")
    lists = [line for line in told["files"][0]["diff"].splitlines()
             if line.startswith("+") and "smtpd_recipient_restrictions" in line]
    test.equal((code, len(lists)), (0, 2), "by policy, too: each service has one list of a name")


def own_domains(test, site):
    """They count like all others, unless the configuration lists them: a line to paste."""
    main = site.postfix.etc / "main.cf"
    text = main.read_text()
    test.run(["postconf", "-c", site.postfix.etc, "-e", "mydestination = $myhostname, localhost, "
              "hash:/etc/none", "virtual_mailbox_domains = Own.example, !not.example, [192.0.2.1]",
              "relay_domains = own.example, relay.example"])
    line = '    free = [ "mx.example.com", "own.example", "relay.example" ];\n'
    told = site.plain("look", "--accounts").stdout
    test.check(line in told and "without those in tables" in told,
               f"look --accounts: the line free: {told[-700:] if line not in told else ''}")
    block = site.postern.file.read_text().replace('name = "all"; match', line + 'name = "all"; match')
    file = test.directory / "free.conf"
    file.write_text(block)
    test.equal((line in block, site.postern.command("check", file).returncode), (True, 0),
               "which can be pasted")
    test.check("free = " not in site.plain("look").stdout, "not without --accounts")
    test.run(["postconf", "-c", site.postfix.etc, "-e", "relay_domains = " + " ".join(
        f"d{i}.example" for i in range(30))])
    code, told = site.setup("look", "--accounts")
    test.equal((code, len(told["free"])), (0, 20), "20 at most")
    main.write_text(text)


def body(test):
    site = Site(test)
    site.postern.start()
    site.postfix.start(25, 587, BACK)
    test.check(not (site.postfix.etc / "master.cf").read_bytes().endswith(b"\n"),
               "the site's master.cf has an unended last line")
    before, as_before = tree(site.postfix.etc), site.every_way()
    test.check("DKIM-Signature" in as_before[0]["submission"][1] and
               "DKIM-Signature" in as_before[0]["local"][1] and
               "Authentication-Results" in as_before[0]["outside"][1] and
               all("X-Filter" in headers for _, headers in as_before[0].values()),
               f"the site works: {as_before}")
    look(test, site)
    no_access(test, site)
    show(test, site, before)
    with site.postfix.renewed():
        code, told = site.setup("make")
    test.equal((code, told["result"] if code == 0 else told), (0, "made"), "make")
    made = tree(site.postfix.etc)
    test.equal({name for name in made if made[name] != before.get(name)}, {"master.cf"},
               "make: master.cf alone is another")
    test.equal(made["master.cf"][1:4], before["master.cf"][1:4], "make: its mode and owner stay")
    code, told = site.setup("make")
    test.equal((code, told["result"], tree(site.postfix.etc)), (0, "unchanged", made),
               "make again: nothing to do")
    test.equal(site.every_way(), as_before, "mail goes every way as before")
    limits(test, site)
    with site.postfix.renewed():
        code, told = site.setup("undo")
    test.equal((code, told["result"]), (0, "undone"), "undo")
    test.equal(tree(site.postfix.etc), before, "undo: byte-identical, with mode, owner and time")
    test.equal(site.setup("undo")[1]["result"], "nothing", "undo again: nothing to do")
    test.equal(site.every_way(), as_before, "mail goes every way as before")
    sessions = open_sessions(("127.0.0.1", 25), OUTSIDE)
    test.equal([session.code for session in sessions], [220] * len(OUTSIDE), "and no limit")
    for session in sessions:
        session.quit()
    accounts(test, site, before)
    logins_on_port_25(test, site)


main(body)
