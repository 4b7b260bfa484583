#!/usr/bin/env python3
# SPDX-License-Identifier: ISC
"""The supervisor from outside: start, stop, exit codes, sockets and their owners,
privileges, roles that die or hang, a second daemon, a dead supervisor, reload."""
import ctypes
import grp
import os
import pwd
import re
import shutil
import signal
import socket
import stat
import struct
import subprocess
import time
from pathlib import Path

from lib.executed import Opened
from lib.postern import Postern, one_class
from lib.testing import alive, main, processes


OPENS = {"state.lock", "state"}


def daemon(postern, *options, **more):
    return subprocess.run([postern.build / "posternd", *map(str, options)], text=True,
                          capture_output=True, timeout=30, **more)


def status_of(pid):
    with open(f"/proc/{pid}/status") as file:
        return dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)


def links(pid):
    """Where its descriptors lead."""
    found = []
    for entry in os.listdir(f"/proc/{pid}/fd"):
        try:
            found.append(os.readlink(f"/proc/{pid}/fd/{entry}"))
        except OSError:
            pass
    return found


def open_files_limit(pid):
    """Soft and hard."""
    with open(f"/proc/{pid}/limits") as limits:
        words = next(line.split() for line in limits if line.startswith("Max open files"))
    return int(words[3]), int(words[4])


def addresses(postern):
    """Of its policy sockets."""
    return [str(postern.spool / "private/postern"), ("127.0.0.1", 10040), ("::1", 10040)]


def answer(address):
    """What a policy socket says."""
    family = (socket.AF_UNIX if isinstance(address, str) else
              socket.AF_INET6 if ":" in address[0] else socket.AF_INET)
    with socket.socket(family) as one:
        one.settimeout(10)
        one.connect(address)
        one.sendall(b"request=smtpd_access_policy\nprotocol_state=RCPT\n\n")
        return one.recv(4096).decode()


def broken(text):
    return text + "\nno_such_setting = 1;\n"


def exit_codes(test, postern):
    done = daemon(postern, "-V")
    test.check(done.returncode == 0 and done.stdout.startswith("posternd "), "-V names it")
    test.equal(daemon(postern, "--help").returncode, 0, "--help ends with 0")
    test.equal(daemon(postern, "-x").returncode, 64, "unknown option: 64")
    test.equal(daemon(postern, "-t", "word").returncode, 64, "unexpected argument: 64")
    done = daemon(postern, "-t", "-c", postern.file)
    test.equal(done.returncode, 0, "-t of a good file: 0")
    test.equal(daemon(postern, "-t", "-c", "/nonexistent").returncode, 78,
               "-t without a file: 78")
    bad = test.directory / "bad.conf"
    bad.write_text(broken(postern.text([])))
    line = bad.read_text().splitlines().index("no_such_setting = 1;") + 1
    for options in (["-t"], [], ["-f"]):
        done = daemon(postern, *options, "-c", bad)
        test.check(done.returncode == 78 and f"{bad}:{line}: error: " in done.stderr,
                   f"{' '.join(options) or 'start'} with a mistake: 78, with its place")


def refused_starts(test, postern):
    def start(what, code, word, change):
        postern.configure([], change)
        done = daemon(postern, "-c", postern.file)
        test.check(done.returncode == code and word in done.stderr,
                   f"{what}: {code}, and says {word!r}"
                   + ("" if done.returncode == code else f" (was {done.returncode})"))
        test.equal(processes_of(postern), {}, f"{what}: nothing runs")

    postern.shared.mkdir(parents=True)
    shutil.chown(postern.shared, "postern", "postern")
    start("the user root", 78, "must not run", lambda text: 'user = "root";\n' + text)
    start("unknown user", 78, "there is no user", lambda text: 'user = "nobody-here";\n' + text)
    path = postern.root / "control"
    path.write_text("a file of somebody else")
    start("a path in use by something else", 69, "is not a socket", lambda text: text)
    test.equal(path.read_text(), "a file of somebody else", "... which stays as it is")
    path.unlink()
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(path))
        other.listen()
        start("a socket that another process serves", 69, "listens", lambda text: text)
        test.check(path.exists(), "... which stays")
        done = postern.command("status")
        test.check((postern.shared / "state").exists() and done.returncode == 69 and
                   "is not running" in done.stderr,
                   f"... and the state that it left does not look live: {done.stderr.strip()}")
    path.unlink()
    start("no directory for the state", 73, "cannot create directory",
          lambda text: text.replace(f"{postern.shared}/state", "/run/a/b/c/state"))
    shutil.chown(postern.shared, "root", "root")
    postern.shared.chmod(0o700)
    start("a directory that only root may enter", 73, "cannot access", lambda text: text)
    postern.shared.chmod(0o755)


