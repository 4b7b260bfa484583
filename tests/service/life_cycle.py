#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""The life of the package in a machine of its own (tests/service/package makes it):
installed, started, attached to Postfix, upgraded with sessions open, removed, purged.
Mail flows all the time; at the end nothing of it is left."""
import argparse
import grp
import json
import os
import pwd
import re
import shlex
import shutil
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "mta"))
from lib import own_machine
from lib.smtp import Session, admitted, open_sessions
from lib.testing import Failed, alive, end_process, loopback_up

HERE = Path(__file__).resolve().parents[2]
SERVER = "198.51.100.1"
SENDER = "198.51.100.2"
CLIENTS = [f"198.51.100.{number}" for number in range(11, 16)]
LEFT_OUT = re.compile(
    r"^/(proc|sys|dev|tmp|opt|root|run/(t|log|systemd|rsyslogd|lock|udev|user|initctl|sendsigs)|"
    r"var/(log|cache|mail|tmp|lib/(apt|dpkg|systemd|private|rsyslog|postfix|misc|ucf)|spool/(postfix|rsyslog))|"
    r"etc/(ld\.so\.cache|postfix|mtab|machine-id|resolv\.conf|hosts)|usr/share/(man|info)/|"
    r"etc/(passwd|group|shadow|gshadow|subuid|subgid)-)")


class Systemd:
    """The package starts and restarts it."""
    name = "systemd"

    def __init__(self, test):
        self.test = test

    def pid(self):
        return int(self.test.run(["systemctl", "show", "-P", "MainPID", "posternd"]))

    def installed(self):
        state = subprocess.run(["systemctl", "is-active", "posternd"], text=True,
                               capture_output=True).stdout.strip()
        self.test.equal(state, "active", "posternd.service is active")
        self.test.equal(self.test.run(["systemctl", "is-enabled", "posternd"]).strip(), "enabled",
                        "and started at each boot")

    upgraded = installed

    def removing(self):
        pass

    def log(self):
        return self.test.run(["journalctl", "-u", "posternd", "-o", "cat", "--no-pager"])


class ByHand:
    """No init: the unit's own ExecStart, by hand, told of by its notifications."""
    name = "no init"

    def __init__(self, test):
        self.test, self.process = test, None
        self.file = test.logs / "posternd"

    def pid(self):
        return self.process.pid

    def installed(self):
        unit = Path("/lib/systemd/system/posternd.service").read_text()
        words = shlex.split(re.search(r"^ExecStart=(.*)$", unit, re.M)[1])
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told:
            told.bind("/run/t/notify")
            told.settimeout(30)
            self.process = self.test.spawn(words, "posternd",
                                           env={**os.environ, "NOTIFY_SOCKET": "/run/t/notify"})
            self.test.equal(told.recv(256), b"READY=1", "posternd says that it is ready")
        os.unlink("/run/t/notify")

    def upgraded(self):
        self.removing()
        self.installed()

    def removing(self):
        end_process(self.process)

    def log(self):
        return self.file.read_text()


class Mail:
    """One message after the other, from the begin to the end; each must be taken."""

    def __init__(self, test):
        self.taken, self.bad, self.slowest = 0, [], 0.0
        self.box = Path("/var/mail/reader")
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.work, daemon=True)
        self.thread.start()
        test.wait_for(lambda: self.taken > 0 or self.bad, "the first mail is taken")

    def work(self):
        while not self.over.wait(0.1):
            began = time.monotonic()
            session = Session((SERVER, 25), SENDER)
            code, text = session.code, session.text
            if code == 220:
                code, text = session.send(["reader@mta.example.com"])
            session.quit()
            self.slowest = max(self.slowest, time.monotonic() - began)
            if code == 250:
                self.taken += 1
            else:
                self.bad.append(f"{code} {text}")

    def delivered(self):
        return self.box.read_text(errors="replace").count("\nSubject: test") \
            if self.box.exists() else 0

    def step(self, test, name):
        """Mail came through since the last step, and still does."""
        before = self.taken
        test.wait_for(lambda: self.taken >= before + 2, f"{name}: mail flows")
        test.equal(self.bad[:3], [], f"{name}: no mail was refused, {self.taken} taken, "
                   f"the slowest in {self.slowest * 1000:.0f} ms")
        self.slowest = 0.0


def files():
    """Of the machine, but for what others write."""
    found = set()
    for top, directories, names in os.walk("/"):
        directories[:] = [name for name in directories
                          if not LEFT_OUT.match(os.path.join(top, name))]
        found.update(os.path.join(top, name) for name in directories + names)
    return {name for name in found if not LEFT_OUT.match(name)}


def users():
    return {f"{name}: {line}" for name in ("/etc/passwd", "/etc/group", "/etc/shadow")
            for line in Path(name).read_text().splitlines()}


