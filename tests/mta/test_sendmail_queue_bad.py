#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""Real Sendmail, whose queue Postern runs, with queue files that are bad, endless, or gone
when they are read, and a sendmail that cannot be started or never ends: the others' mail
goes, and nothing of it is touched."""
import os
import platform
import sys
import time

from lib.driven import Driven, hosts
from lib.sendmail import find_root
from lib.testing import alive, main

SITES = hosts(6)
NAMES = list(SITES.values())
HELD = NAMES[5]


class Files:
    """Queue files beside those of Sendmail, made of one that it wrote."""

    def __init__(self, test, world):
        self.test, self.world = test, world
        world.postern.ask("hold", HELD)
        world.submit("pattern@" + HELD)
        pattern = world.sendmail.queue_files()[0]
        self.place = pattern.parent
        self.id = pattern.name[2:]
        self.text = pattern.read_bytes()
        self.line = next(line for line in self.text.split(b"\n") if line.startswith(b"RPFD"))
        self.count = 0
        self.made = {}

    def make(self, text, kind="qf", kept=True):
        name = f"{self.id[:8]}{900000 + self.count:06d}"
        self.count += 1
        (self.place / f"df{name}").write_bytes(b"test\n")
        file = self.place / f"{kind}{name}"
        part = self.place / f"x{name}"      # whole when it gets its name
        part.write_bytes(text)
        part.rename(file)
        if kept:
            self.made[file] = text
        return file

    def with_lines(self, lines):
        return self.text.replace(self.line, b"\n".join(lines))

    def unchanged(self):
        return [file.name for file, text in self.made.items()
                if not file.exists() or file.read_bytes() != text]


def mail_goes(test, world, text):
    world.far.forget()
    recipients = [f"u{n}@{NAMES[n % 5]}" for n in range(10)]
    world.submit_each(recipients)
    world.wait_delivered(10)
    world.each_once(recipients, f"{text}: other mail goes, each once")


def bad_files(test, world, files):
    held = HELD.encode()
    files.make(files.text[:len(files.text) // 2])
    files.make(b"")
    files.make(files.text.replace(b"V8", b"V99", 1))
    files.make(bytes(range(256)) * 300)
    files.make(files.with_lines([b"RPFD:<" + b"x" * (1 << 20) + b"@" + held + b">"]))
    files.make(files.text.replace(b"\n.\n", b"\nH??X-Long: " + b"y" * (1 << 20) + b"\n.\n"))
    files.make(files.text, kind="hf")
    files.make(files.text, kind="Qf")
    files.make(files.text, kind="tf")
    os.mkfifo(files.place / f"qf{files.id[:8]}800001")
    (files.place / f"qf{files.id[:8]}800002").mkdir()
    (files.place / f"qf{files.id[:8]}800003").symlink_to("/etc/passwd")
    (files.place / "qfno such id").write_bytes(files.text)
    mail_goes(test, world, "bad queue files")
    test.equal(files.unchanged(), [], "bad queue files are as they were")


def very_many(test, world, files):
    held = HELD.encode()
    files.make(files.with_lines([b"rRFC822; a%d@%s\nRPFD:<a%d@%s>" % (n, held, n, held)
                                 for n in range(100000)]))
    mail_goes(test, world, "a file with 100,000 recipients")
    pid = next(pid for role, pid in world.postern.roles().items() if role.startswith("queue"))
    with open(f"/proc/{pid}/status") as status:
        size = int(next(line for line in status if line.startswith("VmRSS")).split()[1])
    test.check(size < 100000, f"the role takes {size // 1024} MB")
    test.equal(files.unchanged(), [], "it waits as it was")


def vanishing(test, world, files):
    end = time.monotonic() + 2
    while time.monotonic() < end:
        made = [files.make(files.text, kept=False) for _ in range(20)]
        for file in made:
            file.unlink()
            (file.parent / f"df{file.name[2:]}").unlink()
    mail_goes(test, world, "files that are gone when they are read")


def never_ends(test, world, program):
    """For one message sendmail does nothing, and does not end."""
    text = program.read_text()
    program.write_text("#!/bin/sh\n[ -e /run/t/endless ] && { rm /run/t/endless; "
                       "echo $$ >/run/t/endless-pid; exec tail -f /dev/null; }\n"
                       + text.partition("\n")[2])
    (test.directory / "endless").touch()
    world.far.forget()
    world.submit("endless@" + NAMES[0])
    pid_file = test.directory / "endless-pid"
    test.wait_for(lambda: pid_file.exists() and pid_file.read_text().strip(), "it runs")
    mail_goes(test, world, "a sendmail that never ends")
    pid = int(pid_file.read_text())
    test.within(8, lambda: not alive(pid), "it is ended after run_limit")
    test.wait_for(lambda: world.far.delivered()["endless@" + NAMES[0]] == 1,
                  "and its mail goes then", 15)


def cannot_start(test, world, program):
    away = program.parent / "away"
    program.rename(away)
    before = world.postern.log_text().count("\n")

    def lines():
        return world.postern.log_text().count("\n") - before
    world.far.forget()
    world.submit("late@" + NAMES[0])
    test.within(2, lambda: lines() > 0, "no program: the log says so")
    test.throughout(2, lambda: world.sendmail.queued() > 0, "and mail waits")
    test.check(lines() < 20, f"it is told in {lines()} lines")
    away.rename(program)
    world.wait_delivered(1)
    world.each_once(["late@" + NAMES[0]], "it is there again: mail goes")


FILLER = """
import os, signal, time
open("/proc/sys/kernel/pid_max", "w").write("400")
made = []
try:
    while True:
        pid = os.fork()
        if pid == 0:
            signal.pause()
        made.append(pid)
except BlockingIOError:
    pass
open("/run/t/full", "w").close()
while os.path.exists("/run/t/full"):
    time.sleep(0.05)        # LINT-SLEEP: looks again
for pid in made:
    os.kill(pid, 9)
    os.waitpid(pid, 0)
open("/proc/sys/kernel/pid_max", "w").write("32768")
"""


def full_table(test, world):
    """The process table of this test's own PID namespace."""
    if tuple(map(int, platform.release().split("-")[0].split(".")[:2])) < (6, 14):
        test.say("left out: pid_max of a namespace of its own needs Linux 6.14")
        return
    world.far.forget()
    world.far.tell([list(SITES)[0]], does="refusing")
    world.submit("full@" + NAMES[0])
    test.wait_for(lambda: "451 4.3.0 not now" in world.syslog(), "it is put off")
    filler = test.spawn([sys.executable, "-B", "-c", FILLER], "filler")
    test.wait_for((test.directory / "full").exists, "the process table is full")
    world.far.tell([list(SITES)[0]], does="good")
    test.wait_for(lambda: "cannot start processes; retrying" in world.postern.log_text(),
                  "a full process table is logged", 10)
    test.throughout(1.5, lambda: world.far.count() == 0, "a full process table: mail waits")
    test.equal(world.postern.log_text().count("cannot start processes; retrying"), 1, "logged once")
    (test.directory / "full").unlink()
    filler.wait(10)
    world.wait_delivered(1)
    world.each_once(["full@" + NAMES[0]], "there is room again: it goes")


def body(test):
    world = Driven(test, SITES, processes=4, mta='stall = "500ms"; run_limit = "3s"; retry = "1s";')
    program = world.sendmail.root / "program"
    files = Files(test, world)
    bad_files(test, world, files)
    very_many(test, world, files)
    vanishing(test, world, files)
    full_table(test, world)
    cannot_start(test, world, program)
    never_ends(test, world, program)


main(body, hosts=SITES, addresses=list(SITES), before=find_root)
