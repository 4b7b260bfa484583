#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""alert.command on a running daemon: what it is told of and how; hostile words stay one
argument; one that hangs is killed and holds up nothing; what is left out is counted."""
import os
import re
import signal
import time

from lib.postern import Postern, one_class, substitute
from lib.smtp_log import SmtpLog
from lib.testing import SOURCE, alive, main

NAME = "-oq\xe9.example"                # as a remote domain may call itself
SHOWN = r"-oq\xe9.example"
EVIL = 'x"; touch {0}/owned; $(touch {0}/owned) `touch {0}/owned` \'; touch {0}/owned #'
REFUSED = "host mx.{0}[192.0.2.1] refused to talk to me: 421 4.7.0 {1}"
LISTED = ("host mx.{0}[192.0.2.1] said: 554 5.7.1 Service unavailable; Client host [192.0.2.9] "
          "blocked using zen.spamhaus.org (in reply to RCPT TO command)")


class Site:
    def __init__(self, test):
        self.test = test
        self.log = test.directory / "mail.log"
        self.mail_log = SmtpLog(self.log)
        self.told = test.directory / "told"
        self.told.mkdir()
        self.told.chmod(0o1777)
        self.classes, self.alert = [], self.use("tells", f"""
{{ printf '%s\\0' "$@"; env -0 | grep -z ^POSTERN_; printf 'uid=%s\\0' "$(id -u)"; }} >{self.told}/.$$ &&
	mv {self.told}/.$$ {self.told}/$$
