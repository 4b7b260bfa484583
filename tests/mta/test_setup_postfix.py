#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""postern-postfix-setup on a site with OpenDKIM, SASL submission, a content filter and
postscreen: mail goes every way as before, limits are in force on port 25, and undo
leaves byte-identical files."""
import base64
import json
import os
import shutil
import subprocess

from lib.mailbox import Mailbox
from lib.postern import Postern, one_class
from lib.postfix import Postfix
from lib.smtp import Session, open_sessions
from lib.testing import SOURCE, main
from lib.tree import tree

FILTER, BACK, BOX = 10024, 10025, 2600
LIMIT = 3
OUTSIDE = [f"127.0.5.{n}" for n in range(1, 9)]

SERVICES = """# Mail from outside: postscreen, then smtpd.
smtp      inet  n       -       n       -       1       postscreen
smtpd     pass  -       -       n       -       -       smtpd
  -o smtpd_banner=$myhostname

dnsblog   unix  -       -       n       -       0       dnsblog
tlsproxy  unix  -       -       n       -       0       tlsproxy
submission inet n       -       n       -       -       smtpd
  -o syslog_name=postfix-A/submission
  -o smtpd_sasl_auth_enable=yes
  -o smtpd_client_restrictions=permit_sasl_authenticated,reject
scan      unix  -       -       n       -       10      smtp
  -o smtp_send_xforward_command=no
# Back from the filter
127.0.0.1:10025 inet n  -       n       -       10      smtpd
  -o content_filter=
  -o smtpd_milters=
  -o smtpd_recipient_restrictions=permit_mynetworks,reject
  -o mynetworks=127.0.0.0/8
  -o receive_override_options=no_unknown_recipient_checks"""

MAIN = """transport_maps = static:smtp:[127.0.0.1]:{box}
content_filter = scan:[127.0.0.1]:{filter}
smtpd_milters = unix:{dkim}
non_smtpd_milters = $smtpd_milters
milter_default_action = tempfail
smtpd_sasl_security_options = noanonymous
smtpd_sasl_local_domain = mx.example.com
postscreen_access_list = cidr:{sasl}/friends
postscreen_cache_map =
smtpd_sender_restrictions =
    check_recipient_access inline:{{ nobody@example.com=REJECT }}
smtpd_recipient_restrictions = reject_unauth_destination,
    check_client_access inline:{{ 127.0.5.99=REJECT }}
