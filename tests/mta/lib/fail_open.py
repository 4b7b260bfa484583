# SPDX-License-Identifier: ISC
"""A Postfix whose mail goes by lanes, and a Sendmail that asks, with one Postern for both:
what is sent through them while Postern is being damaged, and whether it arrives."""
import itertools
import re

from lib import dns
from lib.limiter import Limiter
from lib.outbound import REMOTE, Outbound
from lib.postern import one_class
from lib.sendmail import Sendmail, have_root
from lib.smtp import Session
from lib.testing import PLACE

POSTFIX, SENDMAIL = 2025, 2045
HOSTS = {"192.0.2.11": "lane.example", "192.0.2.12": "held.example",
         "192.0.2.13": "other.example"}
MAIN = """mydestination = local.example
recipient_delimiter = +
mail_spool_directory = /run/t/boxes
"""
# Sendmail's own local delivery, to a file.
LOCAL = f"""define(`LOCAL_MAILER_PATH',`{PLACE}/deliver')dnl
define(`LOCAL_MAILER_ARGS',`deliver $u $h')dnl
"""
DELIVER = f"""#!/bin/sh
cat >/dev/null
[ "$1" != -f ] || shift 2
echo "$1+$2@localhost" >>{PLACE}/boxes/of-sendmail
"""
LANE = re.compile(r"postfix-A/lane\d+/smtp\[\d+\]: \w+: to=<(.*?)>")


