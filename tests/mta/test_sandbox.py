#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""What is left to a role: who it is, its capabilities, its sandbox; and, in a build with
failpoints, that each role which asks the kernel for what it must not have is stopped, and
Postern goes on."""
import ctypes
import errno
import grp
import os
import pwd
import re
import signal
import socket
import subprocess
import time
from pathlib import Path

from lib.control import as_user, frame
from lib.postern import Postern, one_class
from lib.testing import alive, main, mount

# As in src/role/confine/misdeed.c.
MISDEEDS = ("passwd", "write", "code", "execve", "clone", "ptrace", "process_vm_readv",
            "socket", "socket", "kill", "setuid", "mount", "chmod", "chown", "unshare", "bpf",
            "io_uring_setup", "rt_sigaction", "connect", "keyctl", "sendmsg", "state", "remap",
            "home", "spool", "kill")
HIDDEN = {"passwd", "home", "spool"}            # of everybody's to read, but not a role's
FILES = HIDDEN | {"write", "code"}
STATE = {"state", "remap"}                      # for metrics, which may only look at it
CALLS = {"calls", "calls+files"}
REDIS, OTHER = 6379, 9                          # ports; the other one as in misdeed.c
READER = "games"                                # a group that every system has
READERS = {"policy", "milter", "metrics", "cluster"}       # that may open nothing for writing


def status_of(pid):
    with open(f"/proc/{pid}/status") as file:
        return dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)


def every_role(postern, mode="on", redis=None):
    """A change of the file after which all kinds of roles run."""
    queue = postern.test.directory / "queue"
    queue.mkdir(exist_ok=True)
    log = postern.test.directory / "mail.log"
    log.touch()
    return lambda text: (f'sandbox = "{mode}";\nhints = {{ group = "{READER}"; }};\n' + text + f"""
mta = ( {{ name = "queue"; kind = "sendmail"; drive = true; queue = [ "{queue}" ];
          log = "{log}"; cf = "/dev/null"; sendmail = "/bin/true"; }} );
cluster = {{ redis = "{redis or f'unix:{postern.root}/no-redis'}"; node = "mx1"; nodes = 2; }};
""").replace("listen = {", f'listen = {{ queue = "unix:{postern.root}/queue"; '
         'metrics = "inet:127.0.0.1:9471"; ', 1)


def says(postern):
    """What the policy socket says: somebody must be there, and soon."""
    with socket.socket(socket.AF_UNIX) as one:
        one.settimeout(5)
        one.connect(str(postern.spool / "private/postern"))
        one.sendall(b"request=smtpd_access_policy\nprotocol_state=RCPT\n\n")
        return one.recv(4096).decode()


def who_they_are(test, postern, roles):
    user = pwd.getpwnam("postern")
    states = {role: status_of(pid) for role, pid in roles.items()}
    for what, wanted in (("Uid", [str(user.pw_uid)] * 4), ("Gid", [str(user.pw_gid)] * 4)):
        test.equal({role: state[what].split() for role, state in states.items()},
                   dict.fromkeys(roles, wanted), f"{what} of every role, and no way back")
    for what in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        test.equal({int(state[what], 16) for state in states.values()}, {0},
                   f"{what} of every role is empty")
    test.equal({state["NoNewPrivs"] for state in states.values()}, {"1"}, "no new privileges")
    test.equal({os.stat(f"/proc/{pid}/mem").st_uid for pid in roles.values()}, {0},
               "their memory is root's alone (not dumpable)")


def orders_nothing(test, postern):
    """Landlock covers no connect(2) to a unix socket: who asks there is known by his user."""
    before = postern.status()["counters"]["reloads"]
    order = frame("protocol=1", "command=reload")
    for place, wanted in (("control", "exit=77"), ("queue", "exit=64")):
        test.check(wanted in as_user(postern, "postern", order, (), place),
                   f"a reload that a role's user orders over {place} is refused")
    test.equal(postern.status()["counters"]["reloads"], before, "... and not done")
    test.wait_for(lambda: f"uid={pwd.getpwnam('postern').pw_uid} command=reload action=refuse"
                  in postern.log_text(), "... and logged")


def has_failpoints(test, postern):
    return "failpoints" in test.run([postern.build / "posternd", "-V"])


def sandbox_of(postern):
    return {row["role"]: row["sandbox"] for row in postern.status()["roles"]
            if row["role"] != "supervisor"}


def other_port(test, postern, redis):
    """The cluster role may connect to Redis's port, and to no other one."""
    redis.accept()[0].close()
    if "calls+files" in sandbox_of(postern).values() and has_failpoints(test, postern):
        test.check(Prompter(test, postern).refused("cluster.0", MISDEEDS.index("connect"),
                                                   errno.EACCES),
                   "connect: the cluster role reaches Redis, and no other port")


