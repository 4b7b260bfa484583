# SPDX-License-Identifier: ISC
"""A redis-server on a socket of this host, for a posternd that is alone in its cluster."""
from lib.cluster import find_server
from lib.postern import build_directory
from lib.testing import Skipped

LEASE = 2               # seconds: the shortest


class NearRedis:
    """`socket` is None where the build or the machine cannot: then there is no cluster."""

    def __init__(self, test):
        self.process = self.socket = None
        try:
            program = find_server(test)
        except Skipped as why:
            test.say(f"{why}: without a cluster")
            return
        if b"EVALSHA" not in (build_directory() / "posternd").read_bytes():
            test.say("posternd was built without the cluster: without a cluster")
            return
        root = test.directory / "redis"
        root.mkdir()
        self.socket = root / "socket"
        self.process = test.spawn([program, "--port", "0", "--unixsocket", self.socket,
                                   "--unixsocketperm", "777", "--dir", root, "--save", ""],
                                  "redis")

    def block(self, node="mx1", nodes=2):
        """The configuration's group."""
        return self.socket and (f'cluster = {{ redis = "unix:{self.socket}"; node = "{node}"; '
                                f'nodes = {nodes}; lease = "{LEASE}s"; }};\n') or ""

    def kill(self):
        self.process.kill()
        self.process.wait(10)
