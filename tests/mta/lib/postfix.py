# SPDX-License-Identifier: ISC
"""Private Postfix instances, with the service lines of conf/ word for word."""
import os
import re
import shutil
import signal
import subprocess
from contextlib import contextmanager
from pathlib import Path

from lib.testing import SOURCE, Skipped, alive, processes

MAIN = """compatibility_level = 3.6
queue_directory = {spool}
data_directory = {root}/data
command_directory = /usr/sbin
daemon_directory = /usr/lib/postfix/sbin
meta_directory = /etc/postfix
shlib_directory = /usr/lib/postfix
maillog_file = {log}
maillog_file_prefixes = /run
multi_instance_name =
syslog_name = {name}
inet_interfaces = all
inet_protocols = all
myhostname = mx.example.com
myorigin = example.com
mydestination =
mynetworks = 192.0.2.0/24
smtp_host_lookup = native
smtp_dns_support_level = disabled
alias_maps =
alias_database =
local_recipient_maps =
relay_domains = example.com, example.org, example.net
transport_maps = static:discard:
smtpd_tls_security_level = none
smtpd_timeout = 1h
"""

MASTER = """postlog   unix-dgram n - n - 1 postlogd
pickup    unix n - n 60 1 pickup
cleanup   unix n - n - 0 cleanup
qmgr      unix n - n 300 1 qmgr
tlsmgr    unix - - n 1000? 1 tlsmgr
rewrite   unix - - n - - trivial-rewrite
bounce    unix - - n - 0 bounce
defer     unix - - n - 0 bounce
trace     unix - - n - 0 bounce
verify    unix - - n - 1 verify
flush     unix n - n 1000? 0 flush
proxymap  unix - - n - - proxymap
proxywrite unix - - n - 1 proxymap
smtp      unix - - n - - smtp
relay     unix - - n - - smtp
showq     unix n - n - - showq
error     unix - - n - - error
retry     unix - - n - - error
discard   unix - - n - - discard
local     unix - n n - - local
virtual   unix - n n - - virtual
lmtp      unix - - n - - lmtp
anvil     unix - - n - 1 anvil
scache    unix - - n - 1 scache
"""


def conf_service(name, port, extra=(), leave_out=(), take=()):
    """The service of conf/NAME on another port.  `extra`: options that come to
    it; `leave_out`: parameters whose line a comment there says to leave out; `take`: those
    whose line it says to take the # away from."""
    text = (SOURCE / "conf" / name).read_text()
    for parameter in take:
        text, count = re.subn(rf"(?m)^#(  -o {{ {parameter} = )", r"\1", text)
        assert count == 1, parameter
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    words = lines[0].split(None, 1)
    lines[0] = f"{port} {words[1]}"
    lines = [line for line in lines
             if not any(f" {parameter} " in line or f" {parameter}=" in line
                        for parameter in leave_out)]
    return "\n".join(lines + [f"  -o {option}" for option in extra]) + "\n"


def conf_hints(lookup, hints, mta, syslog_name, site, group=None):
    """The services of conf/postfix-hints.master.cf with the names that an admin
    would put in: the program, the hints file, the mta, the syslog_name, the site's file, and
    hints.group."""
    text = "\n".join(line for line in (SOURCE / "conf/postfix-hints.master.cf").read_text()
                     .splitlines() if line and not line.startswith("#")) + "\n"
    shipped = ("argv=/usr/local/sbin/postern-lookup /run/postern/shared/state.hints postfix "
               "/var/lib/postern/postfix.site\n")
    assert text.count(shipped) == 1
    if group:
        assert text.count("user=nobody argv=") == 1
        text = text.replace("user=nobody argv=", f"user=nobody:{group} argv=")
    return text.replace(shipped, f"argv={lookup} {hints} {mta} {site}\n").replace(
        "syslog_name=postfix/", f"syslog_name={syslog_name}/")


def without(master, services):
    """MASTER's lines but for services that `services` brings, options and all."""
    brought = {tuple(line.split()[:2]) for text in services for line in text.splitlines()
               if line and not line[0].isspace() and line[0] != "#"}
    return "".join(line for line in master.splitlines(True)
                   if tuple(line.split()[:2]) not in brought)


