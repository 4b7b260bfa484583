#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""What the setup programs make of odd main.cf, master.cf and sendmail.mc, with postconf
as the judge; and that killed before any write they leave what undo makes whole."""
import json
import os
import shutil
import signal
import subprocess

from lib.testing import SOURCE, TESTS, main
from lib.tree import tree

REST = "qmgr unix n - n 300 1 qmgr\n"
SMTP = "smtp inet n - n - - smtpd\n"
# name: (master.cf, services that are asked about, words in the way)
MASTERS = {
    "plain": (SMTP + REST, ["smtp/inet"], []),
    "by number": ("25 inet n - n - - smtpd\n" + REST, ["25/inet"], []),
    "by address": ("192.0.2.1:smtp inet n - n - - smtpd\n[2001:db8::1]:25 inet n - n - - smtpd\n"
                   + REST, ["192.0.2.1:smtp/inet", "[2001:db8::1]:25/inet"], []),
    "a whole path": ("smtp inet n - n - - /usr/lib/postfix/sbin/smtpd\n" + REST,
                     ["smtp/inet"], []),
    "CRLF": (SMTP.replace("\n", "\r\n") + "  -o smtpd_helo_restrictions=permit_mynetworks\r\n"
             + REST, ["smtp/inet"], []),
    "no end": (REST + SMTP.strip(), ["smtp/inet"], []),
    "goes on over comments": ("smtp inet n - n - -\n# one\n\n  \n\t smtpd\n#two\n  -o a=b\n"
                              "  # three\n -o smtpd_helo_restrictions=\n\n# four\n" + REST,
                              ["smtp/inet"], []),
    "braces": ("smtp inet n - n - - smtpd -o { smtpd_helo_restrictions =  permit_mynetworks,\n"
               "   reject } -o smtpd_y={a b}c\n" + REST, ["smtp/inet"], []),
    "the same setting twice": (SMTP + " -o smtpd_milters=inet:a:1 -o smtpd_milters=inet:b:2\n"
                               + REST, ["smtp/inet"], []),
    "flags": ("smtp inet n - n - - smtpd -v -v -o smtpd_x=y\n" + REST, ["smtp/inet"], []),
    "two lines": (SMTP + REST + SMTP, ["smtp/inet", "smtp/inet"], ["twice"]),
    "nothing on port 25": ("submission inet n - n - - smtpd\n" + REST, [], ["no-service"]),
    "begins with a blank": ("  " + SMTP + REST, [], ["no-service", "reads-otherwise"]),
    "ours by hand": (SMTP + " -o { smtpd_milters = { unix:private/postern-milter } }\n" + REST,
                     ["smtp/inet"], ["by-hand"]),
    "flags in one": ("smtp inet n - n - - smtpd -vo smtpd_x=y\n" + REST, ["smtp/inet"], []),
    "smtpd and postconf differ": ("smtp inet n - n - - smtpd {-o smtpd_x = y}\n" + REST,
                                  ["smtp/inet"], ["reads-otherwise"]),
}
# name: (main.cf, --by, what the line of ours has, words in the way)
MAINS = {
    "several lines": ("smtpd_milters =\n  inet:a:1,\n# no\n\n  unix:b\n", "milter",
                      "default_action=accept }, inet:a:1, unix:b }", []),
    "a name": ("m = inet:a:1\nsmtpd_milters = $m\n", "milter", "accept }, $m }", []),
    "braces": ("smtpd_milters = { inet:a:1, command_timeout=3s }", "milter",
               "accept }, { inet:a:1, command_timeout=3s } }", []),
    "twice": ("smtpd_milters = inet:a:1\nsmtpd_milters = inet:b:2\n", "milter",
              "accept }, inet:b:2 }", []),
    "macros": ("milter_connect_macros = j {if_name}\n", "milter", "v _ {if_name} }", []),
    "CRLF": ("smtpd_recipient_restrictions = reject_unauth_destination\r\n", "policy",
             "try_limit=1, default_action=DUNNO }, reject_unauth_destination }", []),
    "an early list": ("smtpd_client_restrictions = permit_mynetworks, reject_rbl_client x.y\n",
                      "policy", "DUNNO }, permit_mynetworks, reject_rbl_client x.y }", []),
    "who logged in": ("smtpd_client_restrictions = permit_mynetworks permit_sasl_authenticated\n",
                      "policy", "", ["delay-reject"]),
    "a class": ("smtpd_restriction_classes = own\nown = check_recipient_access inline:{a=b}\n"
                "smtpd_helo_restrictions = own\n", "both", "", ["delay-reject"]),
    "a policy server": ("smtpd_sender_restrictions = check_policy_service { unix:private/p, "
                        "timeout=3s }, permit\n", "policy", "", ["delay-reject"]),
    "early already": ("smtpd_delay_reject = no\nsmtpd_sender_restrictions = "
                      "check_sender_access inline:{a=b}\n", "policy", "DUNNO } }", []),
    "a proxy": ("smtpd_upstream_proxy_protocol = haproxy\n", "milter", "", ["proxy"]),
}
ACCEPT = [word for name in ("posternctl", "postern-conf", "socket") for word in ("--accept", name)]


class Directory:
    def __init__(self, test):
        for program in ("postconf", "perl"):
            test.need(program)
        self.test, self.etc = test, test.directory / "etc"
        self.etc.mkdir()

    def write(self, master, main_cf):
        for name, text in (("master.cf", master),
                           ("main.cf", "compatibility_level = 3.6\n" + main_cf)):
            (self.etc / name).write_bytes(text.encode())
            os.utime(self.etc / name, (1e9, 1e9))       # older than Postfix wants

    def run(self, *words, program="postern-postfix-setup", **more):
        return subprocess.run(
            [SOURCE / "contrib" / program, "-c", self.etc, "--store",
             self.test.directory / "store", "--posternctl", "/nonexistent/posternctl", *words],
            text=True, capture_output=True, timeout=60, **more)

    def show(self, *words):
        done = self.run("show", "--json", *words)
        if not done.stdout:
            return {"services": [], "findings": [], "diff": done.stderr}
        told = json.loads(done.stdout)
        told["diff"] = told["files"][0]["diff"]
        return told


def obstacles(told):
    return sorted({row["word"] for row in told["findings"] if row["kind"] == "obstacle"})


def masters(test, directory):
    for name, (text, services, words) in MASTERS.items():
        directory.write(text, "")
        told = directory.show()
        good = ([row["service"] for row in told["services"]] == services
                and obstacles(told) == words)
        ours = sum(line.startswith("+  -o") for line in told["diff"].splitlines())
        test.check(good and (words or ours == 2 * len(services)),
                   f"master.cf: {name}" if good else f"master.cf: {name}: {told}")
        if name == "CRLF":
            test.equal({line.endswith("\\r") or line.endswith("\r") for line in
                        told["diff"].split("\n") if line.startswith("+  -o")}, {True},
                       "master.cf: CRLF: our lines have it, too")


def mains(test, directory):
    for name, (text, way, wanted, words) in MAINS.items():
        directory.write(SMTP + REST, text)
        told = directory.show("--by", way)
        good = obstacles(told) == words and wanted in told["diff"]
        test.check(good, f"main.cf: {name}" if good else f"main.cf: {name}: {told}")
        if name == "twice":
            test.check(any(row["word"] == "main-twice" for row in told["findings"]),
                       "main.cf: a setting that is there twice is told")


def postscreen(test, directory):
    """Behind postscreen, by its name for smtpd; and a proxy before it."""
    directory.write("smtp inet n - n - 1 postscreen -o smtpd_service_name=inner\n"
                    "inner pass - - n - - smtpd\nsmtpd pass - - n - - smtpd\n" + REST,
                    "postscreen_upstream_proxy_protocol = haproxy\n")
    told = directory.show()
    test.equal(([row["service"] for row in told["services"]], told["by"], obstacles(told)),
               (["inner/pass"], "both", []), "postscreen: its smtpd, by both behind a proxy")
    told = directory.show("--service", "smtpd/pass", "--by", "milter")
    test.equal([row["service"] for row in told["services"]], ["smtpd/pass"],
               "--service: another one")
    told = directory.show("--service", "nosuch")
    test.equal(obstacles(told), ["no-service"], "--service: there is none of that name")


def hostile(test, directory):
    """Nothing of a file is run, and nothing of it reaches the terminal raw."""
    directory.write("smtp inet n - n - - smtpd -o smtpd_x=;touch`touch>/run/t/owned`\n"
                    "\x1b[31mred inet n - n - - smtpd -o y=@{[`touch /run/t/owned`]}\n" + REST, "")
    done = directory.run("look")
    test.check("\x1b" not in done.stdout + done.stderr and "\\x1b[31mred" in done.stdout
               and not (test.directory / "owned").exists(), "hostile names are escaped, not run")


def messages(test, directory):
    test.equal([directory.run(*words).returncode for words in (
        ["--help"], ["nonsense"], ["look", "more"], ["--by", "nothing"], ["--store", "relative"])],
        [0, 64, 64, 64, 64], "--help, and mistakes: exit codes")
    shutil.rmtree(directory.etc)
    test.equal(directory.run("look").returncode, 69, "no such directory: exit code 69")
    directory.etc.mkdir()


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


def body(test):
    directory = Directory(test)
    masters(test, directory)
    mains(test, directory)
    postscreen(test, directory)
    hostile(test, directory)
    messages(test, directory)
    special_files(test, directory)
    lost_store(test, directory)
    killed(test, directory)
    drivers(test)


main(body)
