# SPDX-License-Identifier: ISC
"""Several machines as an admin finds them: Postern installed in its usual places on each, and
a Redis on another.  Each has a network, a name, and /etc, /run and /var parts of its own."""
import json
import shutil
import subprocess
from pathlib import Path

from lib.cluster import Network, find_server
from lib.machine import Machine

OWN = ("/etc/postern", "/etc/redis", "/run/postern", "/var/lib/postern", "/var/lib/redis",
       "/var/log/redis", "/root")


class Host:
    """A machine of that name."""

    def __init__(self, test, network, name):
        self.test, self.name = test, name
        self.root = test.directory / f"host-{name}"
        mounts = []
        for place in OWN:
            there = self.root / place[1:]
            there.mkdir(parents=True)
            Path(place).mkdir(parents=True, exist_ok=True)
            if place.startswith("/etc/"):
                test.run(["cp", "-a", f"{place}/.", there])
            elif place.endswith("/postern"):
                shutil.chown(there, "postern", "postern")
            mounts.append(f"mount --bind {there} {place}")
        self.holder = test.spawn(
            [*network.inside(name), "unshare", "--mount", "--uts", "sh", "-c",
             " && ".join([f"hostname {name}", *mounts, f"touch {self.root}/up",
                          "exec sleep infinity"])], f"host-{name}")
        test.wait_for((self.root / "up").exists, f"{name} is up")
        self.words = ["nsenter", "-t", str(self.holder.pid), "--net", "--mount", "--uts",
                      "--root", "--wd", "--"]
        self.service = None

    def file(self, path):
        """Where a file of this machine is, for those outside."""
        return self.root / str(path)[1:]

    def asked(self, *words):
        """What posternctl --json says there, or None."""
        done = subprocess.run([*self.words, "posternctl", "--json", *words], text=True,
                              capture_output=True)
        return json.loads(done.stdout) if done.returncode == 0 else None

    def begin(self):
        self.service = self.test.spawn([*self.words, "posternd", "-f"], f"posternd-{self.name}")
        self.test.wait_for(self.is_up, f"posternd of {self.name} is ready")

    def stop(self):
        if self.service is not None:
            self.service.terminate()
            self.service.wait(15)
            self.service = None

    def restart(self):
        self.stop()
        self.begin()

    def is_up(self):
        status = self.asked("status")
        return status is not None and all(
            role["pid"] and role["heartbeat_age"] is not None for role in status["roles"])


class RedisHost(Host):
    """The service redis-server of its package."""

    def __init__(self, test, network, name):
        super().__init__(test, network, name)
        self.program = find_server(test)
        conf = self.file("/etc/redis/redis.conf")
        if not conf.exists():           # redis-tools alone brings none
            conf.write_text("bind 127.0.0.1 -::1\nport 6379\ndir /var/lib/redis\n")

    def begin(self):
        self.service = self.test.spawn(
            [*self.words, self.program, "/etc/redis/redis.conf", "--daemonize", "no",
             "--logfile", "", "--supervised", "no"], self.name)

    def is_up(self):
        return self.service is not None and self.service.poll() is None


class Machines(Machine):
    """`addresses`: of the hosts; that of the name `redis` has Redis."""

    def __init__(self, test, addresses):
        super().__init__(test)
        network = Network(test, addresses)
        self.hosts = {name: (RedisHost if name == "redis" else Host)(test, network, name)
                      for name in addresses}
