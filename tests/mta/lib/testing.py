# SPDX-License-Identifier: ISC
"""One test: its namespaces, its directory, its checks and its end.

A test file calls main(body).  The file is started again in network, mount,
UTS and PID namespaces of its own, with a private /run, /dev and /etc/hosts:
nothing of the machine is touched, ports and addresses are free, and whatever a
test leaves running dies with its namespace.  Exit code 0: all checks passed;
1: some did not; 77: skipped, with the reason.
"""
import argparse
import ctypes
import fcntl
import os
import random
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import traceback
from pathlib import Path

from lib import readable

SKIP = 77
POLL_SECONDS = 0.02
# A test's own time limit ends one that hangs; where time does not count (tests/run-all) it is longer.
PATIENCE = 1 if os.environ.get("CI") == "true" else 5
NOISE_SECONDS = 4.0     # limits are generous: what a change makes slower, make bench shows
PLACE = Path("/run/t")
TESTS = Path(__file__).resolve().parent.parent
INSIDE = "POSTERN_TEST_INSIDE"
TREE = TESTS.parent.parent
COPIED = INSIDE in os.environ and not all(map(readable.open_to_all, (
    TREE / "conf/postern.conf", TREE / "contrib/alert-mail")))
SOURCE = Path("/run/source") if COPIED else TREE


class Failed(Exception):
    """The test cannot go on."""


class Skipped(Exception):
    """Something that the test needs is not on this machine."""


