#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""posternd.service as "make install" leaves it, under a real systemd (tests/service/unit):
its life, what it is allowed, and what its commands still can do."""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "mta"))
from lib import own_machine
from lib.postfix import Postfix, conf_service
from lib.smtp import admitted, open_sessions
from lib.testing import Failed, alive, loopback_up

SERVER = "198.51.100.1"
CLIENTS = [f"198.51.100.{number}" for number in range(11, 14)]
CONF = Path("/etc/postern/postern.conf")
EXAMPLES = Path("/usr/local/share/doc/postern/examples")
DROP_INS = Path("/etc/systemd/system/posternd.service.d")
# Of the unit's commands, by the way of the gate's: what it said stands in /run/powers.
POWERS = """#!/bin/sh
exec >/run/powers.new 2>&1
try() {
	name=$1
	shift
	if "$@" >/run/said 2>&1; then echo "ok $name"; else echo "no $name: $(tail -n 1 /run/said)"; fi
}
as_user() { setpriv --reuid=postern --regid=postern --init-groups "$@"; }
printf 'Subject: alert\\n\\nx\\n' >/run/message
try postqueue postqueue -j
try reload postfix reload
try mail sh -c 'sendmail -i u@example.com </run/message'
try user-mail as_user sh -c 'sendmail -i u@example.com </run/message'
try gate /usr/local/libexec/postern/gate-nftables "$1"
try etc sh -c 'echo >/etc/forbidden'
try module sh -c 'echo 1 >/proc/sys/kernel/sysrq'
try device sh -c 'mknod /run/device b 8 0'
try namespace unshare --mount true
try chroot chroot / true
mv /run/powers.new /run/powers
"""


def control(test, *words):
    return json.loads(test.run(["/usr/local/bin/posternctl", "--json", *words]))


def systemctl(*words):
    return subprocess.run(["systemctl", *words], text=True, capture_output=True, timeout=60)


def show(name):
    return systemctl("show", "-P", name, "posternd").stdout.strip()


def main_pid():
    return int(show("MainPID"))


def journal(test, output="cat"):
    return test.run(["journalctl", "-u", "posternd", "-o", output, "--no-pager"])


def kernel_says(pid):
    return dict(line.split(":\t") for line in Path(f"/proc/{pid}/status").read_text().splitlines()
                if ":\t" in line)


def settings(test, *changes):
    text = CONF.read_text()
    for pattern, new in changes:
        text, count = re.subn(pattern, lambda _, new=new: new, text, flags=re.M | re.S)
        if count != 1:
            raise Failed(f"postern.conf: {pattern!r} found {count} times")
    CONF.write_text(text)


def drop_in(test, file):
    DROP_INS.mkdir(exist_ok=True)
    shutil.copy(file, DROP_INS)
    test.run(["systemctl", "daemon-reload"])
    test.run(["systemctl", "restart", "posternd"])


def own_postfix(test):
    """The machine's programs with a configuration and a queue of our own."""
    spool = Path("/var/spool/postfix")
    spool.mkdir()
    for file in ("main.cf", "master.cf"):
        Path("/etc/postfix", file).unlink(missing_ok=True)
        Path("/etc/postfix", file).touch()
    postfix = Postfix(test, [conf_service("postfix-both.master.cf", 25)], name="own", spool=spool)
    for file in ("main.cf", "master.cf"):
        shutil.copy(postfix.etc / file, "/etc/postfix")
    postfix.etc = Path("/etc/postfix")
    test.run(["postfix", "check"])
    return postfix


def files(test):
    said = systemctl("cat", "posternd").stderr
    test.equal(said, "", "the unit is found where make install puts it")
    checked = subprocess.run(["systemd-analyze", "verify", "--man=no", "posternd.service"],
                             text=True, capture_output=True)
    test.equal(checked.stderr, "", "systemd-analyze verify has nothing to say")
    judged = subprocess.run(["systemd-analyze", "security", "--no-pager", "--offline=true",
                             "--threshold=40", "/usr/local/lib/systemd/system/posternd.service"],
                            text=True, capture_output=True)
    test.equal(judged.returncode, 0, "systemd-analyze security: "
               + judged.stdout.strip().splitlines()[-1].lstrip("→ "))


def starts(test):
    test.run(["systemctl", "enable", "--now", "posternd"])
    test.equal(systemctl("is-active", "postern").stdout.strip(), "active",
               "it starts, and is known as postern, too")
    roles = control(test, "status")["roles"]
    test.check(all(role["pid"] for role in roles), f"when it has started, {len(roles)} roles run")
    found = Path("/run/postern").stat()
    shared = Path("/run/postern/shared").stat()
    test.check((found.st_uid, oct(found.st_mode), oct(shared.st_mode)) ==
               (0, "0o40755", "0o40755") and shared.st_uid != 0,
               "sysusers.d and tmpfiles.d made user and directories")
    lines = [json.loads(line) for line in journal(test, "json").splitlines()]
    started = [line for line in lines if line["MESSAGE"].startswith("event=started ")]
    test.equal([(line["PRIORITY"], line["SYSLOG_FACILITY"], line["SYSLOG_IDENTIFIER"])
                for line in started], [("5", "2", "posternd")],
               "the journal has severity and facility of each line")
    for role in roles:
        said = kernel_says(role["pid"])
        if role["role"] == "supervisor":
            test.equal((said["CapBnd"], said["Seccomp"]), ("00000000000015eb", "2"),
                       "the supervisor has no capability but those of the unit")
        elif int(said["CapEff"], 16) or said["Uid"].startswith("0") or said["Seccomp"] != "2":
            test.check(False, f"{role['role']} is not shut in: {said}")


