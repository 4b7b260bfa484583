#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""tests/bench/peers.py [--runs N] [--only WORD,WORD]: Postern beside what else an admin can install.

    questions   quotas of logins: RCPT and END-OF-MESSAGE over the policy protocol, admitted and
                refused, against postfwd, policyd-rate-limit and postgrey
    sessions    counts of clients: a session's question, against anvil and a counter in Redis
    refused     the whole path of a refused session: from its connect to the end, over TCP, against
                anvil, HAProxy and a rule of nftables
    mail        messages through a real Postfix with nothing, by policy, by milter, by both, and
                with lanes; and with rspamd as its milter

The same load for all of a part, medians of N runs (5) in turn; CPU is that of all processes of
a server, those that have ended included.  Prints a table a part.  What is not installed
has no row.  What the kernel spends on a connection is in none, so nftables' CPU is 0.
Private to itself: needs root.
"""
import os
import platform
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace

import cpu
from servers import BENCH, SOURCE, Server, load, start_daemon, wait_for, warm_up

sys.path.insert(0, str(SOURCE / "tests/mta"))
from lib.outbound import Outbound                   # noqa: E402
from lib.postern import Postern, one_class          # noqa: E402
from lib.postfix import Postfix, conf_service, listening    # noqa: E402
from lib.smtp import Session                        # noqa: E402
from lib.testing import alive, main                 # noqa: E402

MANY = 100000000                        # a limit that is never reached
UNITS = {"fast": 200000, "slow": 8000}  # of a run at 50 connections
USER = "nobody"


class Absent(Exception):
    """It is not installed."""


def program(name):
    path = shutil.which(name, path="/usr/bin:/usr/sbin:/bin:/sbin:/usr/lib/postfix/sbin")
    if path is None:
        raise Absent(name)
    return path


class Daemon:
    """A server that leaves for the background, and tells its number in a file."""

    def __init__(self, command, path, pid_file):
        subprocess.run([str(word) for word in command], check=True, stdin=subprocess.DEVNULL,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_for(lambda: path.exists() and pid_file.exists(), f"{command[0]} does not listen")
        self.process = SimpleNamespace(pid=int(pid_file.read_text()))

    def end(self):
        os.kill(self.process.pid, signal.SIGTERM)
        try:
            os.waitpid(self.process.pid, 0)     # it has fallen to us
        except ChildProcessError:
            wait_for(lambda: not alive(self.process.pid), "it does not end")


# --- questions --------------------------------------------------------------------------------

def null_policy(here, limit):
    del limit
    return Server([BENCH / "null_policy", f"unix:{here / 'policy'}"], [here / "policy"], here, True)


def postern_quotas(here, limit):
    return start_daemon(here, True, USER, sessions="1k", more='accounts = "1M";', classes=f"""classes = ();
accounts = ( {{ name = "all"; match = [ "*" ]; each = {{ recipients = [ "{limit}/1h" ]; }}; }} );""")


def postfwd(here, limit):
    (here / "rules").write_text("id=R1; protocol_state==RCPT; "
                                f"action=rate(sasl_username/{limit}/3600/450 4.7.1 too many)\n")
    here.chmod(0o1777)
    return Daemon([program("postfwd1"), "-d", "-P", "-n", "-f", here / "rules", "-u", USER, "-g",
                   "nogroup", "--proto", "unix", "--port", here / "policy", "--umask", "0111",
                   "--pidfile", here / "pid"], here / "policy", here / "pid")


def policyd_rate_limit(here, limit):
    data = here / "data"
    data.mkdir()
    shutil.chown(data, "policyd-rate-limit", "policyd-rate-limit")
    (here / "conf.yaml").write_text(f"""debug: False
user: policyd-rate-limit
group: policyd-rate-limit
pidfile: {data}/pid
sqlite_config:
    database: {data}/db.sqlite3
backend: 0
SOCKET: {here}/policy
socket_permission: 0666
limits:
    - [{limit}, 3600]
