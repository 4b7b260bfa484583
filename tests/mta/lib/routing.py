# SPDX-License-Identifier: ISC
"""Sites whose routing is their own: what became of each recipient, by the log, and
whether it is the same with Postern as without."""
import json
import re
import subprocess

from lib.postern import Postern, build_directory, one_class, substitute
from lib.postfix import Postfix
from lib.smtp import Session

REMOTE = 2500                           # the port that mail leaves for
LANES = re.compile(r"/lane(\d+)/smtp$")
RESULT = re.compile(r"(\S+)\[\d+\]: (\w+): to=<(.*)>, (?:orig_to=<(.*?)>, )?relay=(.*?), "
                    r"(?:conn_use=\d+, )?delay=.*, dsn=([\d.]+), status=(\w+) \((.*)\)$")
ACTIVE = re.compile(r"qmgr\[\d+\]: (\w+): from=<.*>, size=\d+, nrcpt=(\d+) \(queue active\)$")
QUEUED = re.compile(r"queued as (\w+)")


class Log:
    """Of all sites together: queue ids are long ones, of one message alone."""

    def __init__(self, paths):
        self.places = {path: [0, b""] for path in paths}
        self.wanted = {}                # queue id -> recipients that it has now
        self.results = {}               # queue id -> [result]

    def read(self):
        for path, place in self.places.items():
            with open(path, "rb") as file:
                file.seek(place[0])
                data = file.read()
            place[0] += len(data)
            *lines, place[1] = (place[1] + data).split(b"\n")
            for line in lines:
                self.line(line.decode(errors="replace"))

    def line(self, line):
        if found := ACTIVE.search(line):
            self.wanted.setdefault(found[1], int(found[2]))
        elif found := RESULT.search(line):
            program, queue_id, to, orig_to, relay, dsn, status, text = found.groups()
            self.results.setdefault(queue_id, []).append(
                {"program": program, "to": to, "orig_to": orig_to, "relay": relay, "dsn": dsn,
                 "status": status, "text": text})

    def chain(self, queue_id, settled=False):
        """The last result of each recipient, followed to where it was queued next; None:
        not all are known yet.  `settled`: nothing waits any more."""
        last = {(result["to"], result["orig_to"]): result
                for result in self.results.get(queue_id, [])}
        if queue_id not in self.wanted or len(last) < self.wanted[queue_id]:
            return None
        found = []
        for result in last.values():
            if settled and result["status"] == "deferred":
                return None
            found.append(result)
            next_id = QUEUED.search(result["text"])
            if next_id:
                more = self.chain(next_id[1], settled)
                if more is None:
                    return None
                found += more
        return found


class Site:
    """A Postfix, at first without Postern.  `mta`: more of it in postern.conf; `tables`:
    name -> text, for postmap."""

    def __init__(self, test, name, ports, main, services=(), mta="", tables=(), clone="smtp"):
        self.test, self.name, self.port = test, name, ports[0]
        self.plain = [f"{port} inet n - n - - smtpd\n" if isinstance(port, int) else port
                      for port in ports]
        self.plain += services
        self.clone_program = f"postfix-{name}/{clone}/smtp" if clone != "smtp" else \
            f"postfix-{name}/smtp"
        self.postfix = Postfix(test, self.plain, name=name, main="enable_long_queue_ids = yes\n"
                               "mynetworks = 127.0.0.0/8\ntransport_maps =\nrelay_domains =\n"
                               f"smtp_tcp_port = {REMOTE}\n")
        for file, text in dict(tables).items():
            self.table(file, text)
        self.set(main)
        self.mta = (f'{{ name = "{name}"; kind = "postfix"; config_directory = "{self.postfix.etc}"; '
                    f'log = "{self.postfix.log}"; syslog_name = "postfix-{name}"; clone = "{clone}"; '
                    f'site = "{test.directory}/site/{name}"; {mta} }}')
        self.postfix.log.touch()

    def table(self, file, text):
        (self.postfix.etc / file).write_text(text)
        self.test.run(["postmap", "-c", self.postfix.etc, f"hash:{self.postfix.etc / file}"])

    def set(self, main):
        named = {line.split("=")[0].strip() for line in main.splitlines()}
        usual = {"enable_long_queue_ids": "yes", "mynetworks": "127.0.0.0/8", "transport_maps": "",
                 "relay_domains": "", "smtp_tcp_port": REMOTE}
        self.postfix.set("".join(f"{key} = {value}\n" for key, value in usual.items()
                                 if key not in named) + main.replace("@ETC@", str(self.postfix.etc)))

    def start(self):
        self.postfix.start(self.port)

    def send(self, recipients, sender="s@sender.example", port=None):
        """One message for each: recipient -> (reply code, queue id or the reply's text)."""
        session, replies = Session(("127.0.0.1", port or self.port)), {}
        for recipient in recipients:
            code, text = session.send([recipient], sender)
            session.command("RSET")
            queued = QUEUED.search(text) if code == 250 else None
            replies[recipient] = code, queued[1] if queued else text
        session.quit()
        return replies

    def empty(self):
        """What is still queued is given up."""
        self.test.run(["postsuper", "-c", self.postfix.etc, "-d", "ALL", "deferred"])