def directory_of_root(test):
    """As somebody has it who puts all of it into a directory of his own."""
    postern = Postern(test, [one_class("all", 5)], name="of-root")
    postern.root.mkdir(mode=0o755)
    postern.shared.mkdir(mode=0o755)
    mine = postern.shared / "mine"
    mine.write_text("root's")
    postern.start()
    status = postern.shared.stat()
    test.equal((status.st_uid, stat.S_IMODE(status.st_mode)), (0, 0o1775),
               "a directory of root's for the state: the workers can now create files there")
    tried = subprocess.run(["rm", "-f", str(mine)], user="postern", group="postern",
                           extra_groups=[], capture_output=True)
    test.check(tried.returncode != 0 and mine.read_text() == "root's",
               "... and remove none of root's")
    test.equal(postern.command("reload", json_output=False).returncode, 0, "... reload works")
    postern.stop()


def without_the_default_user(test, postern):
    users = Path("/etc/passwd")  # that of our own namespace
    kept = users.read_text()
    users.write_text(re.sub(r"(?m)^postern:.*\n", "", kept))
    try:
        postern.configure([])
        postern.start()
        test.equal({status_of(pid)["Uid"].split()[0] for pid in postern.roles().values()},
                   {str(pwd.getpwnam("nobody").pw_uid)},
                   "nobody stands in where nobody made the default user")
        postern.stop()
    finally:
        users.write_text(kept)
    (postern.shared / "state").unlink()


def processes_of(postern):
    return {pid: line for pid, line in processes().items()
            if str(postern.file) in line and "posternd" in line.split(" ")[0]}


def background(test, postern):
    done = daemon(postern, "-c", postern.file)
    test.equal(done.returncode, 0, "in the background: 0 when it is ready")
    test.check(": note: class unbound sets no limit" in done.stdout,
               "... and its notes are told, to a pipe, too")
    status = postern.status()
    pid = status["pid"]
    test.check(alive(pid) and len(postern.roles()) >= 4, "... with its roles")
    test.equal((os.readlink(f"/proc/{pid}/cwd"), os.readlink(f"/proc/{pid}/fd/0"),
                os.readlink(f"/proc/{pid}/fd/2")), ("/", "/dev/null", "/dev/null"),
               "... away from directory and terminal")
    test.check(os.getsid(pid) != os.getsid(0) and os.getsid(pid) != pid,
               "... in a session that it does not lead")
    roles = list(postern.roles().values())
    log = test.syslog()
    test.check("posternd[" in log and "event=started" in log, "... with syslog as its log")
    replaced = postern.root / "milter"
    replaced.unlink()
    replaced.write_text("of somebody else")
    os.kill(pid, signal.SIGTERM)
    test.within(2.0, lambda: not alive(pid), "SIGTERM stops it")
    test.check(not any(map(alive, roles)), "... and its roles")
    test.check(not (postern.root / "control").exists(), "... and removes its sockets")
    test.check(replaced.exists(), "... but not what another put there")
    test.check((postern.shared / "state").exists(), "... and leaves the state")
    replaced.unlink()


def mail_server_group(otherwise):
    try:
        return grp.getgrnam("postfix").gr_gid
    except KeyError:
        return otherwise