limits_by_id: {{}}
limit_by_sasl: True
limit_by_sender: False
limit_by_ip: False
success_action: dunno
fail_action: defer_if_permit too many
db_error_action: defer database
report: False
delay_to_close: 300
""")
    here.chmod(0o1777)
    return Server([program("policyd-rate-limit"), "--file", here / "conf.yaml"], [here / "policy"],
                  here, False)


def postgrey(here, limit):
    shutil.chown(here, "postgrey", "postgrey")
    action = "DUNNO" if limit == MANY else "DEFER_IF_PERMIT"
    return Server([program("postgrey"), f"--unix={here}/policy", f"--dbdir={here}",
                   f"--greylist-action={action}", "--quiet"], [here / "policy"], here, False)


QUESTIONS = (("a server that does nothing", null_policy, "fast"),
             ("Postern, recipients/1h of each login", postern_quotas, "fast"),
             ("postfwd1, rate() of each login", postfwd, "slow"),
             ("policyd-rate-limit, SQLite", policyd_rate_limit, "slow"),
             ("postgrey", postgrey, "slow"))


# --- sessions ---------------------------------------------------------------------------------

def postern_sessions(here, limit):
    del limit
    return start_daemon(here, True, USER)


class Anvil:
    """Postfix with nothing but its anvil."""

    def __init__(self, test, here):
        program("master")
        self.postfix = Postfix(test, [], name=f"anvil-{here.name}",
                               main="inet_interfaces = 127.0.0.1\nanvil_rate_time_unit = 1h\n")
        self.postfix.start()
        self.path = self.postfix.private / "anvil"
        wait_for(self.path.exists, "anvil does not listen")
        self.process = SimpleNamespace(pid=self.postfix.master())

    def end(self):
        self.postfix.stop()


class Redis:
    def __init__(self, here):
        self.path = here / "redis"
        self.server = Server([program("redis-server"), "--port", "0", "--unixsocket", self.path,
                              "--save", "", "--appendonly", "no", "--dir", here], [self.path], here, True)
        self.process = self.server.process
        self.end = self.server.end


def redis_load(server, connections, units):
    """INCR of 10,000 keys, by Redis' own load generator."""
    before = cpu.used_ns(server.process.pid)
    done = subprocess.run([program("redis-benchmark"), "-s", server.path, "-c", str(connections),
                           "-n", str(units), "-r", "10000", "--csv", "INCR", "key:__rand_int__"],
                          capture_output=True, text=True, check=True)
    words = [word.strip('"') for word in done.stdout.splitlines()[-1].split(",")]
    return {"rate": float(words[1]), "p50_us": 1000 * float(words[4]), "p99_us": 1000 * float(words[6]),
            "cpu_us": (cpu.used_ns(server.process.pid) - before) / 1000 / units}


# --- a part of loads --------------------------------------------------------------------------

def in_turn(test, title, rows, one_run, limits):
    """one_run(row, connections, limit) gives figures, or raises Absent."""
    print(f"\n### {title}\n\n| server | " + " | ".join(
        f"{word} /s, 1 | /s, 50 | p50 us, 50 | p99 us, 50 | CPU us" for word in limits) + " |\n|---|" +
        "--:|--:|--:|--:|--:|" * len(limits), flush=True)
    runs, absent = {}, set()
    for _ in range(test.arguments.runs):
        for row in rows:
            for word, limit in limits.items():
                for connections in (1, 50):
                    if row[0] in absent:
                        continue
                    try:
                        runs.setdefault((row[0], word, connections), []).append(
                            one_run(row, connections, limit))
                    except Absent as reason:
                        test.say(f"not installed: {reason}")
                        absent.add(row[0])
    for row in rows:
        if row[0] in absent:
            continue
        cells = []
        for word in limits:
            def median(key, connections, word=word):
                return statistics.median(run[key] for run in runs[row[0], word, connections])
            cells += [f"{median('rate', 1):.0f}", f"{median('rate', 50):.0f}", f"{median('p50_us', 50):.0f}",
                      f"{median('p99_us', 50):.0f}", f"{median('cpu_us', 50):.1f}"]
        print(f"| {row[0]} | " + " | ".join(cells) + " |", flush=True)
    test.check(len(absent) < len(rows), f"{title}: {len(rows) - len(absent)} rows")


def place_in(test):
    here = Path(tempfile.mkdtemp(prefix="peer.", dir=test.directory))
    here.chmod(0o755)
    return here


def questions(test):
    def one_run(row, connections, limit):
        name, start, pace = row
        here = place_in(test)
        server = start(here, limit)
        units = UNITS[pace] // (5 if connections == 1 else 1)
        logins = 10000 if limit == MANY else 100
        figures = load(server, "load_accounts", here / "policy", connections, units, pace == "fast",
                       ("DUNNO", "refused"), ("-K", str(logins)))
        refused = figures.get("answers refused", 0) / units
        server.end()
        shutil.rmtree(here, ignore_errors=True)
        # half of the questions are END-OF-MESSAGE
        if start is not null_policy:
            test.check(refused < 0.01 if limit == MANY else refused > 0.4,
                       f"{name}, limit {limit}: {refused:.2f} refused")
        return figures
    in_turn(test, "Quotas of logins: a RCPT or END-OF-MESSAGE", QUESTIONS, one_run,
            {"admitted": MANY, "refused": 1})