class Routing:
    """Sites, and one Postern for all of them, that comes later."""

    def __init__(self, test, sites, settings=""):
        self.test, self.sites = test, sites
        self.log = Log([site.postfix.log for site in sites])
        self.lookup = build_directory() / "postern-lookup"
        self.settings = settings
        self.postern = Postern(test, edit=self.edit)
        self.postern.kinds = self.postern.kinds | {"feed"}
        self.widths = {}                # recipient -> lanes that carried it
        for site in sites:
            site.start()

    def edit(self, text):
        text = substitute(text, r"^outbound *= .*?;\s*};", "outbound = { observe = false; };")
        text = substitute(text, r"^classes *= *\(.*\);\s*\Z",
                          "classes = (\n" + one_class("all", 1000) + ");\n")
        return text + "mta = ( " + ",\n  ".join(site.mta for site in self.sites) + \
            f" );\n{self.settings}"

    def read_site(self, site):
        done = self.postern.command("postfix-lanes", site.name)
        return {**json.loads(done.stdout), "exit": done.returncode}

    def attach(self, site):
        """The lines that posternctl writes, and then, as they say, once more."""
        lines = re.sub(r"argv=\S+/postern-lookup", f"argv={self.lookup}",
                       self.read_site(site)["lines"])
        site.postfix.serve([*site.plain, lines])
        site.postfix.reload()
        self.test.wait_for(lambda: all(lane["used"] for lane in self.read_site(site)["lanes"]),
                           f"{site.name}: Postfix serves the lanes")

    def ask(self, site, address):
        """What postern-lookup says of an address now."""
        key = f"transport {address}"
        done = subprocess.run([self.lookup, f"{self.postern.shared}/state.hints", site.name,
                               f"{self.test.directory}/site/{site.name}"],
                              text=True, input=f"{len(key)}:{key},", capture_output=True)
        return done.stdout.partition(":")[2].rstrip(",").strip()

    def told(self, result):
        """Without what is never the same twice, and without the lane."""
        program = result["program"]
        for site in self.sites:
            if LANES.search(program) and program.startswith(f"postfix-{site.name}/"):
                program = site.clone_program
        # a queue keeps the spelling of the recipient that came first
        return (program, result["to"], result["orig_to"], result["relay"].lower(),
                result["dsn"], result["status"], QUEUED.sub("queued", result["text"]))

    def note_lanes(self, recipient, results):
        for result in results:
            if found := LANES.search(result["program"]):
                self.widths.setdefault(recipient, set()).add(int(found[1]))

    def outcomes(self, site, replies, settled=False, limit=20, must=True):
        """recipient -> (reply code, its results); `settled`: nothing is deferred; `must`:
        they are all to be there."""
        found = {}

        def complete():
            self.log.read()
            for recipient, (code, text) in replies.items():
                if recipient not in found:
                    results = self.log.chain(text, settled) if code == 250 else []
                    if results is not None:
                        found[recipient] = code if code == 250 else f"{code} {text}", results
            return len(found) == len(replies)
        if self.test.poll(complete, limit) is None and must:
            missing = sorted(set(replies) - set(found))
            self.test.check(False, f"{site.name}: no result for {', '.join(missing)}")
        for recipient, (_, results) in found.items():
            self.note_lanes(recipient, results)
        return {recipient: (code, sorted(self.told(result) for result in results))
                for recipient, (code, results) in found.items()}

    def round(self, site, recipients, **more):
        """One message for each; what is deferred is given up."""
        found = self.outcomes(site, site.send(recipients, **more))
        site.empty()
        return found

    def same(self, site, plain, found, text):
        """Of each recipient: the reply at RCPT, the transport, the relay, what it said."""
        wrong = 0
        for recipient, outcome in plain.items():
            if found.get(recipient) != outcome:
                wrong += 1
                self.test.check(False, f"{text}: {recipient}: {found.get(recipient)}, "
                                f"without Postern {outcome}")
        if wrong == 0:
            self.test.check(True, f"{text}: {len(plain)} recipients as without Postern")

    def by_lane(self, domain):
        """The lanes that mail for a domain went by."""
        return set().union(*(widths for recipient, widths in self.widths.items()
                             if recipient.lower().rstrip(".").endswith("@" + domain)))
