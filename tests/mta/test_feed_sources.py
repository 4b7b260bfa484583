#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""What real Postfix and Sendmail log comes by each source: files, datagrams, standard
input, the event socket; and other mail servers' events."""
import ctypes
import json
import os
import signal
import socket
import struct
import subprocess
import time

from lib import dns
from lib.postern import Postern, one_class
from lib.postfix import Postfix
from lib.sendmail import Sendmail, find_root
from lib.sink import Sink
from lib.smtp import Session
from lib.testing import main

REMOTE, PORT, SENDMAIL_PORT = 2500, 2025, 2026
HOSTS = {"192.0.2.11": "mx.remote.example"}
MAIN = f"""relay_domains =
mynetworks = 127.0.0.0/8
transport_maps = inline:{{ {{ * = smtp:[mx.remote.example]:{REMOTE} }} }}
"""


class Site:
    def __init__(self, test):
        self.test, self.count = test, 0
        self.sink = Sink(test, HOSTS, REMOTE)
        dns.serve({})
        self.postfix = Postfix(test, [f"{PORT} inet n - n - - smtpd\n"], main=MAIN)
        self.postern = Postern(test, [one_class("others", 100)], edit=self.edit)
        self.postern.kinds = self.postern.kinds | {"feed"}
        self.postern.start()
        self.postfix.start(PORT)
        self.sendmail = Sendmail(test, SENDMAIL_PORT, outbound=REMOTE)
        self.sendmail.start()
        self.seen_lines = 0

    def edit(self, text):
        """Only Sendmail's log is followed; Postfix's lines come by the other sources."""
        text = text.replace("listen = {", "listen = {\n"
                            f'\tsyslog = [ "unix:{self.test.directory}/postern/log",\n'
                            '\t\t"inet:127.0.0.1:5140", "inet6:[::1]:5140" ];\n'
                            f'\tevents = "unix:{self.test.directory}/postern/events";', 1)
        return text + (
            f'mta = ( {{ name = "a"; log = ""; syslog_name = "postfix-A"; ports = [ {REMOTE} ]; }},\n'
            f'{{ name = "s"; kind = "sendmail"; log = "{self.test.logs}/syslog";\n'
            f'  ports = [ {REMOTE} ]; }} );\n')

    def destinations(self):
        return {row["name"]: row for row in self.postern.ask("destinations", "--relays")}

    def counter(self, name):
        return self.postern.status()["counters"][name]

    def new_lines(self):
        """What Postfix logged for one message to a domain that nobody has seen."""
        self.count += 1
        domain = f"d{self.count}.example"
        before = len(self.postfix.log_text())

        def logged():
            """The client may have left after it was delivered."""
            text = self.postfix.log_text()[before:]
            return all(part in text for part in (f"<u@{domain}>, relay=", ": removed\n",
                                                 ": disconnect from ")) and text.endswith("\n")
        self.postfix.send(PORT, domain)
        self.test.wait_for(logged, f"mail to {domain} is delivered and logged")
        return domain, self.postfix.log_text()[before:].splitlines()

    def counters(self, *names):
        """As they are when the feed has done what it is about, its counting included."""
        Events(self).tell()
        return tuple(self.counter(name) for name in names)

    def arrives(self, domain, what):
        self.test.within(5, lambda: self.destinations().get(domain, {}).get("relays") ==
                         "192.0.2.11", what)


def sendmail_file(test, site):
    session = Session(("127.0.0.1", SENDMAIL_PORT))
    test.equal(session.send(["u@mx.remote.example"])[0], 250, "Sendmail takes mail")
    session.quit()
    site.sendmail.queue_run().wait(20)
    test.within(5, lambda: site.destinations().get("mx.remote.example", {}).get("ok") == 1,
                "Sendmail's log, a file that others write, too")


