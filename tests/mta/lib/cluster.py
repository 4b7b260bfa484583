# SPDX-License-Identifier: ISC
"""Many machines on one: namespaces on a bridge, a real Redis in one of them, and nodes, each
with a posternd in a namespace of its own.

The test's own namespace is on the bridge, too, and holds the clients.  What goes wrong is
done there: packets that are dropped, processes that are stopped or killed."""
import os
import signal
import subprocess
import threading
import time

from lib.postern import Postern, build_directory, one_class, substitute
from lib.resp import Client
from lib.testing import SOURCE, Failed, Skipped, alive, processes

NET = "10.77.0."
HERE = f"{NET}254"
REDIS, PORT = f"{NET}9", 6379
USER, PASSWORD, ADMIN = "postern", "seven-little-ducks", "only-the-test"
PREFIX = "postern:"
CLASS = "all"
# Lease of the tests, in seconds, and by how much Redis holds a grant for longer.
LEASE = 2
DRIFT = LEASE / 10 + 0.05
ORPHAN = 1              # seconds that a session lives whose policy connection died with its role


class Network:
    """`names`: name -> address of each namespace."""

    def __init__(self, test, names):
        self.test, self.names = test, dict(names)
        test.need("nft")
        if b"EVALSHA" not in (build_directory() / "posternd").read_bytes():
            raise Skipped("posternd was built without the cluster")
        lines = ["link add name br0 type bridge", f"addr add {HERE}/24 dev br0",
                 "link set br0 up"]
        for name, address in self.names.items():
            test.run([test.need("ip"), "netns", "add", name])
            lines += [f"link add name to-{name} type veth peer name eth0 netns {name}",
                      f"link set to-{name} master br0 up"]
        self.batch(lines)
        for name, address in self.names.items():
            self.batch(["link set lo up", f"addr add {address}/24 dev eth0", "link set eth0 up"],
                       "-n", name)

    def batch(self, lines, *where):
        self.test.run([self.test.need("ip"), *where, "-batch", "-"], input="\n".join(lines) + "\n")

    @staticmethod
    def inside(name):
        """Words before a command: it is run there, as the same process."""
        return ["nsenter", f"--net=/run/netns/{name}", "--"]

    def run(self, name, *words, **more):
        return self.test.run([*self.inside(name), *words], **more)

    def cut(self, name, other=REDIS):
        """Packets between them are dropped there, without a word to either."""
        self.run(name, "nft", "-f", "-", input="table ip cut {\n" + "".join(
            f"chain {hook} {{\ntype filter hook {hook} priority 0\nip {end} {other} drop\n}}\n"
            for hook, end in (("input", "saddr"), ("output", "daddr"))) + "}\n")

    def mend(self, name):
        self.run(name, "nft", "delete", "table", "ip", "cut")


def rights(user=USER, prefix=PREFIX):
    """The line of users.acl, as it is shipped."""
    lines = (SOURCE / "conf/redis-postern.conf").read_text().splitlines()
    line, = (line for line in lines if line.startswith("user postern "))
    return line.replace("user postern ", f"user {user} ").replace(">PASSWORD", f">{PASSWORD}") \
        .replace("postern:*", f"{prefix}*")


def find_server(test):
    """redis-server; redis-tools has the same program by another name, without a service."""
    try:
        return test.need("redis-server")
    except Skipped:
        link = test.directory / "redis-server"
        if not link.is_symlink():
            link.symlink_to(test.need("redis-check-rdb"))
        return link


class Redis:
    """redis-server of the distribution, in the namespace `redis`: over TCP, and by a socket.
    Its data are written as they change; `user` may do what the guide gives it, the test all."""

    def __init__(self, test, network, name="redis", address=REDIS, port=PORT, acl=None):
        self.test, self.network, self.name = test, network, name
        self.program = find_server(test)
        self.address, self.port = address, port
        self.root = test.directory / name
        self.root.mkdir()
        self.socket = self.root / "socket"
        self.acl = acl or rights()
        self.file = self.root / "redis.conf"
        self.file.write_text(
            f"bind {address} 127.0.0.1\nport {port}\nunixsocket {self.socket}\nunixsocketperm 777\n"
            f"protected-mode no\ndaemonize no\ndir {self.root}\nsave \"\"\nappendonly yes\n"
            f"appendfsync always\naclfile {self.root}/users.acl\nenable-debug-command local\n")
        (self.root / "users.acl").write_text(
            f"user default off\nuser test on >{ADMIN} ~* &* +@all\n{self.acl}\n")
        self.process = None
        self.slowness = None

    def start(self):
        self.process = self.test.spawn([*self.network.inside(self.name), self.program, self.file],
                                       self.name)
        self.test.wait_for(self.is_up, "Redis answers")

    def is_up(self):
        if self.process.poll() is not None:
            raise Failed("redis-server ended: " + (self.test.logs / self.name).read_text()[-500:])
        try:
            self.ask("PING")
            return True
        except (OSError, Exception):
            return False

    def client(self):
        return Client((self.address, self.port), "test", ADMIN)

    def ask(self, *words):
        client = self.client()
        try:
            return client.ask(*words)
        finally:
            client.close()

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(10)

    def restart(self, data=True):
        """Killed and started at once, with what it had, or with nothing."""
        self.kill()
        if not data:
            for file in self.root.glob("appendonlydir/*"):
                file.unlink()
        self.start()

    def stop(self):
        """It is there, and does nothing."""
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self):
        self.process.send_signal(signal.SIGCONT)

    def slow(self, seconds=0.15):
        """From now on each answer takes up to so long."""
        over = threading.Event()

        def run():
            while not over.is_set():
                self.stop()
                over.wait(seconds)
                self.go_on()
                over.wait(0.01)
        self.slowness = over, threading.Thread(target=run, daemon=True)
        self.slowness[1].start()

    def fast(self):
        self.slowness[0].set()
        self.slowness[1].join()
        self.go_on()

    def commands(self):
        """command -> calls, since the start."""
        found = {}
        for line in self.ask("INFO", "commandstats").decode().splitlines():
            if line.startswith("cmdstat_"):
                name, _, rest = line.removeprefix("cmdstat_").partition(":")
                found[name] = int(rest.split(",")[0].removeprefix("calls="))
        return found


