#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""The control socket: its protocol, permissions, and clients that break it."""
import contextlib
import grp
import os
import pwd
import re
import signal
import socket
import stat
import struct
import subprocess
import sys
import threading
import time

from lib.control import Client, as_user, frame
from lib.executed import Opened
from lib.postern import Postern, one_class
from lib.testing import main


MOST = 256              # connections at a time


def keeper_that_lies(listener, path):
    """Answers reload, and names this file as its state."""
    hello = ("protocol=1", "build=test")
    while True:
        client = listener.accept()[0]
        with client:
            asked = client.recv(4096)
            row = frame(*hello, "row=1", f"state={path}") if b"command=ping" in asked else b""
            client.sendall(row + frame(*(() if row else hello), "end=1", "exit=0", "generation=7"))


def named_by_a_keeper(test):
    """Root's posternctl opens the state of the configuration, not any file that a role names."""
    postern = Postern(test, [], name="lied")
    postern.root.mkdir()
    secret = test.directory / "secret/of-root"
    secret.parent.mkdir()
    secret.write_text("x" * 8192)
    opened = Opened(test, secret.parent)
    if not opened.possible:
        return test.say("this kernel does not tell what is opened")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(postern.root / "control"))
    listener.listen()
    threading.Thread(target=keeper_that_lies, args=(listener, secret), daemon=True).start()
    done = postern.command("reload")
    test.check(done.returncode == 0 and '"generation": 7' in done.stdout,
               "a keeper that names a file of root's as its state: reload succeeds")
    test.equal(opened.all(), set(), "... and the file was not opened")
    subprocess.run(["cat", secret], stdout=subprocess.DEVNULL, check=True)
    return test.wait_for(lambda: opened.all() != set(), "... which would have been noticed")


def talk(test, postern):
    client = Client(postern)
    hello = client.next()
    test.equal((hello["protocol"], "build" in hello), ("1", True), "the daemon greets first")
    _, end = client.ask("protocol=1", "build=test", "command=ping")
    test.equal(end["exit"], "0", "ping")
    rows, end = client.ask("command=explain session", "address=192.0.2.7", "name=a.example",
                           "port=2525", "unknown=key")
    test.equal(end["exit"], "0", "a second request on the same connection; unknown keys")
    row = rows[0]
    test.equal((row["class"], row["verdict"], row["reason"], row["open"], row["refuse_at"]),
               ("limited", "admit", "below-limit", "0", "2"), "explain session answers")
    test.equal((row["rule"], row["file"], row["line"].isdigit()),
               ("*", str(postern.file), True), "with the rule and where it stands")
    for lines, wanted in (
            (["command=explain session"], "64"),
            (["command=explain session", "address=1.2.3"], "64"),
            (["command=explain session", "address=192.0.2.1", "port=70000"], "64"),
            (["command=explain session", "address=192.0.2.1", f"name={'x' * 300}"], "64"),
            (["command=status"], "64"), (["command=no such"], "64")):
        _, end = client.ask(*lines)
        test.equal(end["exit"], wanted, f"{lines[0]} {lines[1:]}: refused with a reason "
                   f"({end.get('error')})"[:110])
    client.send(frame("command=ping") * 20)
    test.equal([client.answer()[1]["exit"] for _ in range(20)], ["0"] * 20, "20 in one piece")
    for byte in frame("command=ping"):
        client.send(bytes([byte]))
    test.equal(client.answer()[1]["exit"], "0", "one byte at a time")


def reloads(test, postern):
    clients = [Client(postern) for _ in range(10)]
    before = postern.status()["counters"]["reloads"]
    for client in clients:
        client.send(frame("command=reload") + frame("command=ping"))
    gone = clients.pop(4)                         # it does not wait for its answer
    gone.socket.close()
    answers = [client.answer()[1] for client in clients]
    test.equal([one["exit"] for one in answers], ["0"] * 9, "ten reloads at once")
    numbers = [int(one["generation"]) for one in answers]
    test.check(len(set(numbers)) == 9, "each has the answer to its own")
    test.equal([client.answer()[1]["exit"] for client in clients], ["0"] * 9,
               "what came behind is answered after")
    test.wait_for(lambda: postern.status()["counters"]["reloads"] == before + 10, "ten are done")
    text = postern.file.read_text()
    postern.file.write_text(text + "nonsense = 1;\n")
    rows, end = Client(postern).ask("protocol=1", "command=reload")
    test.equal(end["exit"], "78", "a bad file is refused")
    test.check(any("nonsense" in row["text"] for row in rows), "and the mistake is named")
    postern.file.write_text(text)