def datagrams(test, site):
    for family, address in ((socket.AF_UNIX, str(site.postern.root / "log")),
                            (socket.AF_INET, ("127.0.0.1", 5140)),
                            (socket.AF_INET6, ("::1", 5140))):
        domain, lines = site.new_lines()
        with socket.socket(family, socket.SOCK_DGRAM) as sender:
            for line in lines:
                sender.sendto(b"<22>" + line.encode() + b"\n", address)
        site.arrives(domain, f"datagrams to {address}")


def rfc5424(test, site):
    domain, lines = site.new_lines()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        for line in lines:
            head, _, message = line.partition("]: ")
            name, _, pid = head.split()[-1].partition("[")
            sender.sendto(f'<22>1 2026-11-21T05:48:22.5Z mx {name} {pid} - [x y="z"] {message}'
                          .encode(), str(site.postern.root / "log"))
    site.arrives(domain, "datagrams of RFC 5424")


def while_it_is_away(test, site):
    """The sockets outlive the feed, and what was dealt with is known to its successor."""
    domain, lines = site.new_lines()
    deliveries, repeated = site.counters("feed_deliveries", "results_repeated")
    pid = site.postern.roles()["feed.0"]
    os.kill(pid, signal.SIGSTOP)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        for line in lines:
            sender.sendto(f"<22>{line}".encode(), ("127.0.0.1", 5140))
    os.kill(pid, signal.SIGKILL)
    site.arrives(domain, "datagrams that came while no feed ran")
    test.equal(site.counters("feed_deliveries", "results_repeated"), (deliveries + 1, repeated),
               "once")


def repeated_datagram(test, site):
    """Written twice it counts twice, also where the second one is the first that the next
    feed meets."""
    deliveries, = site.counters("feed_deliveries")
    line = (b"<22>Nov 21 05:48:22 mx postfix-A/smtp[7]: 5C1E9A7E2B8: to=<u@rep.example>, "
            b"relay=mx[192.0.2.11]:2500, delay=1, dsn=2.0.0, status=sent (ok)")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.sendto(line, ("127.0.0.1", 5140))
        test.within(5, lambda: site.counter("feed_deliveries") == deliveries + 1, "a datagram")
        os.kill(site.postern.roles()["feed.0"], signal.SIGKILL)
        sender.sendto(line, ("127.0.0.1", 5140))
    test.within(5, lambda: site.counter("feed_deliveries") == deliveries + 2,
                "and the same again, after the feed was killed")


def bad_datagrams(test, site):
    bad = site.counter("feed_bad_events")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.connect(str(site.postern.root / "log"))
        for datagram in (b"<999>x", b"", b"<22>1 x", b"<22>a\nb", b"\0" * 60000, b"x" * 60000):
            sender.send(datagram)
    test.within(5, lambda: site.counter("feed_bad_events") >= bad + 5, "bad datagrams are counted")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.sendto(b"y" * 65000, ("127.0.0.1", 5140))
    domain, lines = site.new_lines()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        for line in lines:
            sender.sendto(line.encode(), str(site.postern.root / "log"))
    site.arrives(domain, "and the next ones are read")


def standard_input(test, site):
    domain, lines = site.new_lines()

    def feed(text, *words):
        return subprocess.run([site.postern.build / "posternctl", "-c", site.postern.file,
                               "--json", "inject", *words], input=text, text=True,
                              capture_output=True, timeout=20)
    done = feed("\n".join(lines), "--mta", "a")
    test.equal((done.returncode, json.loads(done.stdout)),
               (0, {"lines": len(lines), "errors": 0}), "posternctl inject: standard input")
    site.arrives(domain, "posternctl inject: its lines")
    done = feed("x\n" * 3, "--mta", "b")
    test.equal(done.returncode, 65, "a mail server that there is not")
    test.check("line 3: the configuration has no mail server with this name" in done.stderr,
               f"is told: {done.stderr}")
    done = feed("x" * 1000000 + "\n\0\0\n" + "y\n")
    test.equal((done.returncode, done.stderr.strip()), (65, "posternctl: line 1: the line is too long"),
               "a line of a megabyte")
    test.equal(feed("delivery status=sent domain=a.example\n", "--events").returncode, 0,
               "lines of events")
    done = feed("sync\ndelivery status=sent domain=a.example\nsource x 7\nsync\r\nsynch\nsource",
                "--events")
    test.equal((done.returncode, done.stderr.strip(), json.loads(done.stdout)),
               (65, "posternctl: line 5: unknown kind of line", {"lines": 6, "errors": 1}),
               "sync and source of the input do not make posternctl inject wait for ever")
    test.equal(feed("", "--events", "--mta", "a").returncode, 64, "these name their own")