def sessions(test):
    rows = (("a server that does nothing", null_policy, "load_policy"),
            ("Postern, a class and a limit of each client", postern_sessions, "load_policy"),
            ("anvil: connect and disconnect", lambda here, limit: Anvil(test, here), "load_anvil"),
            ("Redis: INCR", lambda here, limit: Redis(here), None))

    def one_run(row, connections, limit):
        here = place_in(test)
        server = row[1](here, limit)
        units = UNITS["fast"] // (5 if connections == 1 else 1)
        if row[2] is None:
            figures = redis_load(server, connections, units)
        else:
            figures = load(server, row[2], getattr(server, "path", here / "policy"), connections, units,
                           True, ("DUNNO", "counted"))
        server.end()
        shutil.rmtree(here, ignore_errors=True)
        return figures
    in_turn(test, "Counts of clients: what is asked of each session", rows, one_run, {"admitted": MANY})


# --- the whole path of a refused session ------------------------------------------------------

PORT, FRONT = 2025, 3025


class Refusing:
    """A service on FRONT or PORT with one session open and no place for another."""

    def __init__(self, test, service, main_text="", classes=True, front=None, gate=False):
        self.test = test
        self.postfix = Postfix(test, [service], name=f"refusing{test.checks}", main=(
            "smtpd_client_event_limit_exceptions =\n" + main_text))
        self.pids, self.postern, self.front = [], None, None
        if classes:
            self.postern = Postern(test, [one_class("here", 1, [PORT])], spool=self.postfix.spool,
                                   name=f"postern{test.checks}", edit=only_class if gate else None)
            self.postern.start()
            self.pids.append(self.postern.process.pid)
        self.postfix.start(PORT)
        self.pids.append(self.postfix.master())
        if front:
            self.front = front(test)
            if self.front:
                self.pids.append(self.front.pid)
        self.port = FRONT if self.front else PORT
        self.held = Session(("127.0.0.1", self.port))
        if gate:
            test.wait_for(lambda: self.postern.status()["gate"] == "shut", "the gate is shut")

    def end(self):
        self.held.close()
        for process in (self.front, self.postern and self.postern.process):
            if process:
                process.send_signal(signal.SIGTERM)
                process.wait(20)
        self.postfix.stop()
        subprocess.run([program("nft"), "flush", "ruleset"], check=True)


def only_class(text):
    """One class, so that it is every class, and the gate in the kernel."""
    text = re.sub(r"^classes = \(.*\Z", "classes = (\n" + one_class("here", 1, [PORT]) + " );\n",
                  text, flags=re.M | re.S)
    return re.sub(r"^#gate = .*$", f'gate = {{ command = [ "{SOURCE}/contrib/gate-nftables" ]; }};',
                  text, flags=re.M)


def nftables(test):
    """No process: a rule of the kernel's, in this network namespace."""
    del test
    subprocess.run([program("nft"), "-f", "-"], check=True, text=True, input=f"""
add table inet peers
add set inet peers clients {{ type ipv4_addr; flags dynamic; size 65536; }}
add chain inet peers input {{ type filter hook input priority 0; }}
add rule inet peers input tcp dport {PORT} ct state new add @clients {{ ip saddr ct count over 1 }} \
    reject with tcp reset
""")


def haproxy(test):
    file = test.directory / "haproxy.cfg"
    file.write_text(f"""global
  maxconn 1000
defaults
  mode tcp
  timeout connect 10s
  timeout client 300s
  timeout server 300s
listen mail
  bind 127.0.0.1:{FRONT}
  stick-table type ip size 100k store conn_cur
  tcp-request connection track-sc0 src
  tcp-request connection reject if {{ sc0_conn_cur gt 1 }}
  server a 127.0.0.1:{PORT}
""")
    process = test.spawn([program("haproxy"), "-db", "-f", file], "haproxy")
    test.wait_for(lambda: listening(FRONT), "HAProxy listens")
    return process


def service_of(name):
    return conf_service(f"postfix-{name}.master.cf", PORT) if name else \
        f"{PORT} inet n - y - - smtpd\n"