READERS, WRITERS = "games", "users"     # groups that every system has


def groups(test, postern):
    """A socket with read_group and write_group: the kernel tells who asks."""
    readers, writers = (grp.getgrnam(name).gr_gid for name in (READERS, WRITERS))
    ping, explain, reload = (frame("protocol=1", f"command={words}") for words in (
        "ping", "explain session\naddress=192.0.2.1", "reload"))
    many = [*range(70000, 70100)]

    def says(data, *more):
        return as_user(postern, "nobody", data, more, "control10")
    test.equal(stat.S_IMODE(os.stat(postern.root / "control10").st_mode), 0o666,
               "groups: everybody may connect")
    for words, more in (("in neither group", ()), ("in many other groups", many)):
        said = says(ping, *more)
        test.check("exit=77" in said and f"{READERS} (read_group)" in said and
                   f"{WRITERS} (write_group)" in said, f"{words}: refused, and told who may")
    test.check("exit=0" in says(explain, readers), "read_group: may ask")
    said = says(reload, readers)
    test.check("exit=77" in said and f"group {WRITERS} (write_group)" in said and
               READERS not in said, "... not act, and is told who may")
    for more in ((writers,), (*many, writers)):
        test.check("exit=0" in says(explain, *more) and "exit=0" in says(reload, *more),
                   f"write_group: may ask and act (one of {len(more)} groups)")
    test.check("exit=77" in as_user(postern, "nobody", reload, (writers,)),
               "a socket without groups knows none")
    state = os.stat(postern.shared / "state")
    test.equal((state.st_gid, stat.S_IMODE(state.st_mode)), (readers, 0o640),
               "the state file is the readers' to read")

    def status(*more):
        user = pwd.getpwnam("nobody")
        return subprocess.run([postern.build / "posternctl", "-c", postern.file, "status"],
                              user=user.pw_uid, group=user.pw_gid, extra_groups=more,
                              capture_output=True, text=True, timeout=20)
    test.equal(status(readers).returncode, 0, "read_group: status")
    done = status()
    test.check(done.returncode == 77 and f"group {READERS}" in done.stderr,
               f"others: refused, and told who may: {done.stderr.strip()}")


def a_role_orders_nothing(test, postern):
    """The roles' own user, as which code in a compromised role asks: never an operator."""
    user = pwd.getpwnam("postern")
    writers = grp.getgrnam(WRITERS).gr_gid
    reload = frame("protocol=1", "command=reload")
    before = postern.status()["counters"]["reloads"]
    for place, more in (("control", ()), ("control", (user.pw_gid,)), ("control10", (writers,))):
        said = as_user(postern, "postern", reload, more, place)
        test.check("exit=77" in said, f"a role's user, {place}, groups {more}: reload is refused")
    said = as_user(postern, "postern", frame("protocol=1", "command=suspend",
                                             "destination=d.example"))
    test.check("exit=77" in said, "... so is suspend")
    test.check("exit=0" in as_user(postern, "postern", frame("protocol=1", "command=ping")),
               "... it may ask, as the socket's permissions say")
    test.equal(postern.status()["counters"]["reloads"], before, "nothing was reloaded")
    test.wait_for(lambda: f"from=control uid={user.pw_uid} command=reload action=refuse"
                  in postern.log_text(), "the log names the user and what was refused")


def permissions(test, postern):
    os.chmod(postern.root / "control", 0o666)
    os.chmod(postern.root, 0o755)
    said = as_user(postern, "nobody", frame("protocol=1", "command=reload"))
    test.check("exit=77" in said, "nobody may not reload")
    said = as_user(postern, "nobody", frame("protocol=1", "command=explain session",
                                            "address=192.0.2.1"))
    test.check("exit=0" in said, "but ask")