def hung_up_on(test, site):
    """As when the daemon has policy.connections of them."""
    path = str(site.postern.root / "no-daemon")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(64)
        feeder = subprocess.Popen([site.postern.build / "posternctl", "-c", site.postern.file,
                                   "-s", f"unix:{path}", "inject", "--events"],
                                  stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        feeder.stdin.write("delivery status=sent domain=a.example\n")
        feeder.stdin.flush()
        listener.settimeout(0.5)
        connections = 0
        while feeder.poll() is None:
            try:
                listener.accept()[0].close()
                connections += 1
            except TimeoutError:
                pass
        test.equal(feeder.returncode, 69, "posternctl inject gives up a daemon that hangs up on it")
        test.check(connections < 200, f"which it did not call all the time: {connections}")


def killed_in_the_middle(test, site):
    """What the feed had not dealt with is sent again, and counts once."""
    lines = [f"delivery status=sent domain=big{n % 7}.example id=b{n} relay=mx "
             f"address=192.0.2.11 port={REMOTE}" for n in range(30000)]
    sender = subprocess.Popen([site.postern.build / "posternctl", "-c", site.postern.file,
                               "--json", "inject", "--events"], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True)
    for start in range(0, len(lines), 6000):
        sender.stdin.write("\n".join(lines[start:start + 6000]) + "\n")
        sender.stdin.flush()
        pid = site.postern.roles().get("feed.0")
        if pid:
            os.kill(pid, signal.SIGKILL)
    output = sender.communicate(timeout=30)[0]
    test.equal((sender.returncode, json.loads(output)), (0, {"lines": 30000, "errors": 0}),
               "posternctl inject outlives the feed")
    counts = {row["name"]: row["ok"] for row in site.postern.ask("destinations", "--relays")
              if row["name"].startswith("big")}
    wanted = {f"big{n}.example": sum(1 for i in range(30000) if i % 7 == n) for n in range(7)}
    test.equal(counts, wanted, "each delivery counts once")


class Events:
    def __init__(self, site):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(10)
        self.socket.connect(str(site.postern.root / "events"))
        self.answers = self.socket.makefile()

    def tell(self, *lines):
        """Sends them; returns the answers, the last one that of sync."""
        self.socket.sendall("".join(f"{line}\n" for line in [*lines, "sync"]).encode())
        told = []
        while not told or not told[-1].startswith("ok "):
            told.append(self.answers.readline().rstrip("\n"))
        return told


def other_servers(test, site):
    events = Events(site)
    relay = f"relay=mx.e.example address=192.0.2.11 port={REMOTE}"
    test.equal(events.tell(f"delivery status=sent recipient=u@e1.example {relay}",
                           "# nothing", ""), ["ok 3 0"], "a delivery")
    site.arrives("e1.example", "a delivery of another mail server")
    test.equal(events.tell(*[f"delivery status=deferred recipient=u@e2.example id=q{n} {relay} "
                             "reply=connection%20refused phase=connect" for n in range(9)]),
               ["ok 12 0"], "deliveries that failed")
    row = site.postern.ask("destinations", "e2.example")[0]
    test.equal((row["state"], row["reason"]), ("dead", "connection refused"),
               "a destination that refuses is suspended")
    told = events.tell("deliver", "delivery status=sent", f"delivery status=lost {relay}",
                       "x" * 100000)
    test.equal(told, ["error 13 0 unknown kind of line",
                      "error 14 0 a recipient with a domain, or a domain, is required",
                      "error 15 16 is not sent, deferred, bounced or expired",
                      "error 16 65664 the line is too long", "ok 16 4"], "mistakes are told")
    told = events.tell(*["?"] * 200)
    test.equal((len(told), told[-1]), (97, "ok 216 204"), "but not all of them")


def sessions(test, site):
    first, second = Events(site), Events(site)
    session = "client=203.0.113.5 client_port=4000 server=192.0.2.1 server_port=25"
    test.equal(first.tell(f"open {session} name=client.example.net"), ["ok 1 0"], "a session")
    rows = [row for row in site.postern.sessions() if row["client"] == "203.0.113.5"]
    test.equal([row["direction"] for row in rows], ["inbound"], "a session that is told is counted")
    first.socket.close()
    first.answers.close()
    test.equal(second.tell(f"close {session}"), ["ok 1 0"], "its end, by another connection")
    test.within(3, lambda: not [row for row in site.postern.sessions()
                                if row["client"] == "203.0.113.5"], "ends it")


def ends_in_a_log(test, site):
    """smtpd's word, with the client's port, is a hint; others' lines are none."""
    events = Events(site)
    session = "client=203.0.113.6 client_port=4001 server=192.0.2.1 server_port=25"

    def open_ones():
        return [row for row in site.postern.sessions() if row["client"] == "203.0.113.6"]
    events.tell(f"open {session}")
    date = time.strftime("%b %e %H:%M:%S")
    for program, client in (("postfix-A/smtpd", "203.0.113.6]"),
                            ("postfix-A/smtpd", "203.0.113.6]:4002"),
                            ("other/smtpd", "203.0.113.6]:4001")):
        events.tell(f"log a {date} mx {program}[7]: disconnect from unknown[{client} "
                    "quit=1 commands=1")
    test.equal(len(open_ones()), 1, "what names another session, or none, ends none")
    events.tell(f"log a {date} mx postfix-A/smtpd[7]: disconnect from "
                "unknown[203.0.113.6]:4001 quit=1 commands=1")
    test.within(3, lambda: not open_ones(), "what the log tells of an end")


def ends_of_links(pid, supervisor):
    """The role's sockets whose other end is the supervisor's."""
    libc, pidfd = ctypes.CDLL(None, use_errno=True), os.pidfd_open(pid)
    for number in map(int, os.listdir(f"/proc/{pid}/fd")):
        fd = libc.syscall(438, pidfd, number, 0)        # pidfd_getfd
        if fd < 0:
            continue
        try:
            one = socket.socket(fileno=fd)
        except OSError:
            os.close(fd)
            continue
        if one.family == socket.AF_UNIX and \
                not one.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) and \
                struct.unpack("iII", one.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED,
                                                    12))[0] == supervisor:
            yield one
        else:
            one.close()
    os.close(pidfd)