def ownership(test, postern):
    user = pwd.getpwnam("postern")
    for name, place, mode in (("policy socket", postern.spool / "private/postern", 0o660),
                              ("milter socket", postern.root / "milter", 0o660),
                              ("policy socket that others cannot reach",
                               test.directory / "closed/policy", 0o660),
                              ("control socket", postern.root / "control", 0o660),
                              ("socket with owner, group and mode", postern.root / "own", 0o604)):
        found = place.stat()
        owner, group = 0, user.pw_gid
        if place.name in ("postern", "milter", "policy"):
            group = mail_server_group(group)
        if place.name == "own":
            owner, group = pwd.getpwnam("daemon").pw_uid, grp.getgrnam("mail").gr_gid
        test.check(stat.S_ISSOCK(found.st_mode) and (found.st_uid, found.st_gid) == (owner, group)
                   and stat.S_IMODE(found.st_mode) == mode,
                   f"{name}: {found.st_uid}:{found.st_gid} {stat.S_IMODE(found.st_mode):04o}")
    found = (postern.shared / "state").stat()
    test.equal((found.st_uid, stat.S_IMODE(found.st_mode)), (user.pw_uid, 0o640),
               "the state belongs to the roles' user")
    found, above = postern.shared.stat(), postern.root.stat()
    test.equal((found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)), (user.pw_uid, user.pw_gid, 0o755),
               "its missing directory was made: the roles make files there, and nobody else")
    test.equal((above.st_uid, stat.S_IMODE(above.st_mode)), (0, 0o755),
               "... and the one above, root's alone")


def access_of(pid, name):
    """How it has the files of that name open."""
    return [int(re.search(r"^flags:\s*(\d+)", Path(f"/proc/{pid}/fdinfo/{fd.name}").read_text(), re.M)[1], 8)
            & os.O_ACCMODE for fd in Path(f"/proc/{pid}/fd").iterdir() if os.readlink(fd).endswith(name)]


def privileges(test, postern):
    user = pwd.getpwnam("postern")
    supervisor = postern.status()["pid"]
    test.equal(status_of(supervisor)["Uid"].split(), ["0"] * 4, "the supervisor stays root")
    may_raise = int(status_of(supervisor)["CapEff"], 16) >> 24 & 1   # CAP_SYS_RESOURCE
    most = 65536 if may_raise else open_files_limit(supervisor)[1]
    for role, pid in postern.roles().items():
        status = status_of(pid)
        test.equal((status["Uid"].split(), status["Gid"].split(), status["NoNewPrivs"],
                    int(status["CapEff"], 16), int(status["CapPrm"], 16), status["PPid"]),
                   ([str(user.pw_uid)] * 4, [str(user.pw_gid)] * 4, "1", 0, 0, str(supervisor)),
                   f"{role} runs as {user.pw_name} without a way back")
        test.check(set(status["Groups"].split()) <= {str(user.pw_gid)},
                   f"{role} has no other groups")
        test.equal(status["Name"], "postern-" + role.replace(".", ""),
                   f"{role} has its own name")
        open_files = links(pid)
        test.check(not any("signalfd" in link for link in open_files)
                   and access_of(pid, "state.lock") == [os.O_RDONLY],
                   f"{role} holds its share of the lock, to read")
        test.check(open_files_limit(pid)[0] >= min(65536, most),
                   f"{role} may open {open_files_limit(pid)[0]} files")


def restarts(test, postern):
    supervisor, policy = postern.status()["pid"], addresses(postern)[0]
    for role in sorted(postern.roles()):
        before = postern.roles()
        os.kill(before[role], signal.SIGKILL)
        test.within(1.0, lambda: postern.roles().get(role) not in (None, before[role]),
                    f"{role} killed: it is back")
        after = postern.roles()
        test.check({name: pid for name, pid in after.items() if name != role}
                   == {name: pid for name, pid in before.items() if name != role}
                   and postern.status()["pid"] == supervisor, f"{role} killed: the others go on")
    for role, pid in postern.roles().items():
        if role.startswith("policy"):
            os.kill(pid, signal.SIGKILL)
    test.equal(answer(policy), "action=DUNNO\n\n",
               "all policy processes killed: who asks now waits and is answered")
    test.check(postern.status()["counters"]["role_restarts"] >= len(postern.roles()),
               "restarts are counted")