def apt(test, *words):
    """Returns what it said; without a network, as all is in the cache."""
    done = subprocess.run(["apt-get", "-q", "-y", "-o", "Dpkg::Use-Pty=0", *map(str, words)],
                          text=True, capture_output=True, stdin=subprocess.DEVNULL, timeout=300,
                          env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"})
    (test.logs / "apt").open("a").write(done.stdout + done.stderr)
    return done


def install(test, package):
    done = apt(test, "install", "--no-install-recommends", package)
    if done.returncode != 0:
        raise Failed(f"apt-get install {package.name}: {done.stdout}{done.stderr}")


def control(test, *words):
    return test.run(["posternctl", *words])


def total(test):
    return sum(row["open"] for row in json.loads(control(test, "--json", "classes")))


def status(test):
    return json.loads(control(test, "--json", "status"))


def postfix(test):
    """As Debian sets it up, but for names that need no DNS."""
    Path("/etc/resolv.conf").write_text("options timeout:1 attempts:1\n")
    Path("/etc/hosts").write_text("127.0.0.1 localhost\n198.51.100.1 mta.example.com\n" + "".join(
        f"{address} client{address.rpartition('.')[2]}.example.org\n"
        for address in [SENDER, *CLIENTS]))
    test.run(["postconf", "-e", "myhostname=mta.example.com", "mydestination=mta.example.com",
              "inet_interfaces=all", "inet_protocols=ipv4", "mynetworks=192.0.2.0/24",
              "maillog_file=/var/log/postfix.log", "alias_maps=", "alias_database=",
              "smtpd_client_connection_count_limit=0", "smtputf8_enable=no"])
    test.run(["postconf", "-M", "postlog/unix-dgram=postlog unix-dgram n - n - 1 postlogd"])
    if subprocess.run(["postfix", "status"], capture_output=True).returncode == 0:
        test.run(["postfix", "stop"])
    test.run(["postfix", "start"])
    test.at_end(lambda: subprocess.run(["postfix", "stop"], capture_output=True))


def attach(test):
    """By the package's own program; undo must give back the same file."""
    shutil.copy("/etc/postfix/master.cf", "/run/t/master.cf")
    test.run(["postern-postfix-setup", "--by", "both", "make"])


def detach(test):
    test.run(["postern-postfix-setup", "undo"])
    test.equal(Path("/etc/postfix/master.cf").read_bytes(), Path("/run/t/master.cf").read_bytes(),
               "postern-postfix-setup undo gives back master.cf")


def place(path):
    found = path.stat()
    return (pwd.getpwuid(found.st_uid).pw_name, grp.getgrgid(found.st_gid).gr_name,
            oct(found.st_mode & 0o7777))


def first_days(test, service, mail, package):
    install(test, package)
    service.installed()
    mail.step(test, "installed")
    test.equal(status(test)["observe"], True, "it only observes")
    for path, wanted in (("/run/postern", ("root", "root", "0o755")),
                         ("/run/postern/shared", ("postern", "postern", "0o755")),
                         ("/var/lib/postern", ("root", "root", "0o755")),
                         ("/var/lib/postern/keeper", ("postern", "postern", "0o700")),
                         ("/etc/postern/postern.conf", ("root", "root", "0o644"))):
        test.equal(place(Path(path)), wanted, f"{path}: {' '.join(wanted)}")
    attach(test)
    sessions = open_sessions((SERVER, 25), CLIENTS)
    test.equal(len(admitted(sessions)), len(CLIENTS), "attached: clients are let in")
    test.within(1.0, lambda: total(test) >= len(CLIENTS), "and counted")
    for session in sessions:
        session.quit()
    mail.step(test, "attached")


def limited(test):
    """An admin's own configuration, put in force by a reload."""
    file = Path("/etc/postern/postern.conf")
    text = file.read_text()
    text = re.sub(r"^observe = true;", "observe = false;", text, flags=re.M)
    text = text.replace("classes = (", 'classes = (\n\t{ name = "held"; match = [ '
                        + ", ".join(f'"{address}"' for address in CLIENTS)
                        + f' ]; hold_at = {len(CLIENTS)}; refuse_at = {len(CLIENTS)}; }},', 1)
    file.write_text(text)
    control(test, "check")
    control(test, "reload")
    return admitted(open_sessions((SERVER, 25), CLIENTS))


def held(test):
    rows = {row["name"]: row for row in json.loads(control(test, "--json", "classes"))}
    return rows["held"]["open"]


def still_full(test, what):
    test.within(1.0, lambda: held(test) == len(CLIENTS), f"{what}: {len(CLIENTS)} are counted")
    test.equal(Session((SERVER, 25), CLIENTS[0]).code, 421, f"{what}: the class is full")


def upgrade(test, service, mail, package, sessions):
    before = service.pid()
    version = control(test, "-V").split()[-1]
    install(test, package)
    service.upgraded()
    test.check(service.pid() != before and not alive(before), "upgraded: another posternd runs")
    test.check(control(test, "-V").split()[-1] != version,
               f"upgraded: from {version} to {control(test, '-V').split()[-1]}")
    test.check("origin=adopted" in service.log().rpartition("event=state ")[2].split("\n")[0],
               "upgraded: it adopted the state")
    test.check("observe = false" in Path("/etc/postern/postern.conf").read_text(),
               "upgraded: the admin's configuration stays")
    still_full(test, "upgraded")
    test.equal([session.send(["reader@mta.example.com"])[0] for session in sessions],
               [250] * len(sessions), "upgraded: open sessions go on")
    mail.taken += len(sessions)
    mail.step(test, "upgraded")


def lookup_is_used(test, service, mail):
    """Without postern-lookup no mail would leave: the package stays."""
    master = Path("/etc/postfix/master.cf")
    text = master.read_text()
    master.write_text(text + "postern-hint unix - n n - 0 spawn\n  user=nobody "
                      "argv=/usr/sbin/postern-lookup /run/postern/shared/state.hints postfix\n")
    done = apt(test, "remove", "postern")
    said = done.stdout + done.stderr
    test.check(done.returncode != 0 and "no mail would leave" in said,
               "not removed while master.cf runs postern-lookup, and says why")
    test.check(alive(service.pid()) and Path("/usr/sbin/postern-lookup").exists(),
               "and all goes on")
    master.write_text(text)


def remove(test, service, mail):
    service.removing()
    done = apt(test, "remove", "postern")
    test.equal(done.returncode, 0, "apt-get remove")
    test.check(not Path("/usr/sbin/posternd").exists() and not alive(service.pid() or "-"),
               "removed: no program, no process")
    test.check(Path("/etc/postern/postern.conf").exists() and Path("/var/lib/postern").is_dir(),
               "removed: configuration and what was learned stay")
    test.equal([str(path) for path in Path("/var/spool/postfix/private").glob("postern*")], [],
               "removed: no socket is left in Postfix's directory")
    mail.step(test, "removed, the lines in master.cf still there")


def again(test, service, mail, package, sessions):
    """While sessions are open; the state was left."""
    install(test, package)
    service.installed()
    still_full(test, "installed again")
    for session in sessions:
        session.quit()
    test.within(1.0, lambda: held(test) == 0, "installed again: they leave, and are not counted")
    mail.step(test, "installed again")


def purge(test, service, mail, before):
    service.removing()
    detach(test)
    done = apt(test, "purge", "postern")
    test.equal(done.returncode, 0, "apt-get purge")
    # libraries that came with it are no part of it
    names = subprocess.run(["dpkg-query", "-W", "-f", "${Package} ${db:Status-Status}\n"],
                           text=True, capture_output=True).stdout
    test.check("postern " not in names, "purged: dpkg knows nothing of it")
    left = {name for name in files() - before["files"] if "postern" in name}
    test.equal(sorted(left), [], "purged: no file is left")
    test.equal(sorted(name for name in before["files"] - files()
                      if not name.startswith("/run/")), [], "purged: no file of others went")
    # where there was no systemd, it came with the package, for sysusers.d
    test.equal({line for line in users() ^ before["users"] if " systemd-" not in line}, set(),
               "purged: users and groups as before")
    mail.step(test, "purged")


def gone(test, mail):
    mail.over.set()
    mail.thread.join()
    test.within(30.0, lambda: mail.delivered() == mail.taken,
                f"all {mail.taken} messages that were taken are delivered")


def body(test, service, packages):
    loopback_up([SERVER, SENDER, *CLIENTS])
    postfix(test)
    before = {"files": files(), "users": users()}
    mail = Mail(test)
    mail.step(test, "before")
    first_days(test, service, mail, packages[0])
    sessions = limited(test)
    still_full(test, "reloaded")
    upgrade(test, service, mail, packages[1], sessions)
    lookup_is_used(test, service, mail)
    remove(test, service, mail)
    again(test, service, mail, packages[1], sessions)
    purge(test, service, mail, before)
    gone(test, mail)


def keep_logs(test):
    shutil.rmtree("/opt/logs", ignore_errors=True)
    shutil.copytree(test.logs, "/opt/logs")
    return ("tail -n 20 /opt/logs/apt /var/log/postfix.log; "
            "journalctl --no-pager -n 40 2>/dev/null || tail -n 40 /opt/logs/posternd")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("packages", nargs=2, type=Path)
    packages = parser.parse_args().packages
    kind = Systemd if Path("/run/systemd/system").is_dir() else ByHand
    own_machine.main(f"package, {kind.name}", lambda test: body(test, kind(test), packages), 600,
                     keep_logs)


main()
