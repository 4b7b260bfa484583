# SPDX-License-Identifier: ISC
"""The commands of a document, run in their order, and what they print held against what
the document shows.

A guide's blocks are indented by four spaces.  A line behind "$ " or "# " is a command (of
members of the group postern, of root), and the lines behind it, up to the next one, what it
prints; where none follow, that is not looked at.  A block that has no command is part of a
file, which the line above it names: "In /etc/postern/postern.conf:".  Where there are several
machines, that line names one, "On mx1:", "In ... on mx1:", or each of them.  "..." stands for
any lines, or the rest of one; numbers, times and ids may be others.
"""
import re
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

from lib.testing import Failed

ID = re.compile(r"\b(?=\w*[0-9])(?=\w*[a-z])[0-9a-hjkmnp-tv-z]{12}\b")
NUMBER = re.compile(r"[0-9]+(\.[0-9]+)?((ms|s|m|h|d|k|M)\b|(?=[dhm][0-9]))?")
PROMPTS = ("    $ ", "    # ")
FILE = re.compile(r"^In (?:the |one's )?(/\S+?)(?: on (\w+)\b.*)?:$")
HOST = re.compile(r"^On (\w+)\b.*:$")


@dataclass
class Step:
    line: int
    command: str = ""
    shown: list = field(default_factory=list)
    file: str = ""                      # the text goes there
    text: str = ""
    host: str = None                    # where, of several machines


def blocks(text):
    """(line, lines, the paragraph's last line above) of what is indented by four; behind an
    empty line a command begins another block."""
    block, start, above = [], 0, ""
    for number, line in enumerate([*text.splitlines(), "end"], 1):
        if block and not block[-1] and line.startswith(PROMPTS):
            yield start, block[:-1], above
            block = []
        if line.startswith("    ") or (block and not line.strip()):
            start = start if block else number
            block.append(line[4:])
            continue
        if block:
            while not block[-1].strip():
                block.pop()
            yield start, block, above
            block = []
        if line.strip():
            above = line.strip()


def guide(path):
    """Its steps."""
    steps = []
    for start, lines, above in blocks(path.read_text()):
        if not lines[0].startswith(("$ ", "# ")):
            named = FILE.match(above)
            if not named:
                raise Failed(f"{path.name}:{start}: neither a command nor part of a file")
            steps.append(Step(start, file=named.group(1), text="\n".join(lines) + "\n",
                              host=named.group(2)))
            continue
        named = HOST.match(above)
        for step in prompted(start, lines):
            step.host = named.group(1) if named else None
            steps.append(step)
    return steps


def prompted(start, lines):
    """Of lines from the first prompt on."""
    steps = []
    for number, line in enumerate(lines, start):
        if steps and steps[-1].command.endswith("\\"):
            steps[-1].command = steps[-1].command[:-1] + line.strip()
        elif line.startswith(("$ ", "# ")):
            steps.append(Step(number, command=line[2:].strip()))
        else:
            steps[-1].shown.append(line)
    return steps


def masked(line):
    line = NUMBER.sub("N", ID.sub("ID", line))
    return " ".join(line.split())


def fits(shown, printed):
    """The first line shown that was not printed, or None.  "..." alone: any lines."""
    shown = [masked(line) for line in shown if line.strip()]
    printed = [masked(line) for line in printed if line.strip()]
    free = False
    for want in shown:
        if want == "...":
            free = True
            continue
        while printed:
            got = printed.pop(0)
            if got == want or (want.endswith(" ...") and got.startswith(want[:-4])):
                break
            if not free:
                return f"{want!r}, but it printed {got!r}"
        else:
            return f"{want!r}, but it printed no such line"
        free = False
    return None if free or not printed else f"nothing more, but it printed {printed[0]!r}"