class Postfix:
    """An instance in PLACE/NAME.  Make it, let Postern put its sockets into
    spool/private, then start it."""

    def __init__(self, test, services, name="A", main="", spool=None, root=None):
        if not Path("/usr/lib/postfix/sbin/master").exists():
            raise Skipped("postfix is not installed")
        self.test, self.name, self.marks = test, name, 0
        self.root = root or test.directory / name
        self.spool = spool or self.root / "spool"
        self.private = self.spool / "private"
        self.log = test.logs / f"postfix-{name}"
        etc = self.root / "etc"
        for directory in (etc, self.root / "data", self.spool):
            directory.mkdir(parents=True, exist_ok=True)
        shutil.chown(self.root / "data", "postfix")
        self.etc = etc
        self.set(main)
        self.serve(services)
        test.run(["postfix", "-c", etc, "check"])
        inside = self.spool / "etc"             # for chrooted smtpd processes
        inside.mkdir(exist_ok=True)
        for file in ("hosts", "nsswitch.conf", "resolv.conf", "services"):
            if os.path.exists(f"/etc/{file}"):
                shutil.copy(f"/etc/{file}", inside / file)

    def set(self, main):
        """Other settings: `main` takes the place of what it names (a setting that is
        there twice has postlogd talk to itself, until it hangs)."""
        usual = MAIN.format(root=self.root, spool=self.spool, log=self.log,
                            name=f"postfix-{self.name}")
        named = {line.split("=")[0].strip() for line in main.splitlines() if "=" in line}
        (self.etc / "main.cf").write_text("".join(
            line for line in usual.splitlines(True)
            if line.split("=")[0].strip() not in named) + main)

    def serve(self, services):
        """Other services, from the next start on."""
        services = list(services)
        (self.etc / "master.cf").write_text(without(MASTER, services) + "".join(services))

    def launch(self):
        def start():
            return subprocess.run(["postfix", "-c", self.etc, "start"], capture_output=True, text=True)
        done = start()
        # "master -w" now and then gives up on a master that has started all the same, or finds
        # the one before, which has not quite ended
        if done.returncode != 0:
            self.test.say(f"postfix start: exit code {done.returncode}: {done.stderr.strip()}")
            self.test.wait_for(lambda: self.is_up() or start().returncode == 0,
                               "Postfix has started all the same")

    def start(self, *ports):
        self.launch()
        self.test.at_end(self.stop)
        for port in ports:
            self.test.wait_for(lambda: listening(port), f"Postfix listens on port {port}")

    def is_up(self):
        try:
            return alive(self.master())
        except (OSError, ValueError):
            return False

    def master(self):
        return int((self.spool / "pid/master.pid").read_text())

    def stop(self):
        pid = self.master()
        if alive(pid):
            all_of_it = [pid, *processes(pid)]      # they have its sockets, too
            os.kill(pid, signal.SIGTERM)
            self.test.poll(lambda: not any(map(alive, all_of_it)), 10)

    def reload(self):
        """Until those that route mail have ended: they have the settings of before."""
        old = [pid for pid, command in processes(self.master()).items()
               if command.split()[:1] in (["qmgr"], ["trivial-rewrite"])]
        self.test.run(["postfix", "-c", self.etc, "reload"])
        self.test.wait_for(lambda: not any(map(alive, old)), f"Postfix {self.name} reloads")

    @contextmanager
    def renewed(self):
        """Around a reload by somebody else, without open sessions: all of Postfix is new then."""
        before = processes(self.master())
        yield
        self.test.wait_for(lambda: not any(map(alive, before)), "all of Postfix is new")

    def flush(self):
        self.test.run(["postqueue", "-c", self.etc, "-f"])

    def send(self, port, domain, count=1, user="u"):
        """`count` messages to as many recipients of a domain, by smtpd on `port`."""
        words = ["smtp-source", "-m", count, "-s", min(count, 20), "-l", 300, "-f",
                 "sender@example.com", *(["-N"] if count > 1 else []),
                 "-t", f"{user}@{domain}", f"127.0.0.1:{port}"]
        self.test.run(words)

    def log_text(self):
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def log_until_now(self):
        """log_text(), with what a process has told postlogd, and postlogd has not written yet."""
        self.marks += 1
        mark = f"mark {self.marks} of the test"
        self.test.run(["postlog", "-c", self.etc, mark])
        self.test.wait_for(lambda: mark in self.log_text(), "postlogd writes")
        return self.log_text()

    def delivered(self):
        """How many deliveries the log tells as done."""
        return self.log_text().count("status=sent")

    def policy_connections(self, socket_name="private/postern"):
        """How many smtpd processes keep a connection to the policy socket."""
        path = str(self.spool / socket_name)
        with open("/proc/net/unix") as table:
            return sum(1 for line in table
                       if line.split()[-1] == path and line.split()[5] == "03")


def connected(place):
    """How many connections to a Unix socket its server has, or is to accept yet, those that
    the client has left included."""
    with open("/proc/net/unix") as table:
        return sum(1 for line in table
                   if line.split()[-1] == str(place) and line.split()[5] in ("02", "03"))


def listening(port):
    """Is there a listener?  Asks the kernel, not the service."""
    for file in ("/proc/net/tcp", "/proc/net/tcp6"):
        with open(file) as table:
            for line in list(table)[1:]:
                fields = line.split()
                if fields[3] == "0A" and int(fields[1].rsplit(":", 1)[1], 16) == port:
                    return True
    return False
