#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""Killed before any write the Postfix setup leaves what undo makes whole; who may do what;
and files of odd kinds."""
import fcntl
import json
import os
import shutil
import signal
import subprocess
from pathlib import Path

from lib.setup_directory import ACCEPT, REST, SMTP, Directory, obstacles
from lib.testing import SOURCE, TESTS, main, mount
from lib.tree import tree


def others(test, directory):
    """Those who are not root look; only one makes at a time; other instances are named."""
    directory.write(SMTP + REST, "")
    (test.directory / "store").mkdir(exist_ok=True)
    words = ["look", "--json"], ["make", "--no-reload", *ACCEPT]
    done = [directory.run(*each, user=65534, group=65534) for each in words]
    test.equal(([one.returncode for one in done], json.loads(done[0].stdout)["by"]),
               ([69, 77], "milter"), "nobody may look, and not make")
    (test.directory / "store").chmod(0o777)
    test.equal(directory.run(*words[1]).returncode, 77, "a store that others may write to: 77")
    (test.directory / "store").chmod(0o700)
    done = directory.run("undo", "-n", user=65534, group=65534)
    test.check(done.returncode == 77 and "needs root" in str(done.stderr),
               f"who may not see the store is told that it needs root: {done.stderr}")
    with open(test.directory / "store/lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        test.equal(directory.run(*words[1]).returncode, 75, "while another one runs: 75")
    main_place = test.directory / "main"
    shutil.copytree("/etc/postfix", main_place)
    (main_place / "main.cf").write_text("multi_instance_directories = /run/t/second\n")
    os.utime(main_place / "main.cf", (1e9, 1e9))
    mount("--bind", main_place, "/etc/postfix")
    told = directory.show()
    test.equal([row["text"].split()[3] for row in told["findings"] if row["word"] == "instances"],
               ["/etc/postfix", "/run/t/second"], "other instances are named")


def special_files(test, directory):
    """A name that is a link elsewhere is followed; a file with two names is left alone."""
    directory.write(SMTP + REST, "")
    master, real = directory.etc / "master.cf", test.directory / "real.cf"
    master.rename(real)
    master.symlink_to(real)
    before = tree(directory.etc), real.read_bytes(), real.stat().st_mtime_ns
    code = directory.run("make", "--no-reload", *ACCEPT).returncode
    test.equal((code, master.is_symlink(), b"Postern: begin" in real.read_bytes()), (0, True, True),
               "a link: its file is changed, the link stays")
    test.equal(directory.run("undo", "--no-reload").returncode, 0, "and undone")
    test.equal((tree(directory.etc), real.read_bytes(), real.stat().st_mtime_ns), before,
               "as it was")
    os.link(real, test.directory / "second-name")
    test.equal(obstacles(directory.show()), ["file"], "a file of two names is left alone")
    master.unlink()


def lost_store(test, directory):
    """What is known of the time before is gone; the marks are there."""
    directory.write(SMTP + REST, "")
    text = (directory.etc / "master.cf").read_bytes()
    directory.run("make", "--no-reload", *ACCEPT)
    shutil.rmtree(test.directory / "store")
    test.equal(directory.run("undo", "--no-reload").returncode, 65, "the store is lost: undo refuses")
    done = directory.run("undo", "--only-ours", "--no-reload")
    test.equal((done.returncode, (directory.etc / "master.cf").read_bytes()), (0, text),
               "undo --only-ours takes our lines out by their marks")


def killed(test, directory):
    """The whole program, killed in the middle of make; the next run makes all good."""
    places = {"PERL5LIB": str(TESTS / "lib/setup")}
    directory.write(SMTP + "  -o a=b", "")
    before, deaths = tree(directory.etc), 0
    for point in (25, 32, 36, 39, 41, 43):
        done = directory.run("make", "--no-reload", *ACCEPT, env={
            **os.environ, **places, "PERL5OPT": f"-MKillAt={point}"})
        deaths += done.returncode == -signal.SIGKILL
        other = directory.run("undo", "--no-reload")
        if tree(directory.etc) != before or other.returncode != 0:
            test.check(False, f"killed at {point}: {other.stdout}{other.stderr}")
            return
    test.check(deaths >= 3, f"make killed {deaths} times: undo gives back all")


def drivers(test):
    """Properties in Perl: of the lines, and of the writes."""
    (test.directory / "changes").mkdir()
    for words in (["lines.pl", str(test.seed)], ["changes.pl", str(test.directory / "changes"),
                  "1" if test.rounds else "4", str(1 + test.random.randrange(4))]):
        done = subprocess.run(["perl", f"-I{SOURCE}/contrib/perl", f"-I{TESTS}/lib/setup",
                               TESTS / "lib/setup" / words[0], *words[1:]],
                              text=True, capture_output=True, timeout=60)
        for line in done.stdout.splitlines():
            if line.startswith(("ok ", "FAIL ")):
                test.check(line.startswith("ok "), line.split(" ", 1)[1])
        test.equal((done.returncode, done.stderr), (0, ""), f"{words[0]} ends well")


def base_alone(test):
    """An admin's machine has perl-base, and maybe no more of Perl."""
    base = next(Path("/usr/lib").glob("*-linux-gnu/perl-base"), None)
    if base is None:
        test.say("no perl-base here")
        return
    uses = "".join(f"use Postern::{name};" for name in ("Command", "PostfixSetup", "SendmailSetup"))
    done = subprocess.run(["perl", "-e", f'BEGIN {{ @INC = ("{base}", "{SOURCE}/contrib/perl") }} '
                           f'{uses} print "all"'], text=True, capture_output=True, timeout=20)
    test.equal((done.stdout, done.stderr), ("all", ""), "perl-base is enough")


def body(test):
    directory = Directory(test)
    others(test, directory)
    special_files(test, directory)
    lost_store(test, directory)
    killed(test, directory)
    drivers(test)
    base_alone(test)


main(body)