def cluster_block(test, node, redis=f"inet:{REDIS}:{PORT}", nodes=3, lease=LEASE, more="",
                  called=None, user=USER, password=PASSWORD, prefix=PREFIX):
    """The text of the configuration's block.  The password's file is the test's; `called`:
    another name for the node."""
    file = test.directory / f"{node}-password"
    file.write_text(password + "\n")
    file.chmod(0o600)
    return (f'cluster = {{ redis = "{redis}"; user = "{user}"; password_file = "{file}";\n'
            f'  node = "{called or node}"; nodes = {nodes}; prefix = "{prefix}";\n'
            f'  lease = "{lease}s"; {more} }};\n')


def cluster_class(limit, name=CLASS, more="", **where):
    return one_class(name, limit, more=f'scope = "cluster"; {more}', **where)


class Node(Postern):
    """posternd of a machine; clients ask it at self.policy, and hold a session as long as
    their connection.  `limit`: of the class for all nodes, which is for these `ports`;
    `block`: cluster_block()'s."""

    def __init__(self, test, network, name, limit=30, ports=(2025,), edit=None, **block):
        self.network, self.limit, self.ports, self.block = network, limit, ports, block
        self.more = edit
        self.clustered = True
        super().__init__(test, name=name, edit=self.change,
                         spool=test.directory / f"spool-{name}")
        self.environment = network.inside(name)
        self.policy = self.root / "policy"
        self.stopped = []

    def change(self, text):
        text = substitute(text, r"policy *= *\[ *(\"[^\"]*\") *\];",
                          f'policy = ( {{ address = "unix:{self.root}/policy"; session_proof = "owner"; }}'
                          f',\n    "unix:{self.spool}/private/postern" );')
        text = substitute(text, r"^classes *= *\(.*\);\s*\Z",
                          f"classes = (\n{self.class_text()} );\n")
        text = substitute(text, r"^version = 1;", "version = 1;\n" + self.cluster_text()
                          + f'lease = {{ owner = "1h"; orphan = "{ORPHAN}s"; }};')
        return self.more(text) if self.more else text

    def class_text(self):
        text = cluster_class(self.limit, ports=self.ports)
        return text if self.clustered else text.replace('scope = "cluster"; ', "")

    def cluster_text(self):
        return cluster_block(self.test, self.name, **self.block) if self.clustered else ""

    def write(self, limit=None, **block):
        """Another configuration, for the next start or reload."""
        self.limit = limit or self.limit
        self.block.update(block)
        self.configure((), self.change)

    def pids(self):
        """The supervisor first."""
        return [self.process.pid, *processes(self.process.pid)]

    def freeze(self):
        """The whole machine, as a hypervisor does it."""
        self.stopped = self.pids()
        for pid in self.stopped:
            os.kill(pid, signal.SIGSTOP)

    def thaw(self):
        for pid in reversed(self.stopped):
            if alive(pid):
                os.kill(pid, signal.SIGCONT)
        self.stopped = []

    def kill(self):
        """All of it at once; what its memory held stays."""
        pids = self.pids()
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:  # it died with the first
                pass
        self.process.wait(10)
        self.test.wait_for(lambda: not any(alive(pid) for pid in pids), f"{self.name} is dead")

    def lose(self):
        """The machine is gone, and its memory with it."""
        self.kill()
        subprocess.run(["rm", "-rf", self.root, self.journal], check=True)

    def open_here(self):
        return self.open(CLASS)

    def cluster_row(self):
        return self.ask("cluster")


class Cluster:
    """A Redis and its nodes, all running."""

    def __init__(self, test, names=("mx1", "mx2", "mx3"), limit=30, start=True, **block):
        self.test = test
        addresses = {name: f"{NET}{number}" for number, name in enumerate(names, 1)}
        self.network = Network(test, {**addresses, "redis": REDIS})
        self.redis = Redis(test, self.network)
        self.nodes = {name: Node(test, self.network, name, limit, **block) for name in names}
        if start:
            self.start()

    def start(self):
        self.redis.start()
        for node in self.nodes.values():
            node.start(wait=False)
        for node in self.nodes.values():
            self.test.wait_for(node.ready, f"{node.name} is ready")

    def all(self):
        return list(self.nodes.values())


def sleep_until(when):
    """Part of an order of events that has times; never in place of a condition."""
    time.sleep(max(0.0, when - time.monotonic()))