def modes(test, postern):
    """How it is switched; returns whether this build and kernel can."""
    def begin(mode, wanted, meanwhile=None, **more):
        """Restarted with it: what all roles say, and the kernel of them."""
        postern.configure([one_class("all", 100)], every_role(postern, mode, **more))
        postern.start()
        test.poll(lambda: set(sandbox_of(postern).values()) <= wanted, 5)
        words = set(sandbox_of(postern).values())
        filters = {status_of(pid).get("Seccomp", "0") for pid in postern.roles().values()}
        if meanwhile:
            meanwhile()
        postern.stop()
        return words <= wanted and filters

    test.equal(begin("off", {"none"}), {"0"}, "off: there is none")
    if "not restricted" not in postern.log_text():
        begin("on", CALLS)
    if "not restricted" in postern.log_text():
        postern.configure([one_class("all", 100)], every_role(postern, "required"))
        done = subprocess.run([postern.build / "posternd", "-f", "-c", postern.file], text=True,
                              capture_output=True, timeout=20)
        test.check(done.returncode == 69 and "sandbox is required" in done.stderr,
                   "required where there is none: no start, and it is said why")
        return False
    test.equal(begin("log", {"log"}), {"2"}, "log: a filter, and nothing is refused")
    with socket.create_server(("127.0.0.1", REDIS)) as redis, \
            socket.create_server(("127.0.0.1", OTHER)):
        redis.settimeout(20)
        test.equal(begin("required", CALLS, lambda: other_port(test, postern, redis),
                         redis=f"inet:127.0.0.1:{REDIS}"), {"2"}, "required: there is one")
    return True


class Prompter:
    """Has roles do what they must not."""

    def __init__(self, test, postern):
        self.test, self.postern = test, postern
        self.libc = ctypes.CDLL(None, use_errno=True)

    def ask(self, role, which):
        pid = self.postern.roles()[role]
        self.libc.sigqueue(pid, signal.SIGUSR2, ctypes.c_void_p(which))
        return pid

    def refused(self, role, which, error=None):
        """The call fails, with this errno, and the role lives."""
        pid, said = self.ask(role, which), []

        def answered():
            said[:] = re.findall(rf"misdeed={MISDEEDS[which]} result=(-?\d+) errno=(\d+) pid={pid}\b",
                                 self.postern.log_text())
            return said
        self.test.wait_for(answered, f"{role} tells of {MISDEEDS[which]}")
        return said[0][0] == "-1" and error in (None, int(said[0][1])) and alive(pid) \
            and self.postern.roles().get(role) == pid

    def ended(self, role, which, name=None):
        """The role is; the log tells why; it is back, and somebody answered meanwhile."""
        name, before = name or MISDEEDS[which], self.postern.log_text()
        pid = self.ask(role, which)
        line = rf"event=role-died .*name={re.escape(role)} pid={pid} signal=31 syscall=(?:{name}) "
        self.test.wait_for(lambda: not alive(pid), f"{role} is ended for {name}")
        ok = "DUNNO" in says(self.postern)
        self.test.wait_for(lambda: re.search(line, self.postern.log_text()[len(before):]),
                           f"the log names {name}, which ended {role}")
        self.test.wait_for(lambda: self.postern.roles().get(role) not in (None, pid),
                           f"{role} is back")
        return ok


def misdeeds(test, postern, roles):
    prompter = Prompter(test, postern)
    files = "files" in next(iter(sandbox_of(postern).values()))
    for which, name in enumerate(MISDEEDS):
        if name not in FILES or (name in HIDDEN and not files):
            continue
        living = [role for role in roles if not (
            name == "code" and role.startswith("feed") or
            name == "write" and (role.split(".")[0] in READERS or not files))]
        test.equal([role for role in living if not prompter.refused(
            role, which, errno.EACCES if name in HIDDEN else None)], [],
                   f"{name}: refused to {', '.join(living)}")
    test.check(not os.path.exists("/tmp/misdeed"), "... and nothing was written")
    for role in sorted(roles):
        if role.split(".")[0] in READERS:
            test.check(prompter.ended(role, MISDEEDS.index("write"), "open(at)?"),
                       f"write: {role} is ended, as it may only read")
    for role in sorted(roles):
        test.check(prompter.ended(role, MISDEEDS.index("sendmsg")), f"sendmsg: {role} is ended: "
                   "it could send descriptors to the supervisor, or away")
    killing = [which for which, name in enumerate(MISDEEDS)
               if name not in FILES | STATE | {"connect", "sendmsg"}]
    # each role a few, in turn: one that dies within a second of its start has to wait
    for number in range(0, len(killing), 1 if test.rounds else 3):
        for at, role in enumerate(sorted(roles)):
            which = killing[(number + at) % len(killing)]
            test.check(prompter.ended(role, which),
                       f"{MISDEEDS[which]}: {role} is ended, the others answer, it is back")