def lost_links(test, site):
    """A role that can ask the supervisor nothing any more is not left so."""
    status = site.postern.status()
    for role, count in (("keeper.0", 2), ("feed.0", 1)):
        for number in range(count):
            pid = site.postern.roles()[role]
            links = list(ends_of_links(pid, status["pid"]))
            test.equal(len(links), count, f"links of {role}")
            links[number].shutdown(socket.SHUT_RDWR)
            for link in links:
                link.close()
            test.within(5, lambda: site.postern.roles().get(role) not in (None, 0, pid),
                        f"{role} without its link {number} ends, and is started again")
            test.wait_for(site.postern.ready, "and serves")
    test.equal(site.postern.command("reload").returncode, 0, "reload works by the new links")


def body(test):
    site = Site(test)
    test.deaths_expected = True
    sendmail_file(test, site)
    datagrams(test, site)
    rfc5424(test, site)
    while_it_is_away(test, site)
    repeated_datagram(test, site)
    bad_datagrams(test, site)
    standard_input(test, site)
    hung_up_on(test, site)
    other_servers(test, site)
    sessions(test, site)
    ends_in_a_log(test, site)
    lost_links(test, site)
    killed_in_the_middle(test, site)


main(body, hosts=HOSTS, addresses=list(HOSTS), before=find_root)
