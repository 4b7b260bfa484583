# SPDX-License-Identifier: ISC
"""A Postfix whose outbound mail Postern counts and holds, as conf/ attaches it."""
import subprocess

from lib import web
from lib.postern import Postern, build_directory, substitute
from lib.postfix import Postfix, conf_hints

REMOTE = 2500                           # the port that mail leaves for
MAIN = f"""transport_maps =
relay_domains =
mynetworks = 127.0.0.0/8
smtp_tcp_port = {REMOTE}
smtp_connection_cache_time_limit = 1s
"""


def merged(main):
    """MAIN with these settings in the place of its own."""
    named = {line.split("=")[0].strip() for line in main.splitlines()}
    return "".join(line for line in MAIN.splitlines(True)
                   if line.split("=")[0].strip() not in named) + main


class Outbound:
    """Both, running.  `classes`: those of the configuration, and no others; `services`:
    more lines of master.cf; `main`: settings of main.cf; `mta`, `settings`: of the
    mail server and of the whole in postern.conf; `others`: more mail servers there;
    `name`: of this one, where there are several; `group`: hints.group;
    `metrics`: they are served."""

    def __init__(self, test, port, classes=(), services=(), main="", mta="", settings="",
                 name="A", others="", group=None, metrics=False):
        self.test, self.name, self.group, self.metrics = test, name, group, metrics
        postern = "postern" if name == "A" else f"postern-{name}"
        self.state = test.directory / postern / "shared/state"
        self.lookup = build_directory() / "postern-lookup"
        self.site_file = test.directory / "site" / self.name
        # the lanes of conf/ are clones of Debian's line
        self.plain = [f"{port} inet n - n - - smtpd\n",
                      "smtp unix - - y - - smtp\n", "relay unix - - y - - smtp\n", *services]
        self.mta, self.settings, self.others = mta, settings, others
        self.postfix = Postfix(test, self.services(), name=name, main=merged(main))
        self.postern = Postern(test, spool=self.postfix.spool, name=postern,
                               edit=lambda text: self.edit(text, classes))
        self.postern.kinds = self.postern.kinds | {"feed"}
        self.postfix.log.touch()
        self.postern.start()
        self.postfix.start(port)
        self.read_site()

    def services(self):
        return [*self.plain, conf_hints(self.lookup, f"{self.state}.hints", "out",
                                        f"postfix-{self.name}", self.site_file, self.group)]

    def edit(self, text, classes):
        text = substitute(text, r"^outbound *= .*?;\s*};", "outbound = { observe = false; };")
        text = substitute(text, r"^classes *= *\(.*\);\s*\Z",
                          "classes = (\n" + ",\n".join(classes) + ");\n")
        if self.metrics:
            text = web.listening()(text)
        if self.group:
            text += f'hints = {{ group = "{self.group}"; }};\n'
        return text + (
            f'mta = ( {{ name = "out"; kind = "postfix"; ports = [ {REMOTE} ];\n'
            f'  config_directory = "{self.postfix.etc}"; log = "{self.postfix.log}";\n'
            f'  syslog_name = "postfix-{self.name}"; site = "{self.site_file}";\n'
            f"  {self.mta} }}{self.others} );\n{self.settings}")

    def read_site(self):
        return self.postern.ask("postfix-lanes", "out")

    def ask(self, address, **more):
        """What postern-lookup says of an address now."""
        return self.ask_often(address, 1, **more)[0]

    def ask_often(self, address, count, **more):
        """The same, so many times in a row.  `more`: as whom."""
        key = f"transport {address}"
        done = subprocess.run([self.lookup, f"{self.state}.hints", "out", self.site_file], text=True,
                              input=f"{len(key)}:{key}," * count, capture_output=True, **more)
        answers, rest = [], done.stdout
        while rest:
            length, _, rest = rest.partition(":")
            answers.append(rest[:int(length)].strip())
            rest = rest[int(length) + 1:]
        return answers

    def is_held(self, address):
        return self.ask(address).startswith("OK retry:")

    def drain(self, address, done, text):
        """Queue runs, as an admin would make them, until all is done: each may fill the
        class again and hold what it finds then.  A queue manager remembers for 30 s what it
        was told of the last address: where that is all that is left, a new one asks again."""
        def run():
            if not done() and not self.is_held(address):
                self.postfix.flush()
                if self.test.poll(done, 0.5) is None and not self.is_held(address):
                    self.postfix.reload()
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
                   f"{name} has " in line)