""", "root")
        self.postern = Postern(test, edit=self.edit)
        self.postern.kinds = self.postern.kinds | {"feed"}
        self.postern.start()

    def use(self, name, text, *words, more='rate = "100/1m";'):
        """Settings with a script as the command."""
        script = self.test.directory / name
        script.write_text("#!/bin/sh\n" + text)
        script.chmod(0o755)
        listed = ", ".join(f'"{word}"' for word in (script, *words))
        return f"alert = {{ command = [ {listed} ]; {more} }};"

    def edit(self, text):
        text = substitute(text, r"^outbound *= *\{[^}]*\};", "outbound = { observe = false; };")
        text = substitute(text, r"^#alert = .*?$", self.alert)
        return text + (f'mta = ( {{ name = "a"; log = "{self.log}"; log_start = "begin"; }} );\n'
                       f'providers = "{SOURCE}/conf/providers.conf";\n')

    def reload(self, alert, classes=()):
        self.alert = alert
        self.postern.configure(classes, self.edit)
        self.test.equal(self.postern.command("reload").returncode, 0, "reload")

    def fails(self, domain, count, text):
        self.mail_log.refuse(domain, count, text)

    def counter(self, name):
        return self.postern.status()["counters"][name]

    def all(self):
        """[(arguments, variables)], the order is unknown."""
        found = []
        for file in self.told.iterdir():
            if file.name.startswith("."):
                continue
            words = file.read_bytes().decode("latin-1").split("\0")[:-1]
            variables = dict(word.split("=", 1) for word in words[2:])
            found.append((words[:2], variables))
        return found

    def of(self, kind):
        return [one for one in self.all() if one[1]["POSTERN_ALERT_KIND"] == kind]

    def comes(self, kind, what):
        self.test.within(3, lambda: self.of(kind), what)
        return self.of(kind)[0]


def hostile(test, site):
    site.fails(NAME, 8, REFUSED.format(NAME, EVIL.format(test.directory)))
    words, facts = site.comes("suspended", "a suspension is told of")
    test.equal(len(words), 2, "in one argument")
    test.check(words[1].startswith(f"suspended {SHOWN}: mail would be suspended for 300 s "
                                   "because its deliveries fail (not enforced: no hints for a): "), words[1])
    test.check("421 4.7.0 x'; touch" in facts["POSTERN_ALERT_TEXT"], "with what was said")
    test.equal(facts["POSTERN_ALERT_SUBJECT"], SHOWN, "whom it is about")
    test.equal((facts["POSTERN_ALERT_FOR"], facts["POSTERN_ALERT_OBSERVED"], facts["uid"] != "0"),
               ("300", "yes", True), "for how long, that nothing enforces it, and not as root")
    test.wait_for(lambda: "event=suspended " in site.postern.log_text(), "it is logged")
    line = re.search(r"event=suspended .*", site.postern.log_text()).group(0)
    test.check(f"id={facts['POSTERN_ALERT_ID']} " in line + " ", "its id is that of the log")
    test.check(re.fullmatch(r"[0-9a-z]{12,13}", facts["POSTERN_ALERT_ID"]), "and is an id")
    test.check(f"(id {facts['POSTERN_ALERT_ID']})" in words[1], "people see it")
    everything = "".join(words) + "".join(facts.values())
    test.check(all(" " <= c <= "~" for c in everything), "all is printable ASCII")
    test.check(not (test.directory / "owned").exists(), "nothing of it was run")


def again(test, site):
    """Of the same destination one is told in an interval."""
    def counts():
        return site.counter("alerts_told"), site.counter("alerts_left_out")

    site.fails("again.example", 8, REFUSED.format("again.example", "no"))
    test.within(3, lambda: len(site.of("suspended")) == 2, "another destination is told of")
    site.postern.ask("resume", "again.example")
    told, left_out = counts()
    time.sleep(1.1)  # LINT-SLEEP: the log's lines tell whole seconds
    site.fails("again.example", 8, REFUSED.format("again.example", "no"))
    test.within(3, lambda: counts() == (told, left_out + 1),
                "the same once more is left out and counted")


def others(test, site):
    site.fails("listed.example", 1, LISTED.format("listed.example"))
    words, facts = site.comes("reply", "a blocklist is told of")
    test.check("listed.example: " in words[1] and "zen.spamhaus.org" in words[1], words[1])
    test.check(facts["POSTERN_ALERT_RULE"] and facts["POSTERN_ALERT_ID"], "by rule and id")
    test.deaths_expected = True
    os.kill(site.postern.roles()["policy.1"], signal.SIGKILL)
    words, facts = site.comes("role", "a process that died is told of")
    test.check(words[1].startswith("role policy.1: ended with signal 9 "), words[1])
    site.reload(site.alert, [])
    full = one_class("none", 0, [25])
    site.postern.file.write_text(re.sub(r"^classes = \(.*?^\);", lambda _: f"classes = (\n{full} );",
                                        site.postern.text([], site.edit), flags=re.M | re.S))
    site.postern.ask("reload")
    words, facts = site.comes("gate", "a shut gate is told of")
    test.equal(facts["POSTERN_ALERT_ID"], "", "which is no decision")


def hangs(test, site):
    pids = site.told / ".pids"
    hung = site.use("hangs", f"case $POSTERN_ALERT_SUBJECT in hangs*)\n"
                    f"sleep 1000 & echo $$ $! >{pids}.new; mv {pids}.new {pids}; wait;; esac\n"
                    f"exec {test.directory}/tells \"$@\"", "root",
                    more='timeout = "6s"; processes = 1;')
    site.reload(hung)
    site.fails("hangs.example", 5, REFUSED.format("hangs.example", "no"))
    test.wait_for(pids.exists, "a command that hangs is run")
    both = [int(pid) for pid in pids.read_text().split()]
    site.fails("next.example", 5, REFUSED.format("next.example", "no"))
    test.check(site.postern.command("reload").returncode == 0 and all(map(alive, both)),
               "the supervisor answers meanwhile")
    test.within(7, lambda: not any(map(alive, both)),
                "it is killed after its time, with what it started")
    test.within(3, lambda: any(one[1]["POSTERN_ALERT_SUBJECT"] == "next.example"
                               for one in site.of("suspended")), "and the next one has its turn")
    test.check(re.search(r"event=alert-command kind=suspended .*signal=9 killed=yes",
                         site.postern.log_text()), "that is logged")
    test.equal(site.counter("alert_failures"), 1, "and counted")


def loud(test, site):
    """One that writes more than a pipe holds, which nobody read until its end."""
    done = site.told / ".loud"
    site.reload(site.use("loud", f"head -c 200000 /dev/zero; head -c 100000 /dev/zero >&2\n"
                         f"touch {done}\necho last >&2\n", "root", more='on = "role";'))
    os.kill(site.postern.roles()["feed.0"], signal.SIGKILL)
    test.within(3, done.exists, "a command that writes 300,000 bytes comes to its end")


def mails(test, site):
    """contrib/alert-mail, to what takes mail as sendmail does."""
    taker = test.directory / "sendmail"
    taker.write_text(f"#!/bin/sh\n{{ echo \"$@\"; cat; }} >{site.told}/.mail.new && "
                     f"mv {site.told}/.mail.new {site.told}/.mail\n")
    taker.chmod(0o755)
    site.reload(site.use("mails", f'SENDMAIL={taker} exec {SOURCE}/contrib/alert-mail "$@"\n',
                         "root", "-f", more='on = "role";'))
    os.kill(site.postern.roles()["policy.0"], signal.SIGKILL)
    mail = site.told / ".mail"
    test.within(3, mail.exists, "alert-mail mails it")
    text = mail.read_text()
    test.check(text.startswith("-i -- root -f\nSubject: postern on "), "to its addresses alone")
    test.check("role policy.0\n" in text.split("\n\n")[0] + "\n" and
               "ended with signal 9" in text, "what and whom")


def body(test):
    site = Site(test)
    hostile(test, site)
    again(test, site)
    others(test, site)
    hangs(test, site)
    loud(test, site)
    mails(test, site)
    told = site.counter("alerts_told")
    test.check(told >= 6, f"{told} were told, and are counted")


main(body)