"""


class Site:
    def __init__(self, test):
        self.test = test
        for program in ("opendkim", "saslpasswd2", "openssl", "perl"):
            test.need(program)
        self.dkim = test.directory / "dkim.sock"
        self.sasl = test.directory / "sasl"
        self.sasl.mkdir()
        (self.sasl / "friends").write_text("127.0.0.0/8 permit\n")
        self.opendkim()
        self.postfix = Postfix(test, [SERVICES], main=MAIN.format(
            box=BOX, filter=FILTER, dkim=self.dkim, sasl=self.sasl))
        self.login()
        os.utime(self.postfix.etc / "master.cf", ns=(10**18 + 1, 10**18 + 123456789))
        os.chown(self.postfix.etc / "master.cf", 0, 8)
        os.chmod(self.postfix.etc / "master.cf", 0o640)
        limited = one_class("limited", LIMIT, [25], '"127.0.5.0/24"')
        self.postern = Postern(test, spool=self.postfix.spool, edit=lambda text: text.replace(
            "\nclasses = (", f"\nclasses = (\n{limited},"))
        self.box, self.filter = Mailbox(test, BOX), Mailbox(test, FILTER, BACK)
        self.number = 0

    def login(self):
        (self.postfix.etc / "sasl").mkdir()     # where Debian's looks
        (self.postfix.etc / "sasl/smtpd.conf").write_text(
            "pwcheck_method: auxprop\nauxprop_plugin: sasldb\nmech_list: PLAIN\n"
            f"sasldb_path: {self.sasl}/sasldb2\n")
        self.test.run(["saslpasswd2", "-c", "-p", "-f", self.sasl / "sasldb2",
                       "-u", "mx.example.com", "ann"], input="secret")
        shutil.chown(self.sasl / "sasldb2", "postfix")

    def opendkim(self):
        test, key = self.test, self.test.directory / "dkim.key"
        test.run(["openssl", "genrsa", "-out", key, "1024"])
        key.chmod(0o600)
        conf = test.directory / "opendkim.conf"
        conf.write_text(f"Domain example.com\nSelector s\nKeyFile {key}\nMode sv\nUMask 000\n"
                        f"Socket local:{self.dkim}\nAlwaysAddARHeader yes\nSyslog yes\n"
                        "Nameservers 127.0.0.1\nInternalHosts 127.0.0.1\nPidFile /run/dkim.pid\n")
        test.spawn(["opendkim", "-f", "-x", conf], "opendkim")
        test.wait_for(self.dkim.exists, "OpenDKIM listens")

    def setup(self, *words):
        """Exit code and what it told, as JSON."""
        done = self.plain("--json", *words)
        return done.returncode, json.loads(done.stdout) if done.stdout else done.stderr

    def plain(self, *words):
        return subprocess.run(
            [SOURCE / "contrib/postern-postfix-setup", "-c", self.postfix.etc,
             "--store", self.test.directory / "store", "--postern-conf", self.postern.file,
             "--posternctl", self.postern.build / "posternctl", *words],
            text=True, capture_output=True, timeout=60)

    def words(self, told, kind):
        return {row["word"]: row["text"] for row in told["findings"] if row["kind"] == kind}

    # Ways that mail takes

    def recipient(self, way):
        self.number += 1
        return f"{way}{self.number}@example.com"

    def send(self, session, recipient, sender):
        code, _ = session.data([recipient], sender)
        return code if code != 354 else session.command(
            f"From: {sender}\r\nSubject: test\r\n\r\ntest\r\n.")[0]

    def outside(self):
        recipient = self.recipient("outside")
        session = Session(("127.0.0.1", 25), OUTSIDE[0])
        code = self.send(session, recipient, "a@example.org")
        session.quit()
        return recipient, code

    def submission(self):
        recipient = self.recipient("submission")
        session = Session(("127.0.0.1", 587), OUTSIDE[0])
        session.command("EHLO client.example.org")
        code, _ = session.command("AUTH PLAIN " + base64.b64encode(
            b"\0ann@mx.example.com\0secret").decode())
        if code == 235:
            code = self.send(session, recipient, "ann@example.com")
        session.quit()
        return recipient, code

    def local(self):
        recipient = self.recipient("local")
        self.test.run(["sendmail", "-C", self.postfix.etc, "-f", "ann@example.com", recipient],
                      input="From: ann@example.com\nSubject: local\n\ntest\n")
        return recipient, 250

    def refused(self):
        """What the site's own checks say on port 25."""
        codes = []
        for client, recipient in (("127.0.5.99", "x@example.com"), (OUTSIDE[0], "x@far.example"),
                                  (OUTSIDE[0], "nobody@example.com")):
            session = Session(("127.0.0.1", 25), client)
            codes.append(session.send([recipient], "a@example.org")[0])
            session.quit()
        return codes

    def every_way(self):
        """Of each way: the reply, and the names of the headers behind the filter."""
        sent = {"outside": self.outside(), "submission": self.submission(), "local": self.local()}
        for recipient, _ in sent.values():
            self.test.wait_for(lambda: self.box.to(recipient), f"mail for {recipient}", 20)
        return ({way: (code, self.box.headers(recipient))
                 for way, (recipient, code) in sent.items()}, self.refused())


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
    sessions = open_sessions(("127.0.0.1", 25), OUTSIDE[:LIMIT + 2])
    test.equal(sorted(session.code for session in sessions), [220] * LIMIT + [421] * 2,
               f"port 25: {LIMIT} sessions, the next are told 421")
    others = open_sessions(("127.0.0.1", 587), OUTSIDE)
    test.equal([session.code for session in others], [220] * len(OUTSIDE),
               "submission: no limit")
    for session in sessions + others:
        session.quit()
    test.within(5.0, lambda: site.postern.open("limited") == 0, "0 open after all have left")


def edited(test, site):
    """Somebody goes on working after make."""
    master = site.postfix.etc / "master.cf"
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
               (0, "taken out", SITE_TEXT[0].replace(b"# Back from", b"# mine\n# Back from")
                + b"\nnew unix - - n - - smtp"), "undo --only-ours: the rest stays")
    master.write_bytes(SITE_TEXT[0])


SITE_TEXT = []


def body(test):
    site = Site(test)
    site.postern.start()
    site.postfix.start(25, 587, BACK)
    SITE_TEXT.append((site.postfix.etc / "master.cf").read_bytes())
    test.check(not SITE_TEXT[0].endswith(b"\n"), "the site's master.cf has an unended last line")
    before, as_before = tree(site.postfix.etc), site.every_way()
    test.check("DKIM-Signature" in as_before[0]["submission"][1] and
               "DKIM-Signature" in as_before[0]["local"][1] and
               "Authentication-Results" in as_before[0]["outside"][1] and
               all("X-Filter" in headers for _, headers in as_before[0].values()),
               f"the site works: {as_before}")
    look(test, site)
    show(test, site, before)
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
    code, told = site.setup("undo")
    test.equal((code, told["result"]), (0, "undone"), "undo")
    test.equal(tree(site.postfix.etc), before, "undo: byte-identical, with mode, owner and time")
    test.equal(site.setup("undo")[1]["result"], "nothing", "undo again: nothing to do")
    test.equal(site.every_way(), as_before, "mail goes every way as before")
    sessions = open_sessions(("127.0.0.1", 25), OUTSIDE)
    test.equal([session.code for session in sessions], [220] * len(OUTSIDE), "and no limit")
    for session in sessions:
        session.quit()
    test.equal(site.setup("make")[0], 0, "make, once more")
    edited(test, site)


main(body)
