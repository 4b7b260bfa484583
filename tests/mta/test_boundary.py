#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""What a role can do to what it shares with root: the terminal of posternd -f, the log, the disk of
the state, and how often it dies."""
import ctypes
import fcntl
import os
import pty
import signal
import socket
import stat
import subprocess
import termios

from lib.postern import Postern, one_class
from lib.terminal import have_terminals
from lib.testing import alive, main, mount

FULL = "event=state deaths="
METRICS, MILTER = 9471, 9472                    # ports


def begin(test, postern, **more):
    """Its process, with these standard streams."""
    postern.process = subprocess.Popen([postern.build / "posternd", "-c", postern.file, "-f"], **more)
    test.at_end(lambda: postern.process.poll() is None and postern.process.kill())


def open_mode(pid, number):
    with open(f"/proc/{pid}/fdinfo/{number}") as info:
        flags = next(int(line.split()[1], 8) for line in info if line.startswith("flags:"))
    return flags & os.O_ACCMODE


def terminal(test):
    """Root's shell reads what is typed there."""
    postern = Postern(test, [one_class("all", 50)], name="terminal")
    postern.configure([one_class("all", 50)])
    have_terminals()
    master, slave = pty.openpty()

    def own_it():
        os.setsid()
        fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
    begin(test, postern, stdin=slave, stdout=slave, stderr=slave, preexec_fn=own_it)
    name = os.ttyname(slave)
    os.close(slave)
    test.wait_for(lambda: postern.ready(), "it runs on a terminal")
    for role, pid in postern.roles().items():
        leads = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in (0, 1, 2)]
        test.equal(leads, ["/dev/null", "/dev/null", name], f"{role} has no terminal but to log")
        test.equal(open_mode(pid, 2), os.O_WRONLY, "... which it cannot read from")
        test.check(os.getsid(pid) == pid, "... and a session of its own")
    roles = list(postern.roles().values())
    os.write(master, b"\x03")
    test.within(10, lambda: postern.process.poll() is not None, "Ctrl-C stops it")
    test.equal(postern.process.poll(), 0, "... in order")
    test.check(not any(map(alive, roles)), "... with its roles")
    os.close(master)


def log_shut_down(test):
    """As any process that has the same socket can."""
    postern = Postern(test, [one_class("all", 50)], name="logged")
    postern.configure([one_class("all", 50)])
    ours, its = socket.socketpair()
    begin(test, postern, stdin=subprocess.DEVNULL, stdout=its, stderr=its)
    test.wait_for(lambda: postern.ready(), "it logs to a stream socket")
    its.shutdown(socket.SHUT_WR)
    its.close()
    os.kill(postern.roles()["policy.0"], signal.SIGKILL)
    test.wait_for(lambda: "event=role-died name=policy.0" in test.syslog(),
                  "a role shut the log down: the supervisor's lines are in syslog")
    postern.process.terminate()
    test.equal(postern.process.wait(20), 0, "it stops")
    ours.close()


class Kept(Exception):
    """Another process's descriptors cannot be had."""


def taken(pid, which):
    """A descriptor of a role's, of which `which` holds: what is done to it is done to the role's."""
    pidfd = os.pidfd_open(pid)
    for number in sorted(map(int, os.listdir(f"/proc/{pid}/fd"))):
        copy = ctypes.CDLL(None).syscall(438, pidfd, number, 0)         # pidfd_getfd
        if copy >= 0 and which(number, copy):
            os.close(pidfd)
            return copy
        if copy >= 0:
            os.close(copy)
    raise Kept(pid)