class Both:
    def __init__(self, test):
        self.test, self.numbers, self.sent = test, itertools.count(1), []
        self.of_sendmail = set()
        test.deaths_expected = True
        (PLACE / "boxes").mkdir()
        (PLACE / "boxes").chmod(0o1777)
        (PLACE / "deliver").write_text(DELIVER)
        (PLACE / "deliver").chmod(0o755)
        self.sink = Limiter(test, list(HOSTS), REMOTE, seconds=0)
        others, self.sendmail = "", None
        if have_root():
            others = (f', {{ name = "sm"; kind = "sendmail"; ports = [ {REMOTE} ]; '
                      f'log = "{test.logs}/syslog"; }}')
        self.site = Outbound(test, POSTFIX, [one_class("all", 1000)], main=MAIN, others=others)
        self.postern, self.postfix = self.site.postern, self.site.postfix
        if have_root():
            dns.serve({})
            self.sendmail = Sendmail(test, SENDMAIL, socketmap=self.postern.root / "map",
                                     outbound=REMOTE, before=LOCAL)
            self.sendmail.start()

    # --- what is sent

    def recipients(self, *domains):
        """New ones; each gets one message."""
        found = [f"postern+{next(self.numbers)}@{domain}" for domain in domains]
        self.sent += found
        return found

    def through(self, port, recipients):
        for recipient in recipients:
            session = Session(("127.0.0.1", port))
            code, text = session.send([recipient])
            if code != 250:
                self.test.check(False, f"{recipient} on port {port}: {code} {text}")
            session.quit()

    def by_postfix(self, *domains):
        recipients = self.recipients(*domains)
        self.through(POSTFIX, recipients)
        return recipients

    def by_sendmail(self, *domains):
        if self.sendmail is None:
            return []
        recipients = self.recipients(*domains)
        self.of_sendmail |= set(recipients)
        self.through(SENDMAIL, recipients)
        return recipients

    # --- and what arrives

    def arrived(self):
        with self.sink.lock:
            found = [name for name, _ in self.sink.delivered]
        for name, pattern in (("postern", r"^X-Original-To: (.*)$"), ("of-sendmail", r"^(.*)$")):
            box = PLACE / "boxes" / name
            if box.exists():
                found += re.findall(pattern, box.read_text(errors="replace"), re.MULTILINE)
        return found

    def there(self, recipients):
        return set(recipients) <= set(self.arrived())

    def all_there(self, recipients, limit, text):
        self.test.within(limit, lambda: self.there(recipients), text)
        missing = sorted(set(recipients) - set(self.arrived()))
        if missing:
            self.test.check(False, f"{text}: not there: {', '.join(missing)}")

    def sendmail_delivers(self, recipients, limit, text):
        """By queue runs, one after another."""
        if self.sendmail is None:
            return
        runs = []

        def done():
            if self.there(recipients):
                return True
            if not runs or runs[-1].poll() is not None:
                runs.append(self.sendmail.queue_run())
            return False
        self.test.within(limit, done, f"Sendmail: {text}")

    def went_by_lane(self, recipients):
        """Those that did; the log may be a moment late."""
        self.test.poll(lambda: all(f": to=<{recipient}>" in self.postfix.log_text()
                                   for recipient in recipients), 5)
        found = set(LANE.findall(self.postfix.log_text()))
        return [recipient for recipient in recipients if recipient in found]

    def each_once(self):
        """Queues are emptied first: what was held, too."""
        self.postern.command("resume", "held.example")
        self.test.wait_for(lambda: not self.hint("held.example").startswith("OK retry:"),
                           "nothing is held any more")
        self.sendmail_delivers([name for name in self.sent if name in self.of_sendmail], 10,
                               "all is delivered")

        def flushed():          # Postfix remembers the address that it asked for last
            self.by_postfix("other.example")
            self.postfix.flush()
            return self.test.poll(lambda: self.there(self.sent), 1) is not None
        self.test.wait_for(flushed, "all that was sent is there")
        arrived = self.arrived()
        self.test.equal(len(arrived), len(set(arrived)), f"each of {len(self.sent)} once")
        for line in self.postfix.log_text().splitlines():
            if any(word in line for word in ("fatal", "panic", "resolver failure",
                                             "mail transport unavailable", "status=bounced")):
                self.test.check(False, line)

    # --- as it should be

    def ready(self):
        """lane.example goes by lanes, held.example is suspended."""
        first = self.by_postfix("lane.example", "held.example", "local.example")
        first_too = self.by_sendmail("lane.example", "held.example", "localhost")
        self.all_there(first, 10, "first mail goes")
        self.sendmail_delivers(first_too, 10, "first mail goes")
        self.postern.ask("limit", "lane.example", "--window", 5, "--ceiling", 5, "--for", "1h")
        self.postern.ask("suspend", "held.example", "--for", "1h", "--reason", "a test")
        self.obeyed("before")

    def obeyed(self, text):
        """The lanes are used, the suspended one is held, by both."""
        self.test.wait_for(lambda: self.hint("lane.example").startswith("OK lane") and
                           self.hint("held.example").startswith("OK retry:"),
                           f"{text}: there are hints")
        sent = self.by_postfix("lane.example", "local.example", "held.example")
        self.all_there(sent[:2], 5, f"{text}: mail goes")
        self.test.equal(self.went_by_lane(sent[:2]), sent[:1], f"{text}: by a lane")
        self.test.wait_for(lambda: re.search(rf"to=<{re.escape(sent[2])}>.*status=deferred "
                                             r"\(Postern: held\.example is suspended",
                                             self.postfix.log_text()),
                           f"{text}: mail for held.example is held")
        if self.sendmail is not None:
            held = self.by_sendmail("held.example")
            self.sendmail.queue_run().wait(20)
            self.test.check(not self.there(held), f"{text}: and by Sendmail")

    def hint(self, domain):
        """As Postfix's own postern-lookup is told."""
        return self.site.ask(f"x@{domain}", user="nobody", group="nogroup", extra_groups=[])

    def both_go(self, text, held=False, limit=4):
        """Mail for others and local mail goes; `held`: that for the suspended one, too."""
        more = ["held.example"] if held else []
        sent = self.by_postfix("lane.example", "other.example", "local.example", *more)
        self.all_there(sent, limit, f"{text}: Postfix delivers")
        return sent

    def sendmail_goes(self, text, held=False, limit=5):
        more = ["held.example"] if held else []
        sent = self.by_sendmail("lane.example", "other.example", "localhost", *more)
        self.sendmail_delivers(sent, limit, text)
