#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""Reload during open sessions: by posternctl and by SIGHUP."""
import signal
import subprocess

from lib.postern import one_class, substitute
from lib.postfix import conf_service
from lib.scenario import leave_all, sources
from lib.site import site
from lib.smtp import admitted, open_sessions
from lib.testing import main

POLICY, MILTER = 2025, 2026
PORTS = [POLICY, MILTER]
EX_TEMPFAIL, EX_CONFIG = 75, 78


class Reloads:
    def __init__(self, test, postern):
        self.test, self.postern = test, postern

    def reload(self, classes, edit=None):
        self.postern.configure(classes, edit)
        return self.postern.command("reload", json_output=False)

    def good(self, classes, edit=None):
        done = self.reload(classes, edit)
        self.test.equal(done.returncode, 0, "posternctl reload")
        if done.returncode:
            self.test.say(done.stdout + done.stderr)
        return done.stdout + done.stderr

    def come(self, count, port=POLICY, net="127.0.1"):
        sessions = open_sessions(("127.0.0.1", port), sources(count, net))
        return admitted(sessions)

    def limits(self):
        """Up and down, under open sessions."""
        test = self.test
        held = self.come(7)
        test.equal(len(held), 5, "limit 5: 5 of 7 are let in")
        self.good([one_class("a", 8, PORTS)])
        more = self.come(3) + self.come(3, MILTER)
        test.equal(len(more), 3, "raised to 8: 3 of 6 more are let in")
        held += more
        self.good([one_class("a", 3, PORTS)])
        test.equal(self.postern.open("a"), 8, "lowered to 3: all 8 stay")
        test.equal(len(self.come(2)), 0, "and nobody comes in")
        leave_all(held[2:])
        test.wait_for(lambda: self.postern.open("a") == 2, "6 have left")
        held = held[:2] + self.come(2)
        test.equal(len(held), 3, "of two more one is let in when 2 are left")
        self.test.equal(self.postern.classes()["a"]["refuse_at"], 3, "classes shows the new limit")
        return held

    def hangup(self, held):
        self.postern.configure([one_class("a", 4, PORTS)])
        self.postern.process.send_signal(signal.SIGHUP)
        self.test.wait_for(lambda: self.postern.classes()["a"]["refuse_at"] == 4,
                           "SIGHUP takes effect")
        more = self.come(2)
        self.test.equal(len(more), 1, "SIGHUP: limit 4 holds")
        return held + more

    def added(self, held):
        """A class above the others takes new sessions; old ones stay where they are."""
        test = self.test
        self.good([one_class("first", 2, PORTS, match='"127.0.1.0/24"'),
                   one_class("a", 4, PORTS)])
        more = self.come(4)
        test.equal(len(more), 2, "a class added above: 2 of 4 are let in")
        rows = self.postern.classes()
        test.equal((rows["first"]["open"], rows["a"]["open"]), (2, 4),
                   "new sessions count there, old ones where they were")
        return held, more

    def removed(self, held, more):
        test = self.test
        self.good([one_class("first", 2, PORTS, match='"127.0.1.0/24"')])
        rows = self.postern.classes()
        test.equal((rows["a"]["open"], rows["a"]["removed"]), (4, True),
                   "a removed class keeps its count and says that it is removed")
        leave_all(held)
        test.within(1.0, lambda: self.postern.classes().get("a", {"open": 0})["open"] == 0,
                    "until its last session has ended")
        stranger = self.come(1, net="127.0.9")
        test.equal(len(stranger), 1, "who is in no class is let in")
        test.equal(self.postern.open("first"), len(more), "and is in no count")
        leave_all(stranger)

    def renamed(self, more):
        test = self.test
        self.good([one_class("second", 2, PORTS, match='"127.0.1.0/24"')])
        rows = self.postern.classes()
        test.equal((rows["first"]["open"], rows["second"]["open"]), (2, 0),
                   "renamed: the open sessions end under the old name")
        new = self.come(3, MILTER)
        test.equal(len(new), 2, "and the new name begins at 0")
        leave_all(more + new)
        test.within(1.0, lambda: self.postern.open("second") == 0, "0 after all have left")

    def restart_needed(self):
        def edit(text):
            text = substitute(text, r'\bsessions *= *"64k"', 'sessions = "32k"')
            return text.replace("/private/postern\"", "/private/postern.new\"")

        said = self.good([one_class("second", 6, PORTS)], edit)
        for setting in ("state.sessions", "listen.policy"):
            self.test.check(setting in said, f"reload names {setting}, which needs a restart")
        self.test.equal(self.postern.classes()["second"]["refuse_at"], 6,
                        "and takes what does not")

    def bad(self):
        before = self.postern.status()["generation"]
        held = self.come(6)

        def edit(text):
            return text + "\nfrobnicate = 7;\n"

        done = self.reload([one_class("second", 60, PORTS)], edit)
        said = done.stdout + done.stderr
        line = self.postern.file.read_text().count("\n")
        self.test.equal(done.returncode, EX_CONFIG, "a bad file is refused")
        self.test.check(f"postern.conf:{line}" in said and "frobnicate" in said,
                        "with file, line and word")
        self.test.say(said.strip().splitlines()[0] if said.strip() else "(nothing said)")
        self.postern.process.send_signal(signal.SIGHUP)
        self.test.wait_for(lambda: self.postern.log_text().count("frobnicate") >= 2,
                           "SIGHUP's refusal is logged")
        self.test.equal((self.postern.status()["generation"], len(self.come(1))), (before, 0),
                        "and nothing has changed")
        self.test.equal(self.postern.open("second"), 6, "the count neither")
        leave_all(held)
        self.test.within(1.0, lambda: self.postern.open("second") == 0, "0 at the end")

    def roles_that_cannot_follow(self):
        """They keep the old limits: nobody may take that for a reload that worked."""
        test = self.test
        roles = {name: pid for name, pid in self.postern.roles().items()
                 if name.startswith("policy")}

        def may_open(files):  # root may not in a container; their own user may
            for pid in roles.values():
                subprocess.run(["prlimit", f"--pid={pid}", f"--nofile={files}:"], check=True,
                               user="postern", group="postern", extra_groups=[])

        may_open(3)
        done = self.reload([one_class("second", 9, PORTS)])
        said = done.stdout + done.stderr
        test.check(done.returncode == EX_TEMPFAIL and "policy.0" in said and "keeper.0" not in said,
                   "reload names the roles that cannot map the new configuration")
        test.say(said.strip())
        status = self.postern.status()
        test.equal(status["health"], "behind", "and status says that they are behind")
        old = {role["role"] for role in status["roles"]
               if role["pid"] and role["generation"] < status["generation"]}
        lines = [line for line in self.postern.log_text().splitlines()
                 if "event=config" in line and "this process keeps the old one" in line]
        test.equal(len(lines), len(old), "each of them says why in the log, once")
        test.say(lines[0] if lines else "(no line)")
        may_open(1024)
        test.wait_for(lambda: self.postern.status()["health"] == "live",
                      "they follow as soon as they can")
        done = self.reload([one_class("second", 6, PORTS)])
        test.equal(done.returncode, 0, "and the next reload is as good as any")

    def broken(self):
        """What the syntax's own parser gives up at, and an orderly stop behind it."""
        done = self.reload([one_class("second", 60, PORTS)],
                           lambda text: text.replace("version = 1;", "version = = 1;"))
        self.test.equal(done.returncode, EX_CONFIG, "a broken syntax is refused")
        self.postern.stop()
        self.test.equal(self.postern.process.returncode, 0, "a stop after it ends with 0")


def body(test):
    services = [conf_service("postfix-policy.master.cf", POLICY),
                conf_service("postfix-milter.master.cf", MILTER)]
    _, postern = site(test, services, [one_class("a", 5, PORTS)], PORTS)
    reloads = Reloads(test, postern)
    held = reloads.hangup(reloads.limits())
    held, more = reloads.added(held)
    reloads.removed(held, more)
    reloads.renamed(more)
    reloads.restart_needed()
    reloads.roles_that_cannot_follow()
    reloads.bad()
    reloads.broken()


main(body)