def goes_on(test, what):
    test.within(2.0, lambda: sum(row["open"] for row in control(test, "classes")) == len(CLIENTS),
                f"{what}: {len(CLIENTS)} sessions are counted")


def restarts(test):
    place = Path("/run/postern").stat()
    test.run(["systemctl", "restart", "posternd"])
    goes_on(test, "restart")
    now = Path("/run/postern").stat()
    test.equal((now.st_ino, now.st_uid), (place.st_ino, place.st_uid),
               "restart: its directory is the same, and its user's")
    before = main_pid()
    os.kill(before, signal.SIGKILL)
    test.wait_for(lambda: main_pid() not in (0, before) and show("SubState") == "running",
                  "killed: it is started again")
    goes_on(test, "killed")


def reloads(test):
    generation = control(test, "status")["generation"]
    done = systemctl("reload", "posternd")
    test.equal((done.returncode, control(test, "status")["generation"]), (0, generation + 1),
               "reload puts the configuration in force")
    settings(test, (r"^observe = true;", "observe = perhaps;"))
    done = systemctl("reload", "posternd")
    test.check(done.returncode != 0, "reload of a mistake fails")
    test.equal((show("ActiveState"), control(test, "status")["generation"]),
               ("active", generation + 1), "and all goes on as it was")
    test.check("postern.conf:" in journal(test), "the journal tells the line")
    settings(test, (r"^observe = perhaps;", "observe = true;"))


def watchdog(test):
    file = test.directory / "watchdog.conf"
    file.write_text("[Service]\nWatchdogSec=1s\n")
    drop_in(test, file)
    before = main_pid()
    os.kill(before, signal.SIGSTOP)
    test.wait_for(lambda: main_pid() not in (0, before) and show("SubState") == "running",
                  "a supervisor that hangs is replaced")
    test.check(not alive(before), "a supervisor that hangs is replaced (WatchdogSec)")
    goes_on(test, "after the watchdog")


def powers(test):
    """What the supervisor's commands can do in all this, and what they cannot."""
    Path("/etc/postern/powers").write_text(POWERS)
    Path("/etc/postern/powers").chmod(0o755)
    settings(test, (r"^observe = true;", "observe = false;"), (r"^#gate = .*?$", 'gate = { command = [ "/etc/postern/powers" ]; };'),
             (r"^classes = \(.*\Z", 'classes = ( { name = "none"; match = [ "*" ]; ports = [ 25 ]; '
              "hold_at = 0; refuse_at = 0; } );\n"))
    test.run(["systemctl", "reload", "posternd"])
    test.wait_for(lambda: Path("/run/powers").exists(), "gate.command has run")
    said = dict(reversed(line.split(":")[0].split(" ", 1))
                for line in Path("/run/powers").read_text().splitlines())
    able = ("postqueue", "reload", "mail", "user-mail", "gate")
    unable = ("etc", "module", "device", "namespace", "chroot")
    if shutil.which("nft") is None:
        able = able[:-1]
    good = test.equal({name: said.get(name) for name in able}, dict.fromkeys(able, "ok"),
                      f"its commands can do their work: {', '.join(able)}")
    good &= test.equal({name: said.get(name) for name in unable}, dict.fromkeys(unable, "no"),
                       f"and have no business with: {', '.join(unable)}")
    if not good:
        print(Path("/run/powers").read_text())


def freedoms(test):
    """The two drop-ins of conf/."""
    test.run(["ip", "netns", "add", "other"])
    settings(test, (r"^gate = .*?$", 'witness = { netns = [ "other" ]; };'))
    test.run(["systemctl", "restart", "posternd"])
    test.check("setting=witness.netns text=" in journal(test), "witness.netns: the log tells what "
               "the unit forbids")
    entered = journal(test).count("cannot enter")
    drop_in(test, EXAMPLES / "posternd-netns.conf")
    test.equal((journal(test).count("cannot enter"), show("ActiveState")), (entered, "active"),
               "with posternd-netns.conf it is entered")
    os.unlink(DROP_INS / "posternd-netns.conf")
    drop_in(test, EXAMPLES / "posternd-sendmail.conf")
    said = kernel_says(main_pid())
    test.equal((said["CapBnd"], said["Seccomp"], said["NoNewPrivs"]),
               (kernel_says(1)["CapBnd"], "0", "0"),
               "with posternd-sendmail.conf its commands are as free as the system's first process")


def stops(test):
    pid = main_pid()
    test.run(["systemctl", "stop", "posternd"])
    test.check(not alive(pid) and not list(Path("/var/spool/postfix/private").glob("postern*")),
               "it stops, and leaves no socket")


def body(test):
    loopback_up([SERVER, *CLIENTS])
    files(test)
    postfix = own_postfix(test)
    starts(test)
    postfix.start(25)
    sessions = open_sessions((SERVER, 25), CLIENTS)
    test.equal(len(admitted(sessions)), len(CLIENTS), "clients of a Postfix are let in")
    goes_on(test, "attached")
    restarts(test)
    reloads(test)
    watchdog(test)
    powers(test)
    freedoms(test)
    stops(test)


own_machine.main("unit", body, 100, "journalctl --no-pager -n 60; systemctl status --no-pager "
                 "posternd; tail -n 20 /run/t/log/*")