REFUSED = (("smtpd and anvil: smtpd_client_connection_count_limit", "",
            "smtpd_client_connection_count_limit = 1\n", False, None, False),
           ("smtpd and Postern by policy", "policy", "", True, None, False),
           ("smtpd and Postern by milter", "milter", "", True, None, False),
           ("smtpd and Postern by both", "both", "", True, None, False),
           ("Postern's gate, every class full", "policy", "", True, None, True),
           ("HAProxy in front: conn_cur of a stick table", "", "", False, haproxy, False),
           ("nftables: ct count of an address", "", "", False, nftables, False))


def refused(test):
    def one_run(row, connections, limit):
        del limit
        _, service, main_text, classes, front, gate = row
        site = Refusing(test, service_of(service), main_text, classes, front, gate)
        units = 400 if connections == 1 else 4000
        try:
            before = sum(map(cpu.used_ns, site.pids))
            done = subprocess.run([BENCH / "load_refused", f"inet:127.0.0.1:{site.port}", "-c",
                                   str(connections), "-n", str(units), "-w", str(warm_up(units))],
                                  capture_output=True, text=True)
            if done.returncode != 0:
                sys.exit(f"bench: load_refused: {done.stderr.strip()}")
            used = sum(map(cpu.used_ns, site.pids)) - before
        finally:
            site.end()
        words = [line.split() for line in done.stdout.splitlines()]
        answers = {word[1]: int(word[2]) for word in words if word[0] == "answer"}
        test.check(answers.get("220", 0) == 0, f"{row[0]}, {connections}: {answers}")
        return {**{word[0]: float(word[1]) for word in words if word[0] != "answer"},
                "cpu_us": used / 1000 / (units + warm_up(units))}
    in_turn(test, "A refused session, from its connect to the end", REFUSED, one_run, {"refused": 1})


# --- mail -------------------------------------------------------------------------------------

SINK = 2599


MAIL_MAIN = "mynetworks = 127.0.0.0/8\nsmtpd_client_event_limit_exceptions = 127.0.0.0/8\n"


def rspamd(test):
    """Its proxy as a milter and its limits of rates in Redis; no other module."""
    here = Path(tempfile.mkdtemp(prefix="rspamd.", dir=test.directory))
    here.chmod(0o777)
    store = Redis(here)
    (here / "tld").write_text("com\norg\n")    # all of them are compiled for minutes
    (here / "rspamd.conf").write_text(f"""
options {{ pidfile = "{here}/pid"; tempdir = "{here}"; url_tld = "{here}/tld"; filters = "";
  dns {{ nameserver = ["127.0.0.1"]; }} }}
logging {{ type = "file"; filename = "{here}/log"; level = "error"; }}
worker "rspamd_proxy" {{ bind_socket = "127.0.0.1:{FRONT}"; milter = yes; timeout = 60s;
  upstream "local" {{ default = yes; self_scan = yes; }} }}
modules {{ path = "/usr/share/rspamd/plugins"; }}
lua = "/usr/share/rspamd/rules/rspamd.lua";
redis {{ servers = "{store.path}"; }}
ratelimit {{ rates {{ to = {{ bucket {{ burst = 1000000; rate = "1000000 / 1s"; }} }} }} }}
""")
    process = test.spawn([program("rspamd"), "-f", "-i", "-c", here / "rspamd.conf"], "rspamd")
    test.wait_for(lambda: listening(FRONT), "rspamd listens")
    return [process, store.process]