def log_in_a_file(test):
    """Where its shell did not open it to append, either."""
    postern = Postern(test, [one_class("all", 50)], name="filed")
    path = test.directory / "filed.log"
    with open(path, "wb") as log:
        begin(test, postern, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    test.wait_for(lambda: b"event=started" in path.read_bytes(), "it logs to a file")
    before, pid = path.read_bytes(), postern.roles()["policy.0"]
    copy = taken(pid, lambda number, _: number == 2)
    fcntl.fcntl(copy, fcntl.F_SETFL, 0)
    os.lseek(copy, 0, os.SEEK_SET)
    os.kill(pid, signal.SIGKILL)
    test.wait_for(lambda: b"event=role-died name=policy.0" in path.read_bytes(),
                  "a role went back to the begin of it: the supervisor's lines come at the end")
    test.equal(path.read_bytes()[:len(before)], before, "... and what was there is there")
    os.close(copy)
    postern.process.terminate()
    test.equal(postern.process.wait(20), 0, "it stops")


def disconnected(test):
    """Listeners on TCP, by a role that has them: the roles go on, and have them back."""
    postern = Postern(test, [one_class("all", 50)], name="tcp", edit=lambda text: text.replace(
        "listen = {", f'listen = {{ metrics = "inet:127.0.0.1:{METRICS}";', 1).replace(
            "milter = [", f'milter = [ "inet:127.0.0.1:{MILTER}",', 1))
    postern.start()
    before = postern.roles()
    for role, port in (("metrics.0", METRICS), ("milter.0", MILTER)):
        def is_listener(_, copy, port=port):
            if not stat.S_ISSOCK(os.fstat(copy).st_mode):
                return False
            with socket.socket(fileno=os.dup(copy)) as one:
                return one.family == socket.AF_INET and one.getsockname()[1] == port
        copy = taken(before[role], is_listener)
        with socket.socket(fileno=copy) as listener:
            ctypes.CDLL(None).connect(copy, bytes(16), 16)      # AF_UNSPEC
            test.within(3, lambda one=listener, port=port: one.getsockopt(
                socket.SOL_SOCKET, socket.SO_ACCEPTCONN) and f":{port}: it did not listen" in
                        postern.log_text(), f"{role} listens no more, but soon again; the log names it")
        socket.create_connection(("127.0.0.1", port), 5).close()
    test.equal(postern.roles(), before, "all roles go on")
    postern.stop()


def metrics_alone(test):
    postern = Postern(test, [one_class("all", 50)], name="metrics", edit=lambda text: text.replace(
        "listen = {", 'listen = { metrics = "inet:127.0.0.1:9471";', 1))
    postern.start()
    before = postern.roles()
    for _ in range(7):
        pid = postern.roles()["metrics.0"]
        os.kill(pid, signal.SIGSEGV)
        test.wait_for(lambda old=pid: postern.roles().get("metrics.0") not in (None, old),
                      "metrics is back")
    test.check(FULL not in postern.log_text(), "metrics died seven times: no state is built again")
    test.equal({name: pid for name, pid in postern.roles().items() if name != "metrics.0"},
               {name: pid for name, pid in before.items() if name != "metrics.0"},
               "... and the other roles go on")
    postern.stop()


def try_as_role(words):
    return subprocess.run(words, user="postern", group="postern", extra_groups=[],
                          capture_output=True).returncode == 0


def files_of_root(test):
    """What a role without its sandbox could do to the sockets and locks of the others."""
    postern = Postern(test, [one_class("all", 50)], name="replaced")
    postern.start()
    paths = [postern.root / name for name in ("control", "milter", "map")]
    before = [path.lstat().st_ino for path in paths]
    for path in paths:
        test.check(not try_as_role(["rm", "-f", path]) and not try_as_role(
            ["mv", path, postern.shared / "aside"]) and not try_as_role(["chmod", "0", path]),
                   f"a role can neither remove {path.name} nor rename or shut it")
    test.check(not try_as_role(["touch", postern.root / "planted"]) and
               not try_as_role(["mv", postern.shared, postern.root / "aside"]),
               "... and makes nothing where the sockets are")
    test.check(not try_as_role(["flock", "-n", "-x", postern.shared / "state.lock", "true"]),
               "... and takes no lock of root's")
    test.equal([path.lstat().st_ino for path in paths], before, "all of them are as they were")
    test.check(try_as_role(["rm", "-f", postern.shared / "state.lock"]) and
               try_as_role(["mkdir", "-p", postern.shared / "state.lock/full"]),
               "in the state's directory it makes files of its own")
    policy = postern.roles()["policy.0"]
    os.kill(policy, signal.SIGKILL)
    test.within(2.0, lambda: postern.roles().get("policy.0") not in (None, policy),
                "the lock was replaced: a role that died is started again")
    postern.stop()
    postern.start()
    test.check("the lock did not belong to Postern" in postern.log_text() and
               (postern.shared / "state.lock").is_file(),
               "... and so is the daemon, which puts what stood there aside")
    postern.stop()


def full_disk(test):
    """One role filled the disk of the state, and spoiled the state."""
    postern = Postern(test, [one_class("all", 50)], name="full")
    postern.shared.mkdir(parents=True)
    mount("-t", "tmpfs", "-o", "size=64m,mode=755", "tmpfs", postern.shared)
    postern.start()
    supervisor = postern.process.pid
    # more than the state needs, so that its own room is not enough
    filler = postern.shared / "filler"
    (postern.shared / "state").write_bytes(b"")
    with open(filler, "wb") as file:
        try:
            while True:
                os.write(file.fileno(), bytes(1 << 20))
        except OSError:
            pass
    test.wait_for(lambda: FULL in postern.log_text(), "roles die of the state", 60)
    test.wait_for(lambda: "cannot build the state file" in postern.log_text(),
                  "there is no room to build it again, and the log says so", 60)
    test.check(alive(supervisor) and postern.process.poll() is None, "the supervisor goes on")
    filler.unlink()
    test.wait_for(lambda: postern.ready(), "there is room again: it serves", 60)
    test.equal(postern.process.poll(), None, "... the same supervisor")
    postern.stop()


def body(test):
    test.deaths_expected = True
    terminal(test)
    log_shut_down(test)
    try:
        log_in_a_file(test)
        disconnected(test)
    except Kept:
        test.say("no other process's descriptors can be had here")
    metrics_alone(test)
    files_of_root(test)
    full_disk(test)


if __name__ == "__main__":
    main(body, seconds=300)