def only_looks(test, postern):
    """Metrics has the state in its memory, and nothing that it could write to it by."""
    pid, state = postern.roles()["metrics.0"], str(postern.shared / "state")
    with open(f"/proc/{pid}/maps") as maps:
        rights = {line.split()[1] for line in maps if line.rstrip().endswith(state)}
    test.equal(rights, {"r--s"}, "metrics maps the state to read, and not else")
    open_there = [fd for fd in os.listdir(f"/proc/{pid}/fd")
                  if os.readlink(f"/proc/{pid}/fd/{fd}") == state]
    test.equal(open_there, [], "... and has no descriptor of it")
    row = next(row for row in postern.status()["roles"] if row["role"] == "metrics.0")
    test.check(row["sandbox"] == sandbox_of(postern)["keeper.0"] and row["heartbeat_age"] < 3
               and row["generation"] == postern.status()["generation"],
               "what it says of itself is in the status all the same")


def looks_only(test, postern):
    """The same, as code that was brought in would try it."""
    prompter = Prompter(test, postern)
    test.check(prompter.refused("metrics.0", MISDEEDS.index("remap"), errno.EACCES),
               "remap: metrics cannot make its mapping of the state writable")
    test.check(prompter.ended("metrics.0", MISDEEDS.index("state"), "open(at)?"),
               "state: metrics is ended, as it opens the state to write")


def sandbox_first(test, postern):
    """The next keeper waits for a configuration, as none is published: it looked into the state
    for that, where others write."""
    supervisor, keeper = postern.process.pid, postern.roles()["keeper.0"]
    others = set(postern.roles().values())
    children = Path(f"/proc/{supervisor}/task/{supervisor}/children")
    os.kill(keeper, signal.SIGSTOP)
    for file in postern.shared.glob("state.config.*"):
        file.unlink()
    os.kill(keeper, signal.SIGKILL)
    new, end = set(), time.monotonic() + 10
    while not new and time.monotonic() < end:           # before it asks
        new = set(map(int, children.read_text().split())) - others
    os.kill(supervisor, signal.SIGSTOP)
    test.wait_for(lambda: 'role=keeper.0 text="publishing again' in postern.log_text(),
                  "a keeper waits for a configuration")
    test.equal([status_of(pid)["Seccomp"] for pid in new], ["2"], "... in its sandbox")
    os.kill(supervisor, signal.SIGCONT)
    test.wait_for(postern.ready, "... and has it")


def other_disk(test, postern):
    """A disk is mounted over the journal's directory: it has no rule for that one."""
    place, roles = postern.journal, postern.roles()
    mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", place)
    number = 0

    def is_written():
        nonlocal number
        number += 1
        postern.command("suspend", f"d{number}.example")
        return list((place / "keeper").glob("*.log"))
    test.wait_for(is_written, "the journal is written to the disk that was mounted over it", 30)
    test.check(postern.roles()["policy.0"] == roles["policy.0"], "... and only its writers "
               "were started again")


def body(test):
    test.deaths_expected = True
    postern = Postern(test)
    postern.kinds = {"policy", "milter", "keeper", "feed", "queue", "metrics", "cluster"}
    can = modes(test, postern)
    postern.configure([one_class("all", 100)], every_role(postern))
    postern.start()
    roles = postern.roles()
    test.equal({role.split(".")[0] for role in roles}, postern.kinds, "every kind of role runs")
    who_they_are(test, postern, roles)
    orders_nothing(test, postern)
    test.equal({role for role, pid in roles.items() if str(grp.getgrnam(READER).gr_gid) in
                status_of(pid)["Groups"].split()}, {"keeper.0"},
               "the keeper is in hints.group, and no other role")
    test.check("no such group" not in postern.log_text(), "... though it cannot read /etc/group")
    if not can:
        return
    test.wait_for(lambda: set(sandbox_of(postern).values()) <= CALLS, "status: all are in one")
    test.equal({status_of(pid)["Seccomp"] for pid in roles.values()}, {"2"},
               "the kernel has a filter for each")
    only_looks(test, postern)
    sandbox_first(test, postern)
    if has_failpoints(test, postern):
        looks_only(test, postern)
        misdeeds(test, postern, postern.roles())
    other_disk(test, postern)


main(body)
