# SPDX-License-Identifier: ISC
"""posternd and posternctl under test, on the shipped configuration with the
substitutions that an admin would make: paths, ports, exempt, observe, more classes."""
import json
import os
import re
import signal
import subprocess
from pathlib import Path

from lib import readable
from lib.testing import SOURCE, TREE, Failed, alive

UNAVAILABLE = 69                        # its sockets are taken


def build_tree():
    """POSTERN_BUILD, else the build tree that make gives, else the current directory."""
    for place in (os.environ.get("POSTERN_BUILD"), os.environ.get("top_builddir"),
                  os.getcwd(), TREE):
        if place and (Path(place) / "posternd").exists():
            return Path(place).resolve()
    raise Failed("no posternd: set POSTERN_BUILD to the build directory")


def build_directory():
    """Where the programs under test are, for any user."""
    tree = build_tree()
    if all(readable.open_to_all(tree / name) for name in readable.PROGRAMS):
        return tree
    return readable.view_of_build(tree, Path("/run/build"))


def substitute(text, pattern, new):
    """In the shipped file, exactly once."""
    text, count = re.subn(pattern, lambda _: new, text, flags=re.MULTILINE | re.DOTALL)
    if count != 1:
        raise Failed(f"conf/postern.conf: {pattern!r} found {count} times")
    return text


def shipped():
    return (SOURCE / "conf/postern.conf").read_text()


def one_class(name, limit, ports=(), match='"*"', more=""):
    where = f" ports = [ {', '.join(map(str, ports))} ];" if ports else ""
    return (f'  {{ name = "{name}"; match = [ {match} ];{where}\n'
            f"    hold_at = {limit}; refuse_at = {limit}; {more} }}")


class Postern:
    """An instance in PLACE/NAME.  `classes`: texts of the classes that come to
    the shipped ones; `spool`: the Postfix that its sockets are for; `edit`: a last
    change of the file's text."""

    def __init__(self, test, classes=(), spool=None, name="postern", observe=False,
                 exempt="", edit=None):
        self.test, self.name = test, name
        self.build = build_directory()
        self.root = test.directory / name       # of sockets; posternd makes both
        self.shared = self.root / "shared"      # of the state
        self.journal = test.directory / f"{name}-journal"
        self.spool = spool or test.directory / "no-postfix"
        (self.spool / "private").mkdir(parents=True, exist_ok=True)
        self.file = test.directory / f"{name}.conf"
        self.process = None
        self.environment_of_commands = {}       # besides ours
        self.environment = []           # words before the program's: env, NAME=VALUE ...
        self.kinds = {"policy", "milter", "keeper"}     # that run when it is ready
        self.settings = {"observe": observe, "exempt": exempt}
        self.configure(classes, edit)

    def text(self, classes, edit=None):
        text = shipped()
        text = text.replace("/run/postern/", f"{self.root}/")
        text = text.replace("/var/spool/postfix/", f"{self.spool}/")
        text = substitute(text, r"^version = 1;", "version = 1;\n"
                          f'state = {{ path = "{self.shared}/state"; sessions = "64k"; }};\n'
                          f'journal = {{ path = "{self.journal}"; }};')
        text = substitute(text, r"^observe *= *true;",
                          f"observe = {'true' if self.settings['observe'] else 'false'};")
        text = substitute(text, r"^exempt *= *\[.*?\];",
                          f"exempt = [ {self.settings['exempt']} ];")
        if classes:
            text = substitute(text, r"\}\s*\);\s*\Z",
                              "},\n" + ",\n".join(classes) + "\n);\n")
        return edit(text) if edit else text

    def configure(self, classes, edit=None):
        self.file.write_text(self.text(classes, edit))

    def start(self, wait=True):
        log = self.test.logs / self.name
        log_begins = log.stat().st_size if log.exists() else 0
        self.process = self.test.spawn([*self.environment, self.build / "posternd", "-c", self.file,
                                        "-f"], self.name)
        if wait:
            # roles that are not started yet have no row in status
            self.test.wait_for(lambda: self.ready() and
                               b"event=started" in log.read_bytes()[log_begins:],
                               f"{self.name} is ready")
        return self.process

    def start_again(self, wait=True):
        """As a service manager does: a role that is just about to end may listen still."""
        for _ in range(5):
            try:
                return self.start(wait)
            except Failed:
                if self.process.poll() != UNAVAILABLE:
                    raise
        raise Failed("Postern does not start again")

    def ready(self):
        if self.process.poll() is not None:
            raise Failed(f"posternd ended with code {self.process.returncode}")
        done = self.command("status")
        if done.returncode != 0:
            return False
        status = json.loads(done.stdout)
        if status["pid"] != self.process.pid:    # the state as the last one left it
            return False
        running = {role["role"].split(".")[0] for role in status["roles"] if role["pid"]}
        return running >= self.kinds and all(role["pid"] and role["heartbeat_age"] is not None
                                             for role in status["roles"])

    def stop(self):
        self.process.terminate()
        self.process.wait(15)

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(15)

    def command(self, *words, json_output=True):
        flag = ["--json"] if json_output else []
        return subprocess.run([self.build / "posternctl", "-c", self.file, *flag,
                               *map(str, words)], text=True, capture_output=True, timeout=20,
                              env={**os.environ, **self.environment_of_commands})

    def ask(self, *words):
        done = self.command(*words)
        if done.returncode != 0:
            raise Failed(f"posternctl {' '.join(map(str, words))}: exit code "
                         f"{done.returncode}: {done.stderr.strip() or done.stdout.strip()}")
        return json.loads(done.stdout)

    def status(self):
        return self.ask("status")

    def classes(self):
        return {row["name"]: row for row in self.ask("classes")}

    def open(self, name):
        return self.classes()[name]["open"]

    def sessions(self):
        return self.ask("sessions")

    def roles(self):
        """role -> pid of those that run, the supervisor left out."""
        return {role["role"]: role["pid"] for role in self.status()["roles"]
                if role["role"] != "supervisor" and role["pid"] and alive(role["pid"])}

    def log_text(self):
        return (self.test.logs / self.name).read_text(errors="replace")