class Test:
    """Checks, waiting, processes, and what is to be undone at the end."""

    def __init__(self, name, arguments):
        self.name = name
        self.arguments = arguments
        self.rounds = arguments.rounds
        self.seed = arguments.seed
        self.random = random.Random(arguments.seed)
        self.directory = PLACE
        self.logs = PLACE / "log"
        self.logs.mkdir(parents=True)
        self.failures = 0
        self.checks = 0
        self.endings = []
        self.deaths_expected = False    # set where roles are killed
        self.attacked = False  # somebody writes what he likes into the segment

    def say(self, text):
        print(f"     {text}", flush=True)

    def check(self, ok, text):
        self.checks += 1
        if ok:
            print(f"ok   {text}", flush=True)
        else:
            self.failures += 1
            print(f"FAIL {text}", flush=True)
        return bool(ok)

    def equal(self, got, wanted, text):
        return self.check(got == wanted, text if got == wanted
                          else f"{text}: got {got!r}, wanted {wanted!r}")

    def poll(self, condition, limit):
        """Seconds until the condition held, or None."""
        start = time.monotonic()
        while True:
            if condition():
                return time.monotonic() - start
            if time.monotonic() - start > limit:
                return None
            time.sleep(POLL_SECONDS)

    def wait_for(self, condition, text, limit=20.0):
        """What must come before the test can go on."""
        waited = self.poll(condition, limit)
        if waited is None:
            raise Failed(f"waited {limit:g} s in vain: {text}")
        return waited

    def within(self, limit, condition, text):
        """A promise with a time: checked against the time, waited for longer.  What was
        waited is printed; as machines stand still now and then, NOISE_SECONDS are forgiven."""
        waited = self.poll(condition, limit + 10.0)
        if waited is None:
            self.check(False, f"{text}: not within {limit + 10:g} s")
        else:
            self.check(waited <= limit + NOISE_SECONDS, f"{text} (after {waited * 1000:.0f} ms)")
        return waited

    def throughout(self, seconds, condition, text):
        """Holds now and stays so."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if not condition():
                return self.check(False, text)
            time.sleep(POLL_SECONDS)
        return self.check(True, text)

    def at_most(self, limit, times, text):
        """None of them took longer; but for two, which may have met a machine that stood
        still."""
        late = [took for took in times if took > limit]
        return self.check(len(late) <= 2 and all(took <= limit + NOISE_SECONDS for took in late),
                          f"{text}: {max(times, default=0) * 1000:.0f} ms at the worst" +
                          (f", {len(late)} took longer than {limit:g} s" if late else ""))

    def at_end(self, call):
        self.endings.append(call)

    def spawn(self, argv, log, **more):
        """A process in the background, ended with the test; output to log/LOG."""
        output = open(self.logs / log, "ab")
        process = subprocess.Popen([str(word) for word in argv], stdout=output,
                                   stderr=subprocess.STDOUT,
                                   stdin=subprocess.DEVNULL, **more)
        output.close()
        self.at_end(lambda: end_process(process))
        return process

    def run(self, argv, **more):
        """A command that must succeed; returns its output."""
        done = subprocess.run([str(word) for word in argv], text=True,
                              capture_output=True, timeout=60, **more)
        if done.returncode != 0:
            raise Failed(f"{' '.join(map(str, argv))}: exit code {done.returncode}: "
                         f"{(done.stderr or done.stdout).strip()}")
        return done.stdout

    def need(self, program):
        path = shutil.which(program, path=os.environ["PATH"] + ":/usr/sbin:/sbin")
        if path is None:
            raise Skipped(f"{program} is not installed")
        return path

    def no_crash(self):
        """What no check of the test itself may notice: a role that died and came back."""
        bad = ["Sanitizer", "runtime error:"]
        bad += [] if self.attacked else ["event=bug"]
        bad += [] if self.deaths_expected else ["event=role-died", "event=role-hung"]
        for log in self.logs.iterdir():
            for line in log.read_text(errors="replace").splitlines():
                if any(word in line for word in bad):
                    return self.check(False, f"{log.name}: {line}")
        return True

    def end(self):
        for call in reversed(self.endings):
            try:
                call()
            except Exception:                    # the others are to be ended too
                traceback.print_exc()


def end_process(process):
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(3)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def alive(pid):
    """Is it there, and no zombie?"""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def processes(parent=None):
    """pid -> command line of every live process (of one parent)."""
    found = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or not alive(entry):
            continue
        try:
            with open(f"/proc/{entry}/stat") as stat:
                its_parent = int(stat.read().rpartition(")")[2].split()[1])
            with open(f"/proc/{entry}/cmdline", "rb") as line:
                command = line.read().replace(b"\0", b" ").decode(errors="replace").strip()
        except OSError:
            continue
        if parent is None or its_parent == parent:
            found[int(entry)] = command
    return found


# The namespaces


def mount(*words):
    subprocess.run(["mount", *map(str, words)], check=True)


def loopback_up(addresses):
    """SIOCSIFFLAGS and SIOCSIFADDR; one alias of lo for each IPv4 address."""
    up, set_flags, set_address = 0x1 | 0x40, 0x8914, 0x8916
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, set_flags, struct.pack("16sh14x", b"lo", up))
        for number, address in enumerate(a for a in addresses if ":" not in a):
            fcntl.ioctl(control, set_address, struct.pack(
                "16sHH4s8x", f"lo:{number}".encode(), socket.AF_INET, 0,
                socket.inet_pton(socket.AF_INET, address)))
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as control:
        for address in (a for a in addresses if ":" in a):
            fcntl.ioctl(control, set_address, struct.pack(
                "16sIi", socket.inet_pton(socket.AF_INET6, address), 128,
                socket.if_nametoindex("lo")))


def private_dev():
    new = Path("/run/dev")
    new.mkdir()
    mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", new)
    for node in ("null", "zero", "full", "random", "urandom", "tty"):
        (new / node).touch()
        mount("--bind", f"/dev/{node}", new / node)
    (new / "shm").mkdir()
    mount("-t", "tmpfs", "-o", "mode=1777", "tmpfs", new / "shm")
    for link, to in (("fd", "fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2")):
        (new / link).symlink_to(f"/proc/self/{to}")
    mount("--move", new, "/dev")


def private_etc(hosts):
    """Names come from our own hosts file, and from nowhere else; there is the
    user of the shipped configuration."""
    names = "127.0.0.1 localhost\n::1 localhost\n" + "".join(
        f"{address} {name}\n" for address, name in hosts.items())
    users = Path("/etc/passwd").read_text()
    groups = Path("/etc/group").read_text()
    if "\npostern:" not in users:
        users += "postern:x:64999:64999::/nonexistent:/usr/sbin/nologin\n"
        groups += "postern:x:64999:\n"
    for place, text in (("/etc/hosts", names), ("/etc/nsswitch.conf", "hosts: files\n"),
                        # of a server that is there: without one the answer comes at once
                        ("/etc/resolv.conf", "options timeout:5 attempts:3\n"),
                        ("/etc/passwd", users), ("/etc/group", groups)):
        real = Path(os.path.realpath(place))
        if real.parts[1] == "run":               # ours by now, and empty
            real.parent.mkdir(parents=True, exist_ok=True)
            real.write_text(text)
            continue
        copy = Path("/run/etc") / real.name
        copy.parent.mkdir(exist_ok=True)
        copy.write_text(text)
        if real.exists():
            mount("--bind", copy, real)


class Syslog:
    """/dev/log, copied to a file."""
    MARK = b"all before this is in the file"

    def __init__(self, path):
        self.path = path
        self.marked = threading.Semaphore(0)
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind("/dev/log")
        os.chmod("/dev/log", 0o666)
        threading.Thread(target=self.copy, daemon=True).start()

    def copy(self):
        with open(self.path, "ab", buffering=0) as out:
            while True:
                line = self.socket.recv(8192)
                if line == self.MARK:
                    self.marked.release()
                else:
                    out.write(line.rstrip(b"\n") + b"\n")

    def text(self):
        """All that was logged until now."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as mark:
            mark.connect("/dev/log")
            mark.send(self.MARK)
        if not self.marked.acquire(timeout=20.0):
            raise Failed("the syslog is not copied")
        return self.path.read_text(errors="replace")