def apart(test, postern):
    """The supervisor maps no shared memory; no process has the addresses of another."""
    supervisor = postern.status()["pid"]
    maps = {pid: Path(f"/proc/{pid}/maps").read_text().splitlines()
            for pid in (supervisor, *postern.roles().values())}
    shared = [line for line in maps[supervisor] if line.split()[1].endswith("s")]
    test.equal(shared, [], "the supervisor shares no memory with anybody")
    test.check(all("/posternd" in line or "deleted" in line for line in
                   (m[0] for m in maps.values())), "all are posternd")
    begins = [m[0].split("-")[0] for m in maps.values()]
    test.equal(len(set(begins)), len(begins), "each process has addresses of its own")
    wrong = []
    for name, pid in postern.roles().items():
        for fd in Path(f"/proc/{pid}/fd").iterdir():
            target = os.readlink(fd)
            if "memfd:postern-role" in target:
                wrong.append(f"{name}: {target}")
    test.equal(wrong, [], "no role has another's context")


def links_of(pid, supervisor):
    """Numbers of its descriptors that lead to the supervisor, both ways."""
    numbers, pidfd = [], os.pidfd_open(pid)
    for fd in Path(f"/proc/{pid}/fd").iterdir():
        if os.readlink(fd).startswith("socket:"):
            with taken(pidfd, int(fd.name)) as copy:
                if copy.family == socket.AF_UNIX and copy.type != socket.SOCK_DGRAM and \
                        not copy.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) and \
                        struct.unpack("iII", copy.getsockopt(
                            socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0] == supervisor:
                    numbers.append(int(fd.name))
    os.close(pidfd)
    return sorted(numbers)


def taken(pidfd, number):
    """A descriptor of another process, as a socket of ours."""
    copy = ctypes.CDLL(None, use_errno=True).syscall(438, pidfd, number, 0)   # pidfd_getfd
    if copy < 0:
        raise OSError(ctypes.get_errno(), "pidfd_getfd")
    return socket.socket(fileno=copy)


def nonsense_of_the_keeper(test, postern):
    """Over each of its links: the supervisor ends it, or the link, and goes on."""
    supervisor = postern.status()["pid"]
    try:
        count = len(links_of(postern.roles()["keeper.0"], supervisor))
    except (AttributeError, OSError) as error:
        return test.say(f"no other process's descriptors can be had here: {error}")
    test.equal(count, 2, "the keeper has two links to the supervisor")
    for which in range(count):
        keeper, before = postern.roles()["keeper.0"], len(postern.log_text())
        number = links_of(keeper, supervisor)[which]
        pidfd = os.pidfd_open(keeper)
        with taken(pidfd, number) as link:
            kind = link.type
            link.send(b"nonsense\n" * 20)
        os.close(pidfd)

        def noticed(since=before):
            return re.search("event=bad-request from=keeper text=.*", postern.log_text()[since:])

        test.wait_for(noticed, f"nonsense over link {which}, of type {int(kind)}, is logged")
        test.say(noticed()[0])
        # killed, or by itself where only the link was closed
        test.within(5.0, lambda old=keeper: has_begun(postern, "keeper.0", old),
                    "... the keeper ends, and has a successor")
    test.equal(postern.status()["pid"], supervisor, "the supervisor goes on")
    return test.equal(postern.command("reload").returncode, 0, "... and reloads")


def has_begun(postern, name, before):
    """Has it a successor that has had a heartbeat?"""
    row = next(row for row in postern.status()["roles"] if row["role"] == name)
    return row["pid"] not in (None, before) and row["heartbeat_age"] is not None


def lost_generation(test, postern):
    """A role finds its configuration though somebody removed the file."""
    for file in postern.shared.glob("state.config.*"):
        file.unlink()
    before = postern.roles()["policy.1"]
    os.kill(before, signal.SIGKILL)
    test.within(5.0, lambda: "published again" in postern.log_text(),
                "the published configuration was removed: it comes back, and the log says so")
    test.within(5.0, lambda: has_begun(postern, "policy.1", before),
                "... and a role starts with it")
    test.equal(postern.command("reload", json_output=False).returncode, 0, "... and reload works")


def lost_generation_and_keeper(test, postern):
    """The next keeper publishes it, and the supervisor, who obeys roles by its number, hears that."""
    keeper, good = postern.roles()["keeper.0"], postern.file.read_text()
    os.kill(keeper, signal.SIGSTOP)
    for file in postern.shared.glob("state.config.*"):
        file.unlink()
    os.kill(keeper, signal.SIGKILL)
    test.within(5.0, lambda: "role=keeper.0 text=\"publishing again" in postern.log_text(),
                "configuration and keeper are lost: the next keeper publishes it")
    test.within(5.0, lambda: has_begun(postern, "keeper.0", keeper), "... and begins")
    postern.file.write_text(broken(good))
    os.kill(postern.status()["pid"], signal.SIGHUP)
    test.within(3.0, lambda: re.search(r"reload failed.* generation="
                                       f"{postern.status()['generation']} ", postern.log_text()),
                "... and the supervisor knows its number")
    postern.file.write_text(good)


def lost_state(test, postern):
    """The same of the state file: roles share it nevertheless."""
    state, aside = postern.shared / "state", postern.shared / "state.aside"
    before = postern.roles()["policy.1"]

    def shares(pid):
        try:
            return "policy1" in status_of(pid)["Name"] and pid != before and \
                str(aside) in Path(f"/proc/{pid}/maps").read_text()
        except OSError:     # it has ended
            return False

    state.rename(aside)
    os.kill(before, signal.SIGKILL)
    test.within(5.0, lambda: any(shares(int(name)) for name in os.listdir("/proc")
                                 if name.isdigit()),
                "a role starts though the state file was removed, and shares it")
    aside.rename(state)
    test.within(5.0, lambda: has_begun(postern, "policy.1", before),
                "... and is there for posternctl when the file is")


def reads_nothing_of_roles(test, postern):
    """Started where only the text files are left, reloaded, a role lost, stopped: root reads no file
    that roles write."""
    postern.stop()
    (postern.shared / "state").unlink()
    opened = Opened(test, postern.shared)
    postern.start()
    supervisor, keeper = postern.process.pid, postern.roles()["keeper.0"]
    postern.command("reload")
    os.kill(keeper, signal.SIGKILL)
    test.wait_for(lambda: has_begun(postern, "keeper.0", keeper), "the keeper is back")
    postern.stop()
    found = {(number, Path(path).name) for number, path in opened.all()}
    if not opened.possible:
        return test.say("this kernel does not tell what is opened")
    test.check({"state", "state.sessions"} <= {name for _, name in found}, "roles open their files")
    return test.equal({name for number, name in found if number == supervisor}, OPENS,
                      "root opens its locks and, for the roles, the state; no text, no configuration of theirs")


def back_off(test, postern):
    def deaths():
        """How long it had lived each time, and how long it waits then."""
        return [(int(life), int(wait)) for life, wait in re.findall(
            r"event=role-died .*name=milter\.0 .*life_ms=(\d+) restart_in_ms=(\d+)",
            postern.log_text())]

    def quick():                        # a slow machine may kill one too late
        return [wait for life, wait in deaths() if life < 1000]
    for _ in range(15):
        if len(quick()) >= 5:
            break
        test.wait_for(lambda: "milter.0" in postern.roles(), "milter.0 runs", 10)
        seen = len(deaths())
        os.kill(postern.roles()["milter.0"], signal.SIGKILL)
        test.wait_for(lambda: len(deaths()) > seen, "its death")
    waits = quick()
    test.check(len(waits) >= 5 and waits[0] == 0 and waits[-1] >= 400 and waits == sorted(waits),
               f"a role that keeps dying waits longer each time: {waits} ms")
    test.wait_for(lambda: "milter.0" in postern.roles(), "milter.0 runs", 10)


def hangs(test, postern):
    before = postern.roles()
    stopped = {role: before[role] for role in ("policy.0", "keeper.0")}
    for pid in stopped.values():
        os.kill(pid, signal.SIGSTOP)
    start = time.monotonic()
    for role, pid in stopped.items():
        test.within(4.5, lambda: postern.roles().get(role) not in (None, pid),
                    f"{role} stopped: killed and started again")
    test.check(time.monotonic() - start > 2.0, "... not before it was silent for long")
    test.check(all(f"event=role-hung name={role} pid={pid} " in postern.log_text()
                   for role, pid in stopped.items()), "... and logged")
    test.check(all(postern.roles()[role] == pid for role, pid in before.items()
                   if role not in stopped), "... the others go on")


def own_absence(test, postern):
    supervisor, before = postern.status()["pid"], postern.roles()
    hung = postern.log_text().count("event=role-hung")
    everybody = [supervisor, *before.values()]
    for pid in everybody:
        os.kill(pid, signal.SIGSTOP)
    # not waiting for anything: an absence longer than what counts as hung
    end = time.monotonic() + 3.5
    test.poll(lambda: time.monotonic() >= end, 5)
    for pid in everybody:
        os.kill(pid, signal.SIGCONT)
    test.throughout(0.7, lambda: postern.log_text().count("event=role-hung") == hung,
                    "everybody stopped for 3.5 s, as in a suspended machine: nobody is blamed")
    test.equal(postern.roles(), before, "... and nobody killed")


def second_daemon(test, postern):
    supervisor, before = postern.status()["pid"], postern.roles()
    start = time.monotonic()
    done = daemon(postern, "-c", postern.file)
    test.check(done.returncode == 75 and f"pid {supervisor}" in done.stderr
               and time.monotonic() - start < 5,
               f"a second daemon is refused with 75: {done.stderr.strip()}")
    test.equal((postern.roles(), postern.status()["pid"]), (before, supervisor),
               "... and the first goes on")
    closed = test.directory / "closed-state"
    closed.touch()
    file = test.directory / "closed-state.conf"
    file.write_text(postern.file.read_text().replace(f"{postern.shared}/state", f"{closed}/state"))
    done = daemon(postern, "-c", file)
    test.equal(done.returncode, 73, f"a state that has no directory ends it: {done.stderr.strip()}")


def dead_supervisor(test, postern):
    roles = postern.roles()
    generation = postern.status()["generation"]
    postern.kill()
    test.within(1.0, lambda: not any(map(alive, roles.values())),
                "supervisor killed: no role is left behind")
    test.check((postern.root / "control").exists(), "... its sockets lie there dead")
    postern.start()
    test.check(postern.status()["generation"] > generation
               and "origin=adopted" in postern.log_text(), "... the next one adopts the state")
    test.equal([answer(address) for address in addresses(postern)],
               ["action=DUNNO\n\n"] * 3, "... and serves the same sockets")


def fewer_roles(test, postern):
    postern.stop()
    text = postern.file.read_text()
    postern.file.write_text(text.replace("processes = 2", "processes = 1"))
    postern.start()
    test.equal(sorted(role["role"] for role in postern.status()["roles"]),
               ["keeper.0", "milter.0", "milter.1", "policy.0"],
               "started again with fewer roles: the others are forgotten")


def reload(test, postern):
    since = len(postern.log_text())         # others before refused one, too

    def log_has(word):
        return lambda: word in postern.log_text()[since:]

    pid, generation = postern.status()["pid"], postern.status()["generation"]
    good = postern.file.read_text()
    postern.file.write_text(broken(good))
    os.kill(pid, signal.SIGHUP)
    test.within(2.0, log_has("reload failed"), "SIGHUP with a mistake: refused")
    line = broken(good).splitlines().index("no_such_setting = 1;") + 1
    test.check(f"event=config place={postern.file}:{line} " in postern.log_text(),
               "... with its place in the log")
    test.equal(postern.status()["generation"], generation, "... the old generation stays")
    changed = good.replace("policy = { processes = 2; };", "policy = { processes = 3; };")
    postern.file.write_text(changed)
    os.kill(pid, signal.SIGHUP)
    test.within(2.0, lambda: postern.status()["generation"] == generation + 1,
                "SIGHUP with a good file: a new generation")
    test.within(1.0, log_has("event=needs-restart setting=policy.processes"),
                "... and what waits for a restart is named")
    test.within(2.0, lambda: {role["generation"] for role in postern.status()["roles"]
                              if role["pid"]} == {generation + 1}, "... every role takes it up")
    done = postern.command("reload", json_output=False)
    test.check(done.returncode == 0 and "policy.processes" in done.stdout + done.stderr,
               "posternctl reload names it too")
    postern.file.write_text(broken(good))
    done = postern.command("reload", json_output=False)
    test.check(done.returncode == 78 and f"{postern.file}:{line}" in done.stdout + done.stderr,
               "posternctl reload with a mistake: 78, with its place")
    postern.file.write_text(good)


def reloads_follow_each_other(test, postern):
    """A second SIGHUP, while the first one's configuration is still being published."""
    pid, generation = postern.status()["pid"], postern.status()["generation"]
    keeper, refused = postern.roles()["keeper.0"], postern.log_text().count("reload failed")
    os.kill(keeper, signal.SIGSTOP)
    os.kill(pid, signal.SIGHUP)
    test.within(2.0, lambda: sum("memfd:postern-generation" in link for link in links(pid)) == 2,
                "SIGHUP: a configuration waits for the keeper")
    os.kill(pid, signal.SIGHUP)
    test.within(2.0, lambda: not int(status_of(pid)["ShdPnd"], 16) & 1, "another SIGHUP is taken")
    os.kill(keeper, signal.SIGCONT)
    test.within(3.0, lambda: postern.status()["generation"] == generation + 2,
                "... and both are published")
    test.equal(postern.log_text().count("reload failed"), refused, "... none was refused")


def without_root(test, postern):
    uid = pwd.getpwnam("nobody").pw_uid
    place = test.directory / "unprivileged"
    place.mkdir()
    os.chown(place, uid, -1)
    file = place / "postern.conf"
    file.write_text(f'version = 1;\nstate = {{ path = "{place}/run/state"; }};\n'
                    f'journal = {{ path = "{place}/journal"; }};\n'
                    f'listen = {{ policy = "unix:{place}/p"; milter = [ ];\n'
                    f'  control = "unix:{place}/c"; }};\n'
                    'classes = ( { name = "all"; match = [ "*" ]; refuse_at = 5; } );\n')
    process = test.spawn([postern.build / "posternd", "-f", "-c", file], "unprivileged",
                         user=uid)
    log = test.logs / "unprivileged"
    test.wait_for(lambda: "event=started" in log.read_text() or process.poll() is not None,
                  "it starts as another user")
    test.equal(answer(str(place / "p")), "action=DUNNO\n\n", "without root: it serves")
    test.equal({status_of(pid)["Uid"].split()[0] for pid in processes(process.pid)}, {str(uid)},
               "... as who it is")
    test.equal(log.read_text().count("not started as root"), 1, "... and says so once")
    process.terminate()
    test.equal(process.wait(10), 0, "... and stops with 0")


def notification(test, postern):
    path = test.directory / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(path))
        manager.settimeout(10)
        other = subprocess.Popen(["unshare", "--net", "sleep", "60"])
        test.at_end(other.kill)
        test.wait_for(lambda: os.readlink(f"/proc/{other.pid}/ns/net")
                      != os.readlink("/proc/self/ns/net"), "another network namespace")
        postern.configure([], lambda text: text
                          + f'\nwitness = {{ netns = [ "/proc/{other.pid}/ns/net" ]; }};\n')
        process = test.spawn([postern.build / "posternd", "-f", "-c", postern.file], "notify",
                             env={**os.environ, "NOTIFY_SOCKET": str(path),
                                  "WATCHDOG_USEC": "500000"})
        heard = {manager.recv(4096)}
        while heard != {b"READY=1", b"WATCHDOG=1"} and heard <= {b"READY=1", b"WATCHDOG=1"}:
            heard.add(manager.recv(4096))
        test.equal(heard, {b"READY=1", b"WATCHDOG=1"},
                   "the service manager hears of the start, and gets signs of life")
        test.check("event=witness" not in (test.logs / "notify").read_text(),
                   "netlink sockets of two namespaces are open")
        with open(f"/proc/{other.pid}/net/netlink") as table:
            rows = [line.split() for line in list(table)[1:]]
            test.equal(sum(row[1] == "4" and row[2] != "0" for row in rows),
                       len(processes(parent=process.pid)), "... one of each role in the other")
        test.equal({os.readlink(f"/proc/{pid}/ns/net")
                    for pid in [process.pid, *processes(process.pid)]},
                   {os.readlink("/proc/self/ns/net")}, "... and nobody stayed there")
        process.terminate()
        process.wait(10)
        got = b""
        while not got.startswith(b"STOPPING=1"):
            got = manager.recv(4096)
        test.check(True, "... and of the stop")


