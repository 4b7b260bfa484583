# SPDX-License-Identifier: ISC
"""A Postfix whose outbound mail Postern counts and holds, as conf/ attaches it."""
import subprocess

from lib.postern import Postern, build_directory, substitute
from lib.postfix import Postfix, conf_hints

REMOTE = 2500                           # the port that mail leaves for
MAIN = f"""transport_maps =
relay_domains =
mynetworks = 127.0.0.0/8
smtp_tcp_port = {REMOTE}
"""


class Outbound:
    """Both, running.  `classes`: those of the configuration, and no others."""

    def __init__(self, test, port, classes, services=()):
        self.test = test
        self.state = test.directory / "postern/state"
        self.lookup = build_directory() / "postern-lookup"
        self.plain = [f"{port} inet n - n - - smtpd\n", *services]
        self.postfix = Postfix(test, self.services(), main=MAIN)
        self.postern = Postern(test, spool=self.postfix.spool,
                               edit=lambda text: self.edit(text, classes))
        self.postern.kinds = self.postern.kinds | {"feed"}
        self.postfix.log.touch()
        self.postern.start()
        self.postfix.start(port)
        self.read_site()

    def services(self):
        return [*self.plain, conf_hints(self.lookup, f"{self.state}.hints", "out")]

    def edit(self, text, classes):
        text = substitute(text, r"^outbound *= .*?;\s*};", "outbound = { observe = false; };")
        text = substitute(text, r"^classes *= *\(.*\);\s*\Z",
                          "classes = (\n" + ",\n".join(classes) + ");\n")
        return text + (
            f'mta = ( {{ name = "out"; kind = "postfix"; ports = [ {REMOTE} ];\n'
            f'  config_directory = "{self.postfix.etc}"; log = "{self.postfix.log}";\n'
            f'  syslog_name = "postfix-A"; site = "{self.test.directory}/site/out"; }} );\n')

    def read_site(self):
        return self.postern.ask("postfix-lanes", "out")

    def ask(self, address):
        """What postern-lookup says of an address now."""
        key = f"transport {address}"
        done = subprocess.run([self.lookup, f"{self.state}.hints", "out"], text=True,
                              input=f"{len(key)}:{key},", capture_output=True)
        return done.stdout.partition(":")[2].rstrip(",").strip()

    def drain(self, address, done, text):
        """Queue runs, as an admin would make them, until all is done: each may fill the
        class again and hold what it finds then."""
        def run():
            if not done() and self.ask(address) == "NOTFOUND":
                self.postfix.flush()
                self.test.poll(done, 0.3)
            return done()
        self.test.wait_for(run, text)

    def explain(self, domain):
        """(hint, doubt) of a destination."""
        row = self.postern.ask("explain", "destination", domain)
        return row["hint"], row["doubt"]

    def known(self):
        """How many destinations deliveries were seen to."""
        return next(row["used"] for row in self.postern.status()["tables"]
                    if row["table"] == "destinations")

    def held(self, name):
        """How many deliveries the log tells as held for a class."""
        return sum(1 for line in self.postfix.log_text().splitlines()
                   if "dsn=4.7.1, status=deferred (Postern: class "
                   f"{name} holds " in line)