class Mail:
    """A Postfix that takes mail on PORT and brings it to smtp-sink."""

    def __init__(self, test, way):
        self.test = test
        self.servers = [test.spawn([program("smtp-sink"), "-u", USER, f"127.0.0.1:{SINK}", "1000"],
                                   "smtp-sink")]
        test.wait_for(lambda: listening(SINK), "smtp-sink listens")
        getattr(self, f"make_{way}", self.make_inbound)(way, f"mail{test.checks}")
        self.pids = [process.pid for process in self.servers[1:]] + [self.postfix.master()]

    def make_inbound(self, way, name):
        test = self.test
        self.postfix = Postfix(test, [service_of(way)], name=name, main=MAIL_MAIN + (
            f"transport_maps = static:smtp:[127.0.0.1]:{SINK}\n"))
        if way:
            postern = Postern(test, [one_class("here", 1000, [PORT])], spool=self.postfix.spool,
                              name=f"postern{test.checks}")
            postern.start()
            self.servers.append(postern.process)
        self.postfix.start(PORT)

    def make_lanes(self, way, name):
        """Outbound alone: each message asks postern-lookup, its result is read from the log."""
        site = Outbound(self.test, PORT, [one_class("all", 1000)], name=name,
                        main=MAIL_MAIN + f"relayhost = [127.0.0.1]:{SINK}\n")
        del way
        self.postfix = site.postfix
        self.servers.append(site.postern.process)

    def make_rspamd(self, way, name):
        del way
        self.servers += rspamd(self.test)
        self.postfix = Postfix(self.test, [service_of("")], name=name, main=MAIL_MAIN + (
            f"transport_maps = static:smtp:[127.0.0.1]:{SINK}\nsmtpd_milters = inet:127.0.0.1:{FRONT}\n"))
        self.postfix.start(PORT)

    def make_null(self, way, name):
        """What libmilter and Postfix's side of it cost."""
        service, path = service_of("milter"), "private/postern-milter"
        self.postfix = Postfix(self.test, [service], name=name, main=MAIL_MAIN + (
            f"transport_maps = static:smtp:[127.0.0.1]:{SINK}\n"))
        del way
        socket = self.postfix.spool / path
        self.servers.append(self.test.spawn([BENCH / "null_milter", f"unix:{socket}"], "null_milter"))
        self.test.wait_for(socket.exists, "null_milter listens")
        socket.chmod(0o666)
        self.postfix.start(PORT)

    def run(self, count):
        before, began = sum(map(cpu.used_ns, self.pids)), time.monotonic()
        done = self.postfix.delivered()
        self.postfix.test.run([program("smtp-source"), "-d", "-m", count, "-s", 20, "-l", 4096, "-f",
                               "sender@example.com", "-t", "u@example.org", f"127.0.0.1:{PORT}"])
        self.test.wait_for(lambda: self.postfix.delivered() >= done + count, "all is delivered", 120)
        seconds = time.monotonic() - began
        return count / seconds, (sum(map(cpu.used_ns, self.pids)) - before) / 1000 / count

    def end(self):
        for process in reversed(self.servers):
            process.send_signal(signal.SIGTERM)
            process.wait(20)
        self.postfix.stop()


def mail(test, count=1500):
    ways = {"": "Postfix alone", "policy": "Postern by policy", "milter": "Postern by milter",
            "null": "a milter that does nothing", "both": "Postern by both", "lanes": "Postern by lanes and hints, outbound",
            "rspamd": "rspamd by milter, only its ratelimit"}
    runs = {way: [] for way in ways}
    for _ in range(test.arguments.runs):
        for way in list(ways):
            try:
                site = Mail(test, way)
            except Absent as reason:
                test.say(f"not installed: {reason}")
                del ways[way]
                continue
            site.run(200)
            runs[way].append(site.run(count))
            site.end()
    print("\n### Mail through a real Postfix, a message a session\n\n| | messages/s | CPU us a message, Postfix "
          "and Postern | CPU to Postfix alone |\n|---|--:|--:|--:|")
    alone = statistics.median(used for _, used in runs[""])
    for way, name in ways.items():
        rate, used = (statistics.median(run[i] for run in runs[way]) for i in (0, 1))
        print(f"| {name} | {rate:.0f} | {used:.0f} | {used / alone:.3f} |", flush=True)
    test.check(True, "mail went through")


PACKAGES = ("postfix", "postfwd", "policyd-rate-limit", "postgrey", "redis-server", "haproxy", "nftables",
            "rspamd")


def machine():
    """What the figures depend on."""
    models = {line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines()
              if line.startswith("model name")}
    print(f"{os.cpu_count()} processors ({', '.join(sorted(models)) or platform.machine()}), Linux "
          f"{platform.release()}, load average {os.getloadavg()[0]:.2f} before")
    for package in PACKAGES:
        done = subprocess.run(["dpkg-query", "-W", "-f", "${Package} ${Version}", package],
                              capture_output=True, text=True)
        if done.returncode == 0:
            print(done.stdout)


def body(test):
    machine()
    for part in test.arguments.only.split(","):
        {"questions": questions, "sessions": sessions, "refused": refused, "mail": mail}[part](test)


main(body, seconds=3600, options=(
    ("--runs", {"type": int, "default": 5, "help": "of each, of which the median is printed (5)"}),
    ("--only", {"default": "questions,sessions,refused,mail", "help": "parts, with commas between"})))