def without_a_mail_server(test, postern):
    """As shipped, where Postfix's queue directory does not exist."""
    (postern.spool / "private").rmdir()
    postern.spool.rmdir()
    postern.start()
    text = postern.file.read_text().splitlines()
    for name in ("postern", "postern-milter"):
        path = f"unix:{postern.spool}/private/{name}"
        line = next(n for n, one in enumerate(text, 1) if f'"{path}"' in one)
        test.check(f"{postern.file}:{line}: listener {path} is disabled" in postern.log_text(),
                   f"without Postfix: {name} is left out, and its line is named")
    test.poll(lambda: len(postern.roles()) == 4, 5)
    test.equal(sorted(postern.roles()), ["keeper.0", "milter.0", "policy.0", "policy.1"],
               "... and what there is a socket for runs: the milter, and the socket map's roles")
    with socket.socket(socket.AF_UNIX) as sendmail:
        sendmail.connect(str(postern.root / "milter"))
    test.equal(postern.command("reload").returncode, 0, "... and a reload changes nothing of it")
    test.check(not postern.spool.exists(), "... nor is the directory made")
    postern.stop()


def everything_set(test, text, root):
    """Sockets of every kind, one with owner, group and mode."""
    closed = test.directory / "closed"
    closed.mkdir(mode=0o710)
    own = (f'{{ address = "unix:{root}/own"; owner = "daemon"; group = "mail"; '
           'mode = "0604"; }')
    start = text.index("policy =")
    first, last = text.index("[", start), text.index("]", start)
    inet = f'"inet:127.0.0.1:10040", "inet6:[::1]:10040", "unix:{closed}/policy"'
    text = f"{text[:first]}({text[first + 1:last]}, {own}, {inet}){text[last + 1:]}"
    return text + "policy = { processes = 2; };\n"


def body(test):
    test.deaths_expected = True
    exit_codes(test, Postern(test, name="codes"))
    refused_starts(test, Postern(test, name="refused"))
    directory_of_root(test)
    without_the_default_user(test, Postern(test, name="nobody"))
    background(test, Postern(test, ['{ name = "unbound"; match = "a.example"; }'],
                             name="background"))
    notification(test, Postern(test, name="notified"))
    without_a_mail_server(test, Postern(test, name="alone"))
    root = test.directory / "postern"
    postern = Postern(test, [one_class("all", 5)],
                      edit=lambda text: everything_set(test, text, root))
    postern.start()
    ownership(test, postern)
    privileges(test, postern)
    restarts(test, postern)
    apart(test, postern)
    nonsense_of_the_keeper(test, postern)
    lost_generation(test, postern)
    lost_generation_and_keeper(test, postern)
    lost_state(test, postern)
    back_off(test, postern)
    hangs(test, postern)
    own_absence(test, postern)
    second_daemon(test, postern)
    dead_supervisor(test, postern)
    reload(test, postern)
    reloads_follow_each_other(test, postern)
    fewer_roles(test, postern)
    reads_nothing_of_roles(test, postern)
    without_root(test, postern)


if __name__ == "__main__":
    main(body)
