#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""posternctl top in a real terminal (tmux): its numbers are those of --json, keys act, a
hostile name stays text, a daemon that goes away is told of; and colours elsewhere."""
import re
import socket
import subprocess

from lib.postern import Postern, one_class, substitute
from lib.smtp_log import SmtpLog
from lib.terminal import Terminal
from lib.testing import main

REFUSED = "host mx.{0}[192.0.2.1] refused to talk to me: 421 4.7.0 {1}"
EVIL = "\x1b]0;owned\x07\x1b[2Jbusy"
LIMIT = 4


class Site:
    def __init__(self, test):
        self.test, self.held = test, []
        self.log = test.directory / "mail.log"
        self.mail_log = SmtpLog(self.log)
        self.postern = Postern(test, edit=self.edit)
        self.postern.kinds = self.postern.kinds | {"feed"}
        self.postern.start()

    def edit(self, text):
        text = substitute(text, r"^outbound *= *\{[^}]*\};", "outbound = { observe = false; };")
        full = one_class("few", LIMIT, match='"192.0.2.0/24"')
        text = re.sub(r"^classes = \(.*?^\);", lambda _: f"classes = (\n{full},\n" +
                      one_class("everyone", 100) + " );", text, flags=re.M | re.S)
        text = re.sub(r'policy = \[ ("[^"]*") \];',
                      r'policy = ( { address = \1; session_proof = "owner"; } );', text)
        return text + (f'mta = ( {{ name = "a"; log = "{self.log}"; log_start = "begin"; }} );\n')

    def fails(self, domain, count, text):
        self.mail_log.refuse(domain, count, REFUSED.format(domain, text))

    def connect(self, client):
        """A session that stays as long as its policy connection."""
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(10)
        connection.connect(str(self.postern.spool / "private/postern"))
        connection.sendall((f"request=smtpd_access_policy\nprotocol_state=CONNECT\n"
                            f"client_address={client}\nclient_name=unknown\n"
                            f"client_port={4000 + len(self.held)}\nserver_address=192.0.2.25\n"
                            f"server_port=25\n\n").encode())
        answer = b""
        while not answer.endswith(b"\n\n"):
            answer += connection.recv(4096)
        self.held.append(connection)
        return answer

    def top(self, **more):
        return Terminal(self.test, [self.postern.build / "posternctl", "-c", self.postern.file,
                                    "top"], **more)

    def destination(self, name):
        return next((row for row in self.postern.ask("destinations") if row["name"] == name), None)


def row_of(screen, name):
    return next((line.split() for line in screen.splitlines() if line.startswith(name + " ")), [])


def numbers(test, site):
    for n in range(LIMIT + 3):
        site.connect(f"192.0.2.{n + 1}")
    for n in range(5):
        site.connect(f"198.51.100.{n + 1}")
    site.fails("dead.example", 8, "no")
    site.postern.ask("limit", "few.example", "--window", "3", "--ceiling", "7")
    test.wait_for(lambda: (site.destination("dead.example") or {}).get("state") == "dead",
                  "a destination is dead")
    terminal = site.top()
    log_id = re.search(r"event=suspended .*?id=(\w+)", site.postern.log_text()).group(1)
    screen = terminal.shows("postern live", "few.example", "dead.example", "would suspend 1 destination", log_id)
    classes = site.postern.classes()
    for name in ("few", "everyone"):
        row = row_of(screen, name)
        test.equal((int(row[2]), int(row[3]), int(row[6])),
                   (classes[name]["open"], classes[name]["refuse_at"], classes[name]["refused"]),
                   f"class {name}: open, limit and refused as --json has them")
    test.check("[##########]" in row_of(screen, "few")[1], "a full class has a full bar")
    for name in ("dead.example", "few.example"):
        shown, row = row_of(screen, name), site.destination(name)
        # this Postfix has no lanes: nothing is suspended
        state = ["would", "suspend"] if row["state"] == "dead" else [row["state"]]
        shown = shown[len(state) - 1:]
        test.equal(row_of(screen, name)[1:1 + len(state)], state, f"{name}: its state")
        test.equal(shown[2:5], [str(row["window"]), str(row["ceiling"] or "-"),
                                str(row["in_flight"])], f"{name}: as --json has it")
    status = site.postern.status()
    test.check(f"generation {status['generation']}  sessions "
               f"{status['tables'][0]['used']} of {status['tables'][0]['size']}" in screen,
               "the header's numbers, too")
    test.check(re.search(r"refused +192\.0\.2\.\d+ +3 times: class-inbound 4 of 4", screen), "decisions")
    test.check(re.search(rf"{log_id}  would-suspend +dead\.example", screen), "with the ids of the log")
    return terminal


def choose(terminal, name):
    """The row of this name, alone."""
    terminal.keys("/")
    terminal.keys(*["BSpace"] * 20)
    terminal.type(name)
    terminal.keys("Enter")
    terminal.shows(f"filter: {name}")


def by_keys(test, site, terminal):
    terminal.keys("Tab")
    choose(terminal, "few.ex")
    terminal.keys("u")
    terminal.shows("suspend for how long")
    terminal.type("10m")
    terminal.keys("Enter")
    terminal.shows("suspend few.example for 10m? (y/n)")
    terminal.keys("n", "Enter")
    terminal.shows("filter: few.ex")
    test.equal(site.destination("few.example")["state"], "limited", "no is no")
    terminal.keys("u")
    terminal.shows("suspend for how long")
    terminal.type("10m")
    terminal.keys("Enter")
    terminal.shows("(y/n)")
    terminal.keys("y", "Enter")
    terminal.shows("posternctl suspend: few.example", "state", "dead")
    row = site.destination("few.example")
    test.check(row["state"] == "dead" and 590 <= row["until"] <= 600, "yes suspends it for 10 min")
    terminal.keys("Space")
    terminal.shows("would suspend", "would suspend 2 destinations")
    terminal.keys("w")
    terminal.shows("why: few.example", "undo", "resume few.example")
    terminal.keys("q")
    terminal.keys("r")
    terminal.shows("resume few.example? (y/n)")
    terminal.keys("y", "Enter")
    terminal.shows("posternctl resume: few.example")
    test.check(site.destination("few.example")["state"] in ("open", "limited"), "it is resumed")
    terminal.keys("Space")
    terminal.keys("?")
    terminal.shows("next sort order; reverse the order")
    terminal.keys("q")
    terminal.keys("Escape")
    terminal.shows("dead.example")
    terminal.keys("s")
    terminal.shows("sort: in flight")
    terminal.keys("2")
    test.within(3, lambda: "CLASS" not in terminal.screen(), "one pane alone")
    terminal.keys("2")
    terminal.shows("CLASS")


def hostile(test, site, terminal):
    site.fails("evil\xe9.example", 8, EVIL)
    screen = terminal.shows(r"evil\xe9.example")
    test.check("]0;owned" in screen, "control characters are not obeyed")
    test.check("owned" not in terminal.title(), "by the terminal")


def sizes(test, terminal):
    terminal.resize(60, 16)
    terminal.shows("CLASS", "DESTINATION", "TIME")
    terminal.resize(30, 8)
    terminal.shows("too small")
    terminal.resize(200, 50)
    terminal.shows("ADMITTED", "PEAK")
    terminal.resize(80, 24)     # cut off, until it is drawn anew
    terminal.shows("CLASS", "DESTINATION", "TIME", "? help")


def goes_away(test, site, terminal):
    site.postern.stop()
    terminal.shows("posternd is not running", "few", "dead.example")     # what was last is there
    site.postern.start()
    terminal.shows("postern live")
    terminal.keys("q")
    test.within(3, lambda: terminal.ended() == 0, "q ends it")


def colors(test, site):
    ctl = [site.postern.build / "posternctl", "-c", site.postern.file]

    def has_color(*words, **more):
        done = subprocess.run([*ctl, *words], capture_output=True, text=True, timeout=20, **more)
        return "\x1b[" in done.stdout

    test.check(not has_color("status"), "no colours in a pipe")
    test.check(has_color("--color=always", "status"), "but where they are asked for")
    test.check(not has_color("--color=always", "--json", "status"), "and never in JSON")
    for environment, wanted in (({}, True), ({"NO_COLOR": "1"}, False)):
        terminal = Terminal(test, [*ctl, "status"], rows=150, **environment)
        test.wait_for(lambda: terminal.ended() == 0, "status on a terminal")
        test.equal("\x1b[32mlive" in terminal.all(colors=True), wanted,
                   f"colours on a terminal with {environment or 'nothing said'}")


def widths(test, site):
    """Tables keep to a terminal, and say what they leave out; a pipe gets all."""
    ctl = [site.postern.build / "posternctl", "-c", site.postern.file]
    whole = subprocess.run([*ctl, "destinations"], capture_output=True, text=True, timeout=20).stdout
    test.check(max(map(len, whole.splitlines())) > 100, "a pipe gets all columns")
    terminal = Terminal(test, [*ctl, "destinations"], columns=80, rows=50)
    test.wait_for(lambda: terminal.ended() is not None, "destinations on a terminal")
    shown = terminal.all()
    test.check("dead.example" in shown and "--wide shows all" in shown and
               len(re.findall("(?m)^(?:few|dead).example", shown)) == 2, "80 columns: a line each")
    terminal = Terminal(test, [*ctl, "--columns", "name,window", "destinations"], rows=50)
    test.wait_for(lambda: terminal.ended() is not None, "two columns")
    test.check(re.search(r"(?m)^name +window$", terminal.all()), "--columns chooses")
    done = subprocess.run([*ctl, "--columns", "nothing", "classes"], capture_output=True, text=True,
                          timeout=20)
    test.check("no table has one of these" in done.stderr and done.returncode != 0,
               "a column that is not there")


def progress(test, site):
    """How far a long analysis is, where somebody looks."""
    line, stop = site.log.read_bytes().splitlines(True)[0], test.directory / "stop"
    large = test.directory / "large.log"
    large.write_bytes(line * (3000000 // len(line)))
    slow = test.directory / "slow"
    slow.write_text(f"#!/bin/sh\nwhile [ ! -e {stop} ]; do cat {large}; sleep 0.1; done |\n"
                    f"{site.postern.build}/posternctl -c {site.postern.file} analyze - "
                    f">{test.directory}/out && echo over\n")
    slow.chmod(0o755)
    terminal = Terminal(test, [slow])
    terminal.shows("analyze: ", " MB, ")
    stop.touch()
    test.wait_for(lambda: terminal.ended() == 0, "it ends")
    test.check("analyze" not in terminal.all() and "over" in terminal.all(), "and leaves nothing")
    done = subprocess.run([site.postern.build / "posternctl", "-c", site.postern.file, "analyze",
                           large], capture_output=True, text=True, timeout=20)
    test.equal(done.stderr, "", "nor anything where nobody looks")


def no_terminal(test, site):
    done = site.postern.command("top", json_output=False)
    test.check(done.returncode == 69 and "must be a terminal" in done.stderr, done.stderr.strip())
    done = site.postern.command("top")
    test.check(done.returncode == 64 and "no JSON output" in done.stderr, done.stderr.strip())
    dumb = site.top(TERM="dumb")
    test.wait_for(lambda: dumb.ended() is not None, "it ends on a dumb terminal")
    test.equal((dumb.ended(), "TERM=dumb: this terminal cannot move its cursor" in dumb.all()),
               (69, True), "which is told why")
    mono = site.top(TERM="vt100", NO_COLOR="1")
    mono.shows("postern live", "few")
    test.check("\x1b[31" not in mono.screen(colors=True), "a monochrome one has no colours")
    mono.keys("q")
    test.within(3, lambda: mono.ended() == 0, "and is left")


def body(test):
    site = Site(test)
    done = site.postern.command("top", json_output=False)
    if "without ncurses" in done.stderr:
        test.check(done.returncode != 0, "built without ncurses, and said so")
        return
    test.deaths_expected = True
    terminal = numbers(test, site)
    by_keys(test, site, terminal)
    hostile(test, site, terminal)
    sizes(test, terminal)
    goes_away(test, site, terminal)
    colors(test, site)
    widths(test, site)
    progress(test, site)
    no_terminal(test, site)


main(body)
