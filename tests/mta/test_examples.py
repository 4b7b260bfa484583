#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""Every example of the manual pages is tried, in its order; where a page shows what comes
of it, that comes.  What is no command stands here, with how it is tried, or why not."""
import re
import shutil
import subprocess
from pathlib import Path

from lib.document import Reader, put
from lib.examples import CODES, LEFT_OUT, man_page
from lib.machine import HERE, LOG, Machine
from lib.smtp import open_sessions
from lib.testing import SOURCE, main

CUSTOMERS = [f"198.51.100.{number}" for number in range(4, 13)]
CONF = Path("/etc/postern/postern.conf")
CLASSES = """classes = (
  { name = "customer"; match = [ "198.51.100.0/24" ]; hold_at = 8; refuse_at = 8; },
  { name = "everyone"; match = [ "*" ]; ports = [ 25 ]; hold_at = 100; refuse_at = 80; } );
observe = false;
"""
MTA = 'mta = ( { name = "postfix"; log = "/var/log/mail.log"; } );\n'

# Blocks that are no commands, by their first words: how they are tried, or why not.
PARTS = {
    "postern-events.5.in": {"delivery status=deferred": "feed"},
    "postern-journal.5.in": {" 0  u8   magic": "a table", " 0       text": "a table"},
    "postern-lookup.8.in": {"retry:4.7.1 Postern: d.example": "an answer", "mta = (": "check"},
    "postern-metrics.5.in": {"listen = { ...": "cut short", "metrics = ( {": "listen",
                             "scrape_configs:": "Prometheus's", "sum by (class)": "Prometheus's"},
    "postern-providers.conf.5.in": {"version = 1;": "providers"},
    "postern-scenario.5.in": {"default_process_limit": "scenario", "completions": "one setting"},
    "postern.conf.5.in": {"setting = value;": "a form", "listen = { policy": "check",
                          "window = {": "check", "match = [": "a part of a class",
                          "version = 1;": "whole",
                          "accounts = (": "check", "# login": "a file of its own",
                          "cluster = {": "cluster"},
    "postern-simulate.1.in": {"postern-simulate window": "simulations"},
    "posternctl.1.in": {"status=deferred (Postern:": "a line of a log"},
    "posternd.8.in": {"suspended x.example": "an alert"},
}


class World(Machine):
    def __init__(self, test):
        super().__init__(test)
        self.postfix()
        LOG.with_suffix(".log.1").touch()
        self.begin()
        self.start_postfix()

    def put(self, text):
        put(CONF, text)
        self.test.run(["posternctl", "reload"])


def posternctl_page(test, world):
    """Eight customers are there, and a class of theirs; then somebody edits."""
    world.put(CLASSES)
    test.run(["postern-postfix-setup", "make"])
    shutil.copy(LOG, test.directory / "mail.log")
    sessions = open_sessions((HERE, 25), CUSTOMERS[:8])
    test.wait_for(lambda: " owner " not in subprocess.run(
        ["posternctl", "sessions"], text=True, capture_output=True).stdout,
                  "the kernel's table has shown them all")
    right = CONF.read_text()

    def mistake():
        CONF.write_text(right.replace("hold_at = 8", "sesions = 8"))
    return (((r"posternctl resume user@", lambda: test.run(
                ["posternctl", "suspend", "user@example.com"])),
             (r"posternctl why d.example", lambda: test.run(
                ["posternctl", "suspend", "d.example"])),
             (r"posternctl check", mistake),
             (r"posternctl reload", lambda: (CONF.write_text(right), [
                 session.close() for session in sessions]))),
            ((r"posternctl check", (78,)),))


def tried_pages(test, world):
    pages = sorted([*SOURCE.glob("src/*.[158].in"), *SOURCE.glob("conf/*.[158].in"),
                    *SOURCE.glob("contrib/*.[158].in")])
    left_out = LEFT_OUT if shutil.which("jq") else [*LEFT_OUT, (r".*\| jq ", "there is no jq", None)]
    for page in pages:
        steps, parts = man_page(page)
        if steps:
            world.reset()
        before, codes = posternctl_page(test, world) if page.name == "posternctl.1.in" else ((), ())
        if page.name == "postern-postfix-setup.8.in":
            world.put(MTA)
        reader = Reader(test, left_out, before, [*codes, *CODES])
        if steps:
            reader.follow(page, steps)
        for line, text in parts:
            part(test, world, page.name, line, text)


def part(test, world, name, line, text):
    how = next((how for start, how in PARTS.get(name, {}).items() if text.startswith(start)),
               None)
    if how is None:
        test.check(False, f"{name}:{line}: an example that PARTS does not know")
        return
    call = globals().get(f"try_{how}")
    if call is None:
        test.say(f"{name}:{line}: not tried: {how}")
        return
    wrong = call(test, world, text.replace("@runstatedir@", "/run"))
    test.check(wrong is None, f"{name}:{line}: {wrong or how + ': right'}")


def checked(file):
    done = subprocess.run(["posternctl", "check", file], text=True, capture_output=True)
    return None if done.returncode == 0 else done.stdout + done.stderr


def try_check(test, _, text):
    """In the shipped file.  A file of overrides must be there."""
    file = CONF.with_name("example.conf")
    for overrides in re.findall('account_overrides = "([^"]+)"', text):
        Path(overrides).touch()
    shutil.copy(SOURCE / "conf/postern.conf", file)
    put(file, text)
    return checked(file)


def try_listen(test, world, text):
    return try_check(test, world, f"listen = {{ {text.rstrip()} }};\n")


def try_cluster(test, world, text):
    """With a password that is there."""
    password = CONF.with_name("redis.password")
    password.write_text("secret\n")
    password.chmod(0o600)
    return try_check(test, world, text.replace("@sysconfdir@/postern/redis.password",
                                               str(password)))


def try_whole(test, _, text):
    file = test.directory / "example.conf"
    file.write_text(text)
    return checked(file)


def try_providers(test, world, text):
    file = test.directory / "example-providers.conf"
    file.write_text(text)
    return try_check(test, world, f'providers = "{file}";\n')


def try_scenario(test, _, text):
    file = test.directory / "example.scenario"
    file.write_text(text)
    done = subprocess.run(["postern-simulate", "schedule", "--scenario", file], text=True,
                          capture_output=True)
    return None if done.returncode == 0 else done.stderr


def try_simulations(test, _, text):
    """Line by line."""
    file = test.directory / "FILE"
    shutil.copy(sorted((SOURCE / "tests/scenarios").glob("*.conf"))[0], file)
    for line in text.strip().splitlines():
        done = subprocess.run(line.split(), text=True, capture_output=True, cwd=test.directory, timeout=60)
        if done.returncode != 0:
            return f"{line}: {done.stderr}"
    return None


def try_feed(_, world, text):
    world.reset()
    put(CONF, 'listen = { control = "unix:/run/postern/control"; policy = [ ]; milter = [ ];\n'
              'events = "unix:/run/postern/events"; };\n')
    kinds, world.kinds = world.kinds, {"keeper", "feed"}
    world.restart()
    world.kinds = kinds
    done = subprocess.run(["posternctl", "inject", "--events"], text=True, capture_output=True,
                          input=re.sub(r"\\\n\s*", "", text), timeout=20)
    return None if done.returncode == 0 else done.stdout + done.stderr


def body(test):
    world = World(test)
    tried_pages(test, world)


main(body, addresses=[HERE, *CUSTOMERS])