def bad_frames(test, postern):
    def bad():
        return postern.status()["counters"]["bad_control_frames"]
    cases = {"no number": b"GET / HTTP/1.0\r\n\r\n", "a length of 0": b"0\n",
             "a length too long": b"65537\n", "a leading zero": b"012\ncommand=ping",
             "a line without =": frame(b"command\n"), "a bad key": frame(b"Com mand=x\n"),
             "a bad escape": frame(b"command=\\q\n"), "a control character": frame(b"a=\x07\n"),
             "an unfinished line": frame(b"command=ping"), "zero bytes": b"\0" * 64,
             "more than a request may have": b"60000\n" + b"a=" + b"x" * 9000}
    for name, data in cases.items():
        before, client = bad(), Client(postern)
        client.next()
        client.send(data)
        _, end = client.answer()
        test.check(end is not None and end["exit"] == "76" and end["error"] != "" and
                   client.next() is None and bad() == before + 1,
                   f"{name}: an error, counted, hung up")
    client = Client(postern)
    _, end = client.ask("protocol=2", "command=ping")
    test.equal((end["exit"], client.next()), ("76", None), "another protocol is told so")


def sockets(pid):
    """How many it has; files that it keeps open come when they are needed."""
    found = 0
    for name in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):
            found += os.readlink(f"/proc/{pid}/fd/{name}").startswith("socket:")
    return found


def many(test, postern):
    keeper = postern.roles()["keeper.0"]
    before = sockets(keeper)
    clients = [Client(postern) for _ in range(MOST)]
    test.equal([client.next()["protocol"] for client in clients], ["1"] * MOST,
               f"{MOST} connections")
    clients[0].ask("command=ping")
    test.equal(Client(postern).ask("command=ping")[1]["exit"], "0", "one more is served")
    test.check(clients[1].next() is None, "... for the one that was idle longest")
    test.equal(clients[0].ask("command=ping")[1]["exit"], "0", "... not for the oldest")
    clients[1] = Client(postern)
    test.check(as_user(postern, "nobody", frame("command=ping")) == "",
               "who may less than all of them is not let in")
    clients.pop().socket.close()
    test.wait_for(lambda: as_user(postern, "nobody", frame("command=ping")) != "",
                  "there is room again")
    for client in clients:
        client.socket.close()
    test.wait_for(lambda: sockets(keeper) <= before, "all descriptors are given back")


CROWD = """
import os, socket, sys
os.setgroups([]); os.setgid(int(sys.argv[2])); os.setuid(int(sys.argv[3]))
crowd = [socket.socket(socket.AF_UNIX) for _ in range(256)]
for s in crowd: s.connect(sys.argv[1])
for s in crowd: s.recv(1)
print("there", flush=True)
sys.stdin.read()
"""


