#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""Somebody with three machines and a Redis does what contrib/guides/many-machines.md says,
command by command, and reads what it shows.  Leases are shorter than there."""
import re
import shutil
import subprocess

from lib.cluster import LEASE, NET, REDIS
from lib.document import Reader, guide
from lib.machines import Machines
from lib.testing import SOURCE, main

GUIDE = SOURCE / "contrib/guides/many-machines.md"
EXAMPLES = "/usr/local/share/doc/postern/examples"
ADDRESSES = {**{f"mx{number}": f"{NET}{number}" for number in (1, 2, 3)}, "redis": REDIS}


class World(Machines):
    def __init__(self, test):
        super().__init__(test, ADDRESSES)
        self.states = iter(("joined", "without"))

    def copy_example(self, host):
        self.test.run([*host.words, "cp", f"{EXAMPLES}/redis-postern.conf",
                       self.hosts["redis"].file("/root/")])

    def copy_password(self, host, name="postern-password"):
        shutil.copy(self.hosts["redis"].file(f"/root/{name}"),
                    host.file("/etc/postern/redis-password"))

    def copy_new_password(self, host):
        self.copy_password(host, "postern-password.new")

    def example_is_elsewhere(self):
        """Or was not copied: the rest of the step, typed all the same, makes no open Redis."""
        redis = self.hosts["redis"]
        for step in guide(GUIDE):
            if re.search(r"\bsed \"|include", step.command):
                subprocess.run([*redis.words, "sh", "-c", step.command.replace(EXAMPLES, "/none")],
                               capture_output=True)
        self.test.check("redis-postern.conf" not in redis.file("/etc/redis/redis.conf").read_text(),
                        "without the example nothing is included")
        self.test.check(not redis.file("/etc/redis/redis-postern.conf").exists(),
                        "and no empty file made")

    def restart(self, host):
        conf = host.file("/etc/postern/postern.conf")
        if host.name != "redis":
            conf.write_text(conf.read_text().replace(
                "nodes = 3;", f'nodes = 3; lease = "{LEASE}s";'))
        host.restart()

    def fares(self, host):
        """As the guide says at this place."""
        state = next(self.states, "joined")

        def so():
            row = host.asked("cluster")
            return row["state"] == state and (state != "joined" or (
                [node["alive"] for node in row["nodes"]] == [True] * 3))
        self.test.wait_for(so, f"{host.name}: the cluster's state is {state}", limit=15)

    def heard(self, host):
        def so():
            rows = host.asked("destinations", "d.example")
            return rows and rows[0]["state"] != "open"
        self.test.wait_for(so, f"{host.name} hears of it")

    def locked(self, host):
        """Redis is up, and lets nobody in without a name."""
        self.test.wait_for(lambda: "NOAUTH" in subprocess.run(
            [*host.words, "redis-cli", "ping"], text=True, capture_output=True).stdout,
                           "Redis asks who it is")

    def alive(self):
        row = self.hosts["mx1"].asked("cluster")
        return {node["node"]: node["alive"] for node in row["nodes"]} \
            if row["state"] == "joined" else {}

    def all_back(self, _):
        self.test.wait_for(lambda: list(self.alive().values()) == [True] * 3,
                           "all three have joined again", limit=15)

    def left(self, _):
        self.test.wait_for(lambda: self.alive().get("mx3") is False, "mx3's lease has ended",
                           limit=15)


def body(test):
    world = World(test)
    world.example_is_elsewhere()
    stands_in = ((r"apt-get ", "there is no network", None),
                 (r"scp /usr/", "there is no ssh", world.copy_example),
                 (r"scp \S*\.new ", "there is no ssh", world.copy_new_password),
                 (r"scp ", "there is no ssh", world.copy_password),
                 (r"chgrp redis ", "the package may not be there", None),
                 (r"systemctl restart ", "no systemd here", world.restart),
                 (r"systemctl start ", "no systemd here", lambda host: host.begin()),
                 (r"systemctl stop ", "no systemd here", lambda host: host.stop()))
    before = ((r"posternctl cluster$", world.fares), (r"posternctl destinations", world.heard),
              (r"REDISCLI_AUTH=", world.locked), (r"systemctl stop posternd", world.all_back),
              (r"posternctl cluster forget", world.left))
    Reader(test, stands_in, before, hosts=world.hosts).follow(GUIDE)
    refused = {host.name: host.asked("cluster")["errors"]["password"] for host in
               (world.hosts["mx1"], world.hosts["mx2"])}
    test.equal(refused, {"mx1": 0, "mx2": 0}, "no machine was refused while the password changed")


main(body, seconds=80)