def top_settings(text):
    """(name, start, end) of each setting at the top level of a file of libconfig's."""
    depth, start, name = 0, None, None
    for token in re.finditer(r'#[^\n]*|"(?:[^"\\]|\\.)*"|[({\[]|[)}\]]|;|[A-Za-z_]\w*(?=\s*[=:])',
                             text):
        word = token.group()
        if word[0] in "([{":
            depth += 1
        elif word[0] in ")]}":
            depth -= 1
        elif word == ";" and depth == 0 and name is not None:
            yield name, start, token.end()
            name = None
        elif depth == 0 and name is None and word[0].isalpha():
            name, start = word, token.start()


def put(file, block):
    """As somebody with an editor: what is there under that name gives way."""
    file = Path(file)
    text = file.read_text() if file.exists() else ""
    if file.suffix == ".conf":
        for name, start, end in list(top_settings(block)):
            there = {its: (a, b) for its, a, b in top_settings(text)}
            a, b = there.get(name, (len(text), len(text)))
            text = text[:a] + block[start:end] + ("" if name in there else "\n") + text[b:]
    elif file.suffix == ".mc":
        at = text.index("MAILER(")
        text = text[:at] + block + text[at:]
    else:
        names = [line.split("=")[0].strip() for line in block.splitlines() if "=" in line]
        text = "".join(line for line in text.splitlines(True)
                       if line.split("=")[0].strip() not in names) + block
    file.write_text(text)


class Reader:
    """Somebody who does what a document says.  `stands_in`: (pattern, reason, what is done
    in its place, or None) of commands that a test cannot run; `before`: (pattern, call):
    what happens on the machine until somebody types such a command.  `codes`: (pattern,
    exit codes) of those that may fail.  `hosts`: name -> a machine (lib/machines), which those
    calls are given, too; "each" is all but `redis`."""

    def __init__(self, test, stands_in=(), before=(), codes=(), hosts=None):
        self.test, self.hosts = test, hosts or {}
        self.stands_in, self.before, self.codes = stands_in, before, codes
        self.ran, self.left_out = 0, 0

    def run(self, command, where, host=None):
        which = () if host is None else (host,)
        for pattern, call in self.before:
            if re.match(pattern, command):
                call(*which)
        for pattern, reason, instead in self.stands_in:
            if re.match(pattern, command):
                self.left_out += 1
                self.test.say(f"{where}: not run: {command} ({reason})")
                if instead is not None:
                    instead(*which)
                return None
        wanted = next((codes for pattern, codes in self.codes if re.match(pattern, command)), (0,))
        begun = time.monotonic()
        done = subprocess.run([*(host.words if host else ()), "bash", "-o", "pipefail", "-c",
                               command], text=True, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60,
                              cwd=self.test.directory)
        self.ran += 1
        if time.monotonic() - begun > 1.0:
            self.test.say(f"{where}: {command} took {time.monotonic() - begun:.1f} s")
        if done.returncode not in wanted:
            self.test.check(False, f"{where}: {command}: exit code {done.returncode}, wanted "
                                   f"{wanted[-1]}: {done.stdout.strip()}")
        return done.stdout

    def follow(self, path, steps=None):
        """A guide, or these steps of another document."""
        steps = guide(path) if steps is None else steps
        self.test.check(bool(steps), f"{path.name} has commands")
        for step in steps:
            for host in self.where(step):
                self.do(step, f"{path.name}:{step.line}" + (f" on {host.name}" if host else ""),
                        host)
        self.test.check(True, f"{path.name}: {self.ran} commands were run, {self.left_out} not")

    def where(self, step):
        if step.host is None:
            return [None]
        if step.host == "each":
            return [host for name, host in self.hosts.items() if name != "redis"]
        return [self.hosts[step.host]]

    def do(self, step, where, host):
        if step.file and host:          # of each: the text has the first one's name
            put(host.file(step.file), step.text.replace(next(iter(self.hosts)), host.name))
            return
        if step.file:
            put(step.file, step.text)
            return
        command = re.sub(r"(^|[|&;] *)sudo ", r"\1", step.command)
        printed = self.run(command, where, host)
        if printed is None or not step.shown:
            return
        wrong = fits(step.shown, printed.splitlines())
        if wrong:
            self.test.check(False, f"{where}: {command}: it shows {wrong}\n{printed}")
