# SPDX-License-Identifier: ISC
"""A Postfix that sends, and is not attached to Postern yet."""
import json
import os
import shutil
import subprocess

from lib.outbound import Outbound
from lib.postern import one_class
from lib.testing import SOURCE, mount
from lib.tree import tree

PORT = 25


class Plain(Outbound):
    """Not attached yet."""

    def services(self):
        return [line.replace(" unix - - y", " unix - - n") for line in self.plain]

    def setup(self, *words):
        """Exit code, and what it told as JSON."""
        done = subprocess.run(
            [SOURCE / "contrib/postern-postfix-setup", "-c", self.postfix.etc, "--json", "--store",
             self.test.directory / "store", "--postern-conf", self.postern.file, "--posternctl",
             self.postern.build / "posternctl", *words], text=True, capture_output=True, timeout=60)
        return done.returncode, json.loads(done.stdout) if done.stdout else done.stderr

    def lines_of(self, address, text):
        return sum(f"{address}>" in line and text in line
                   for line in self.postfix.log_text().splitlines())


def lookup_in_place(test, site):
    """The lines name the place that make install would use."""
    place = test.directory / "sbin"
    place.mkdir()
    shutil.copy(site.lookup, place)
    mount("--bind", place, "/usr/local/sbin")


def site_with_lanes(test):
    """After postern-postfix-setup make --lanes; and what its directory held before."""
    site = Plain(test, PORT, [one_class("all", 1000)])
    lookup_in_place(test, site)
    os.utime(site.postfix.etc / "master.cf", ns=(10**18, 10**18 + 5))
    before = tree(site.postfix.etc)
    with site.postfix.renewed():
        code, told = site.setup("make", "--lanes", "--no-inbound")
        found = site.postern.ask("postfix-lanes", "out")
    test.equal((code, told["result"] if code == 0 else told), (0, "made"), "make --lanes")
    test.equal((found["attached"], {row["used"] for row in found["lanes"]}), ("yes", {True}),
               "when it has ended Postfix has all lanes")
    return site, before
