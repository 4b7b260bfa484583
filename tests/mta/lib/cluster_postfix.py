# SPDX-License-Identifier: ISC
"""A Postfix on a machine of a cluster: in the namespace of its node."""
import shutil
from concurrent.futures import ThreadPoolExecutor

from lib.postfix import Postfix


class PostfixThere(Postfix):
    """Make it before its node starts, which puts its sockets into the spool."""

    def __init__(self, test, network, node, services, main=""):
        shutil.chown(node.spool / "private", "postfix")
        super().__init__(test, services, name=node.name, main=main, spool=node.spool,
                         root=test.directory / f"postfix-{node.name}")
        self.network, self.there = network, node.name

    def start(self, *ports):
        self.network.run(self.there, "postfix", "-c", self.etc, "start")
        self.test.at_end(self.stop)
        for port in ports:
            self.test.wait_for(lambda: self.listens(port),
                               f"Postfix of {self.there} listens on port {port}")

    def listens(self, port):
        table = self.network.run(self.there, "cat", "/proc/net/tcp")
        return any(line.split()[1].endswith(f":{port:04X}") and line.split()[3] == "0A"
                   for line in table.splitlines()[1:])


def postfix_on_each(cluster, services, *ports, main=""):
    """Made, their nodes started, and they, too."""
    with ThreadPoolExecutor() as pool:
        found = list(pool.map(lambda node: PostfixThere(
            cluster.test, cluster.network, node, services, main), cluster.all()))
        cluster.start()
        list(pool.map(lambda one: one.start(*ports), found))
    return found
