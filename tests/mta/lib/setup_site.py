# SPDX-License-Identifier: ISC
"""A Postfix site with OpenDKIM, SASL submission, a content filter and postscreen, and the
ways that mail takes there."""
import base64
import json
import os
import shutil
import subprocess

from lib.mailbox import Mailbox
from lib.postern import Postern, one_class
from lib.postfix import Postfix
from lib.smtp import Session
from lib.testing import SOURCE

FILTER, BACK, BOX = 10024, 10025, 2600
LIMIT = 3
ACCOUNTS = ('accounts = ( { name = "all"; match = "*"; '
            'each = { recipients = "2/1h"; }; } );\n')
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
            "\nclasses = (", f"\nclasses = (\n{limited},") + ACCOUNTS)
        self.box, self.filter = Mailbox(test, BOX), Mailbox(test, FILTER, BACK)
        self.number = 0

    def login(self):
        (self.postfix.etc / "sasl").mkdir()     # where Debian's looked until Postfix 3.9
        self.test.run(["postconf", "-c", self.postfix.etc, "-e",
                       f"cyrus_sasl_config_path={self.postfix.etc}/sasl"])
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

    def submission(self, port=587):
        recipient = self.recipient("submission")
        session = Session(("127.0.0.1", port), OUTSIDE[0])
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