def enter(hosts, addresses):
    mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", "/run")
    # what a program that is killed leaves there is gone with the test
    os.environ["TMPDIR"] = "/run/tmp"
    os.mkdir("/run/tmp")
    os.chmod("/run/tmp", 0o1777)
    if COPIED:
        readable.copy_sources(TREE, SOURCE)
    private_dev()
    private_etc(hosts)
    loopback_up(addresses)
    socket.sethostname("mta.example.com")


def start_again():
    """This file once more, in namespaces of its own."""
    if os.geteuid() != 0:
        print("skipped: needs root", flush=True)
        sys.exit(SKIP)
    unshare = ["unshare", "--mount", "--net", "--uts", "--pid", "--fork",
               "--kill-child", "--mount-proc"]
    if subprocess.run([*unshare, "true"], capture_output=True).returncode != 0:
        print("skipped: namespaces cannot be made here (unshare)", flush=True)
        sys.exit(SKIP)
    # A shell as process 1: it takes in the orphans of killed daemons.
    inside = ["sh", "-c", '"$0" "$@"; exit $?', sys.executable, "-B", *sys.argv]
    os.execvpe("unshare", [*unshare, *inside], {**os.environ, INSIDE: "1"})


# The end


def keep_logs(test):
    keep = Path(os.environ.get("POSTERN_TEST_LOGS", "/tmp/postern-test-logs")) / test.name
    shutil.rmtree(keep, ignore_errors=True)
    shutil.copytree(test.logs, keep, ignore_dangling_symlinks=True)
    for log in sorted(keep.iterdir()):
        lines = log.read_text(errors="replace").splitlines()
        print(f"---- {log.name}, last of {len(lines)} lines")
        print("\n".join(lines[-40:]))
    print(f"---- logs are kept in {keep}", flush=True)


def main(body, hosts=None, addresses=(), seconds=100, before=None, options=()):
    """Runs body(test).  `hosts`: address -> name; `addresses`: more IPv4 and IPv6
    addresses of the loopback interface; `seconds`: the test's own time limit;
    before() runs while there is a network; `options`: more of them, as (flag, how
    argparse takes it), found in test.arguments."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=0,
                        help="rounds of random events (0: the short form)")
    parser.add_argument("--seed", type=int,
                        default=int(os.environ.get("SEED", 20260101)))
    for flag, how in options:
        parser.add_argument(flag, **how)
    arguments = parser.parse_args()
    if INSIDE not in os.environ:
        if before is not None:
            before()
        start_again()
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)   # PR_SET_PDEATHSIG: not without process 1
    enter(hosts or {}, addresses)
    test = Test(Path(sys.argv[0]).stem, arguments)
    test.syslog = Syslog(test.logs / "syslog").text

    def too_long(*_):
        raise Failed(f"not done in {seconds * PATIENCE} s")
    signal.signal(signal.SIGALRM, too_long)
    if arguments.rounds == 0:
        signal.alarm(seconds * PATIENCE)
    start = time.monotonic()
    code = 1
    try:
        body(test)
        test.no_crash()
        code = 0 if test.failures == 0 and test.checks > 0 else 1
    except Skipped as reason:
        print(f"skipped: {reason}", flush=True)
        code = SKIP
    except Failed as reason:
        test.check(False, str(reason))
    except BaseException:
        traceback.print_exc()
    signal.alarm(0)
    if code == 1:
        keep_logs(test)
    test.end()
    if code != SKIP:
        print(f"{test.name}: {test.checks - test.failures} of {test.checks} checks passed "
              f"in {time.monotonic() - start:.1f} s (seed {test.seed})", flush=True)
    sys.stdout.flush()
    os._exit(code)
