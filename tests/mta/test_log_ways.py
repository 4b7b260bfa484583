#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""The ways a mail log comes to Postern, with the lines of contrib/guides/other-setups.md: a file
that Debian's rsyslog writes as it is shipped, with ISO dates; rsyslog and journald without a
file; postlogd's file.  Where nothing comes, each place that an admin looks at says so."""
import re
import shutil
from pathlib import Path

from lib.document import blocks
from lib.journald import SOCKET, Journald
from lib.postern import Postern, one_class, substitute
from lib.postfix import Postfix
from lib.sink import Sink
from lib.testing import SOURCE, Skipped, main, mount

REMOTE, PORT = 25, 2025
HOSTS = {"192.0.2.11": "mx.remote.example"}
HERE = "192.0.2.12"
OTHER = 2500            # on 25 this host's own clients would come, too
MAIN = f"""inet_interfaces = 127.0.0.1
smtp_bind_address = {HERE}
smtp_connection_cache_on_demand = no
initial_destination_concurrency = 20
relay_domains =
mynetworks = 127.0.0.0/8
transport_maps = inline:{{ {{ many.example = smtp:[mx.remote.example]:{OTHER} }},
    {{ * = smtp:[mx.remote.example]:{REMOTE} }} }}
syslog_name = postfix
maillog_file =
maillog_file_prefixes = /var
"""
GUIDE = SOURCE / "contrib/guides/other-setups.md"
RSYSLOG = Path("/etc/rsyslog.d/postern.conf")
SILENT = 30             # sessions: after 20 no line is one too few (view/status_mtas.c)
ISO = re.compile(r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}\.[0-9]{6}[+-][0-9:]{5} \S+ postfix/smtp")


def from_guide(words):
    """Its blocks that have these words, in their order."""
    return ["\n".join(lines) + "\n" for _, lines, _ in blocks(GUIDE.read_text()) if words in "\n".join(lines)]


class Site:
    def __init__(self, test):
        self.test, self.count, self.more = test, 0, ""
        mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", "/var/log")
        Path("/dev/log").unlink()
        self.postfix = Postfix(test, [f"{PORT} inet n - n - - smtpd\n"], main=MAIN)
        self.postfix.log = Path("/var/log/mail.log")
        self.postern = Postern(test, [one_class("all", 100)], edit=self.edit)
        self.postern.kinds = self.postern.kinds | {"feed"}

    def edit(self, text):
        """`more`: what the guide has for postern.conf."""
        text = substitute(text, r"^witness *= .*?;\s*};", "") if "\nwitness" in text else text
        syslog = re.search(r"syslog = \[.*?\];", self.more)
        if syslog:
            text = substitute(text, r"^listen *= *\{", f"listen = {{ {syslog[0]}")
        return text + re.sub(r"^listen = .*", "", self.more, flags=re.MULTILINE)

    def begin(self, more):
        """Postern anew, with these settings and nothing learned."""
        if self.postern.process:
            self.postern.stop()
        shutil.rmtree(self.postern.shared, ignore_errors=True)
        shutil.rmtree(self.postern.journal, ignore_errors=True)
        self.more = more.replace("/run/postern/", f"{self.postern.root}/")
        self.postern.configure([one_class("all", 100)], self.edit)
        self.postern.start()

    def arrives(self, what):
        """Mail to a domain that nobody has seen is learned from."""
        self.count += 1
        domain = f"d{self.count}.example"
        self.postfix.send(PORT, domain)
        self.test.within(10, lambda: any(row["name"] == domain and row["ok"] == 1 for row in
                                         self.postern.ask("destinations", "--relays")), what)
        return domain


def start_rsyslog(test):
    if not shutil.which("rsyslogd"):
        raise Skipped("no rsyslogd is installed")
    process = test.spawn(["rsyslogd", "-n", "-f", "/etc/rsyslog.conf", "-i", "/run/rsyslogd.pid"],
                         "rsyslogd")
    test.wait_for(Path("/dev/log").is_socket, "rsyslogd listens")
    return process


