# SPDX-License-Identifier: ISC
"""Mail servers on machines of a cluster whose outgoing mail their Postern holds: a Postfix by
lanes, a Sendmail by its questions, each in the namespace of its node.  Servers that take their
mail stand on more addresses of the test's own end of the bridge."""
import ctypes
import os
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor

from lib import dns
from lib.cluster_postfix import PostfixThere
from lib.outbound import MAIN, REMOTE
from lib.postern import build_directory, substitute
from lib.postfix import conf_hints
from lib.sendmail import Sendmail

PORT = 2025


def add_addresses(network, addresses):
    network.batch([f"addr add {address}/24 dev br0" for address in addresses])


def names_inside(network, name):
    """A name server that knows of no exchangers, in that namespace: addresses are in
    /etc/hosts."""
    failed = []

    def run():
        file = os.open(f"/run/netns/{name}", os.O_RDONLY)
        if ctypes.CDLL(None, use_errno=True).setns(file, 0x40000000) != 0:
            failed.append(ctypes.get_errno())
            return
        dns.serve({})
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert not failed, os.strerror(failed[0])


def state(node, name):
    """What posternctl destinations shows of one; {}: nothing."""
    rows = [row for row in node.ask("destinations") if row["name"] == name]
    return rows[0] if rows else {}


def outgoing(text, mta, settings):
    text = substitute(text, r"^outbound *= .*?;\s*};", "outbound = { observe = false; };")
    return text + f"mta = ( {{ name = \"out\"; ports = [ {REMOTE} ]; {mta} }} );\n{settings}"


class LeavingPostfix:
    def __init__(self, cluster, node, settings=""):
        self.test, self.network, self.node = cluster.test, cluster.network, node
        self.hints = f"{node.shared}/state.hints"
        self.lookup = build_directory() / "postern-lookup"
        self.site_file = self.test.directory / "site" / node.name
        services = [f"{PORT} inet n - n - - smtpd\n", "smtp unix - - y - - smtp\n",
                    conf_hints(self.lookup, self.hints, "out", f"postfix-{node.name}",
                               self.site_file)]
        self.postfix = PostfixThere(self.test, self.network, node, services, MAIN)
        self.postfix.log.touch()
        node.more = lambda text: outgoing(
            text, f'kind = "postfix"; config_directory = "{self.postfix.etc}"; '
            f'log = "{self.postfix.log}"; syslog_name = "postfix-{node.name}"; '
            f'site = "{self.site_file}";', settings)
        node.kinds = node.kinds | {"feed"}
        node.write()

    def start(self):
        self.postfix.start(PORT)
        self.node.ask("postfix-lanes", "out")

    def send(self, domain, count, user="u"):
        self.network.run(self.node.name, "smtp-source", "-m", count, "-s", min(count, 20),
                         "-l", 300, "-f", "sender@example.com", *(["-N"] if count > 1 else []),
                         "-t", f"{user}@{domain}", f"127.0.0.1:{PORT}")

    def push(self):
        pass

    def lookup_says(self, address):
        key = f"transport {address}"
        done = subprocess.run([self.lookup, self.hints, "out", self.site_file], text=True,
                              input=f"{len(key)}:{key},", capture_output=True)
        return done.stdout.partition(":")[2][:-1].strip()

    def tried(self, domain):
        return sum(f"@{domain}>" in line and "/smtp[" in line
                   for line in self.postfix.log_text().splitlines())


class SendmailThere(Sendmail):
    def __init__(self, test, network, node):
        super().__init__(test, PORT, name=f"sendmail-{node.name}", socketmap=node.root / "map",
                         outbound=REMOTE)
        self.network, self.there = network, node.name

    def spawn(self, *words):
        return self.test.spawn(
            [*self.network.inside(self.there), "env", f"LD_LIBRARY_PATH={self.library}",
             self.binary, "-C", self.cf, *words], self.name,
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"})

    def submit(self, recipient):
        self.network.run(self.there, "env", f"LD_LIBRARY_PATH={self.library}", self.binary,
                         "-C", self.cf, "-odq", "-oi", "-f", "sender@example.com", recipient,
                         input="Subject: hello\n\nhello\n")


class LeavingSendmail:
    """Its results are not read: what it knows of destinations the others told it."""

    def __init__(self, cluster, node, settings=""):
        self.test, self.node, self.runs = cluster.test, node, []
        names_inside(cluster.network, node.name)
        self.sendmail = SendmailThere(self.test, cluster.network, node)
        node.more = lambda text: outgoing(text, 'kind = "sendmail";', settings)
        node.write()

    def start(self):
        pass

    def send(self, domain, count, user="u"):
        for number in range(count):
            self.sendmail.submit(f"{number}{user}@{domain}")

    def push(self, processes=3):
        """Queue runs, as long as there is mail."""
        self.runs = [run for run in self.runs if run.poll() is None]
        while self.sendmail.queued() > 0 and len(self.runs) < processes:
            self.runs.append(self.sendmail.queue_run())

    def run_once(self):
        run = self.sendmail.queue_run()
        self.test.wait_for(lambda: run.poll() is not None, "a queue run ends")


def leave_from(cluster, kinds, settings=""):
    """`kinds`: of the first nodes, each in turn.  All started."""
    with ThreadPoolExecutor() as pool:
        found = list(pool.map(lambda kind, node: kind(cluster, node, settings), kinds,
                              cluster.all()))
        cluster.start()
        list(pool.map(lambda one: one.start(), found))
    for node in cluster.all():
        cluster.test.wait_for(lambda node=node: node.cluster_row()["state"] == "joined",
                              f"{node.name} has joined")
    return found