def strangers(test, postern):
    """They hold all connections that there are; the operator comes all the same."""
    user = pwd.getpwnam("nobody")
    keeper = postern.roles()["keeper.0"]
    before = sockets(keeper)
    crowd = subprocess.Popen([sys.executable, "-c", CROWD, str(postern.root / "control"),
                              str(user.pw_gid), str(user.pw_uid)],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    test.at_end(crowd.kill)
    test.equal(crowd.stdout.readline(), b"there\n", "strangers take every connection")
    _, end = Client(postern).ask("protocol=1", "command=reload")
    test.equal(end and end["exit"], "0", "... and root's reload gets through")
    crowd.stdin.close()
    crowd.wait(10)
    test.wait_for(lambda: as_user(postern, "nobody", frame("command=ping")) != "",
                  "there is room again")
    test.wait_for(lambda: sockets(keeper) <= before, "all descriptors are given back")


def a_storm_of_reloads(test, postern):
    """They never end, and yet the supervisor looks after its roles."""
    clients = [Client(postern) for _ in range(20)]
    for client in clients:
        client.send(frame("command=reload") * 400)
    policy = postern.roles()["policy.0"]
    before = postern.status()["counters"]["reloads"]
    os.kill(policy, signal.SIGKILL)
    test.within(1.0, lambda: postern.roles().get("policy.0") not in (None, policy),
                "while reload follows reload a dead role is started again")
    test.check(postern.status()["counters"]["reloads"] - before < 7000, "... before the last")
    for client in clients:
        client.socket.close()
    test.wait_for(lambda: Client(postern).ask("command=ping")[1], "the storm is over")


def cpu_ticks(pid):
    with open(f"/proc/{pid}/stat") as stat:
        fields = stat.read().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


LIMIT = """
import os, resource, sys
pid, soft, gid, uid = map(int, sys.argv[1:])
os.setgroups([]); os.setresgid(gid, gid, gid); os.setresuid(uid, uid, uid)
old = resource.prlimit(pid, resource.RLIMIT_NOFILE)
resource.prlimit(pid, resource.RLIMIT_NOFILE, (soft, old[1]))
print(old[0])
"""


def lowest_free(pid):
    """The next descriptor that it would get."""
    taken = set(map(int, os.listdir(f"/proc/{pid}/fd")))
    return next(n for n in range(len(taken) + 1) if n not in taken)


def no_descriptors(test, postern):
    """The keeper may open no more files: it waits for better times, and does not spin."""
    keeper = postern.roles()["keeper.0"]
    free = []                           # what it saves each second has one for a moment
    test.poll(lambda: free.append(lowest_free(keeper)), 0.5)

    def limit(soft):
        """As its own user, who may: returns the limit before."""
        user = pwd.getpwnam("postern")
        return int(test.run([sys.executable, "-c", LIMIT, keeper, soft, user.pw_gid,
                             user.pw_uid]))

    before = limit(min(free))
    client = Client(postern)
    test.wait_for(lambda: "from=control text=\"cannot accept" in postern.log_text(),
                  "it is logged that nobody can be let in")
    begun, ticks = time.monotonic(), cpu_ticks(keeper)
    test.poll(lambda: time.monotonic() - begun >= 1.5, 5)
    used = (cpu_ticks(keeper) - ticks) / os.sysconf("SC_CLK_TCK")
    test.check(used < 0.5, f"... without spinning ({used:.2f} s of CPU in 1.5 s)")
    limit(before)
    test.equal(client.ask("protocol=1", "command=ping")[1]["exit"], "0",
               "... and who waited is answered when there are descriptors again")


def never_reads(test, postern):
    """A client that asks and does not read costs nobody else, and no memory."""
    client = Client(postern)
    client.socket.setblocking(False)
    request = frame("command=explain session", "address=192.0.2.1")
    sent = 0
    end = time.monotonic() + 2
    while time.monotonic() < end:
        try:
            sent += client.socket.send(request * 100)
        except BlockingIOError:
            break
    keeper = postern.roles()["keeper.0"]
    with open(f"/proc/{keeper}/status") as status:
        resident = next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))
    test.check(resident < 100000, f"{sent} bytes asked, none read: the keeper has {resident} kB")
    test.equal(Client(postern).ask("protocol=1", "command=ping")[1]["exit"], "0",
               "others are answered")
    # half closed: answered, then closed
    client = Client(postern)
    client.send(frame("command=ping"))
    client.socket.shutdown(socket.SHUT_WR)
    test.equal(client.answer()[1]["exit"], "0", "a half-closed connection is answered")
    test.check(client.next() is None, "and closed")
    # reset in the middle of a request
    client = Client(postern)
    client.send(b"30\ncomm")
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.socket.close()
    test.equal(Client(postern).ask("protocol=1", "command=ping")[1]["exit"], "0",
               "and the next is served")


def many_control_sockets(text):
    """Ten; the first in its place."""
    found = re.search(r'control = "unix:(.*)/control";', text)
    more = [f'"unix:{found[1]}/control{number}"' for number in range(2, 10)]
    more.append(f'{{ address = "unix:{found[1]}/control10"; read_group = "{READERS}"; '
                f'write_group = "{WRITERS}"; }}')
    return text.replace(found[0], f'control = ( "unix:{found[1]}/control", {", ".join(more)} );')


def body(test):
    named_by_a_keeper(test)
    test.deaths_expected = True         # of policy.0, by our hand
    postern = Postern(test, [one_class("limited", 2, [2525])],
                      edit=many_control_sockets)
    postern.start()
    keeper = postern.roles()["keeper.0"]
    talk(test, postern)
    test.equal(Client(postern, "control10").ask("command=ping")[1]["exit"], "0",
               "the last of ten control sockets is served, too")
    reloads(test, postern)
    a_role_orders_nothing(test, postern)
    permissions(test, postern)
    groups(test, postern)
    bad_frames(test, postern)
    many(test, postern)
    strangers(test, postern)
    no_descriptors(test, postern)
    a_storm_of_reloads(test, postern)
    never_reads(test, postern)
    test.equal(postern.roles()["keeper.0"], keeper, "the keeper lived through all of it")


main(body)