def end_rsyslog(process):
    process.terminate()
    process.wait(10)
    Path("/dev/log").unlink(missing_ok=True)


def silent(test, site):
    """A log that is not there, and one that the mail server does not write to."""
    site.begin('mta = ( { name = "out"; log = "/var/log/elsewhere.log"; } );\n')
    said = "out: no deliveries are read: the log does not exist"
    explained = site.postern.ask("explain", "destination", "d.example")["note"] or ""
    test.check(explained.startswith(said), f"explain says that no log is there ({explained})")
    note = site.postern.status()["mtas"][0]["note"]
    test.equal(explained, f"out: {note}", "status says the same")
    told = site.postern.command("check", json_output=False).stdout
    test.check("/var/log/elsewhere.log does not exist" in told, "check says it, too")


def written_by_rsyslog(test, site):
    rsyslog = start_rsyslog(test)
    site.postfix.start(PORT)
    test.wait_for(site.postfix.log.exists, "the log is there")
    site.begin('mta = ( { name = "out"; } );\n')
    domain = site.arrives("a file that rsyslog writes as Debian ships it")
    line = next(line for line in site.postfix.log_text().splitlines() if f"@{domain}>" in line and
                "status=sent" in line)
    test.check(ISO.match(line), f"its dates are ISO dates ({line[:60]})")
    test.equal(site.postern.ask("explain", "destination", domain)["note"], None, "nothing to note")
    end_rsyslog(rsyslog)


def forwarded_by_rsyslog(test, site):
    block, = from_guide("omuxsock")
    RSYSLOG.parent.mkdir(exist_ok=True)
    (test.directory / "rsyslog.d").mkdir()
    mount("--bind", test.directory / "rsyslog.d", RSYSLOG.parent)
    RSYSLOG.write_text(block.replace("/run/postern/", f"{site.postern.root}/"))
    site.begin(from_guide("/run/postern/log\" ]")[0])
    rsyslog = start_rsyslog(test)
    site.arrives("rsyslog forwards lines")
    test.equal(site.postern.status()["counters"]["feed_bad_events"], 0, "each of them is read")
    end_rsyslog(rsyslog)


def forwarded_by_journald(test, site):
    block, = from_guide("ForwardToSyslog")
    Journald(test, block.replace("[Journal]\n", "Storage=none\n"))
    site.begin(from_guide("journal/syslog\" ]")[0])
    Path("/dev/log").symlink_to(SOCKET)
    site.arrives("journald forwards lines")
    Path("/dev/log").unlink()


def written_by_postlogd(test, site):
    setting, block = from_guide("/var/log/postfix.log")
    site.postfix.stop()
    site.postfix.set(MAIN.replace("maillog_file =\n", setting))
    site.postfix.log = Path("/var/log/postfix.log")
    site.postfix.start(PORT)
    site.begin(block)
    site.arrives("a file that postlogd writes")


def written_elsewhere(test, site, sink):
    """Connections are seen, and no line of what became of them."""
    Path("/var/log/elsewhere.log").touch()
    site.begin('mta = ( { name = "out"; log = "/var/log/elsewhere.log";'
               f"ports = [ {OTHER} ]; }} );\n")
    test.equal(site.postern.ask("explain", "destination", "d.example")["note"], None,
               "nothing is wrong with a log that is new")
    sink.delay = 2.0            # until they are seen
    site.postfix.send(PORT, "many.example", SILENT)
    said = "out: no deliveries are read: no log line came, although there were sessions"
    test.within(10, lambda: (site.postern.ask("explain", "destination", "d.example")["note"] or
                             "").startswith(said), "explain says that no line came")


def body(test):
    if not shutil.which("rsyslogd"):
        raise Skipped("no rsyslogd is installed")
    Sink(test, HOSTS, REMOTE)
    site = Site(test)
    silent(test, site)
    written_by_rsyslog(test, site)
    forwarded_by_rsyslog(test, site)
    forwarded_by_journald(test, site)
    written_by_postlogd(test, site)
    written_elsewhere(test, site, Sink(test, HOSTS, OTHER))


main(body, hosts=HOSTS, addresses=[*HOSTS, HERE])
