# SPDX-License-Identifier: ISC
"""What README and the manual pages have in their examples: commands, and the rest."""
import re

from lib.document import Step, prompted

PROGRAMS = re.compile(r"(posternctl|posternd|sudo|tail|postern-(postfix|sendmail)-setup)\b")
ROFF = ((r"\-", "-"), (r"\(aq", "'"), (r"\(dq", '"'), (r"\&", ""), (r"\e", "\\"),
        ("\\\\", "\\"))
TYPED = re.compile(r"(sudo |posternctl |postern-|contrib/|tests/|autoreconf |make )")
NUMBERED = re.compile(r" [1-9]\. (.*)")
# Those that fail in a test: (pattern, exit codes).
CODES = ((r"posternctl why [0-9][0-9a-z]{11}$", (68,)),)       # there was no such decision
# What a test cannot run: (pattern, reason, what is done in its place)
LEFT_OUT = (
    (r"contrib/quickstart", "the bare machine's part of run-all runs it", None),
    (r"tests/run-all", "it runs this", None),
    (r"apt-get |contrib/build-deb", "it needs a network; make soak builds and installs the "
     "package", None),
    (r"autoreconf ", "what is under test is built already", None),
    (r"make install", "done at the start, by the same command", None),
    (r"systemd-sysusers|systemctl ", "no systemd here; tests/service runs the unit", None),
    (r"tail -F /jail", "it never ends; test_feed_sources runs posternctl inject", None),
    (r"posternctl (--json )?sendmail (queue|next)", "they need a driven queue; "
     "test_sendmail_queue_ctl has one", None),
    (r"postern-sendmail-setup", "there is a Postfix here; test_guides_sendmail runs it", None),
    (r"posternctl top", "it needs a terminal; test_top has one", None),
)


def plain(line):
    for roff, text in ROFF:
        line = line.replace(roff, text)
    return line.expandtabs().removeprefix("        ")


def man_page(path):
    """(steps, [(line, text) of blocks that are no commands]).  What has a word in italics
    is a form, and no example."""
    steps, others, block, start = [], [], None, 0
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if re.match(r"\.(nf|EX)$", line):
            block, start = [], number + 1
        elif re.match(r"\.(fi|EE)$", line) and block is not None:
            one_block(path, start, block, steps, others)
            block = None
        elif block is not None:
            block.append("" if line.startswith(".sp") else line)
    return steps, others


def one_block(path, start, block, steps, others):
    while block and not block[0]:
        block, start = block[1:], start + 1
    if any(r"\fI" in line or line.startswith(".") for line in block):
        return
    lines = [plain(line) for line in block]
    if lines[0].startswith("$ "):
        steps += prompted(start, lines)
    elif PROGRAMS.match(lines[0]):
        steps += prompted(start, [line if number and lines[number - 1].endswith("\\") else
                                  f"$ {line}" if line else "" for number, line in
                                  enumerate(lines)])
    else:
        others.append((start, "\n".join(lines) + "\n"))


def readme(path):
    """(steps, [(line, path of the tree that it tells of)]).  Behind two spaces stands what
    a command is for."""
    steps, paths, lines = [], [], path.read_text().splitlines()
    number = 0
    while number < len(lines):
        first, line = number + 1, lines[number]
        number += 1
        item = NUMBERED.match(line)
        text = item.group(1) if item else line[4:] if re.match(r"    \S", line) else ""
        if text.startswith(("In postern.conf:", "classes = (")):
            text = text.removeprefix("In postern.conf:")
            while number < len(lines) and lines[number].startswith("      "):
                text += "\n" + lines[number]
                number += 1
            text, _, then = text.partition("  then ")
            steps.append(Step(first, file="/etc/postern/postern.conf", text=text + "\n"))
            text = then
        while text.endswith("\\"):
            text = text[:-1] + lines[number].strip()
            number += 1
        command = re.split(r"  +|, and ", text.strip())[0]
        if TYPED.match(command) and not (path.parent / command).is_dir():
            if not re.match(r"contrib/guides/|tests/[a-z]+/", command):
                words = command.split(", ")
                steps += [Step(first, command=word if not place else
                               f"{words[0].split()[0]} {word}") for place, word in enumerate(words)]
                continue
        if re.match(r"[a-z]+/", command):
            paths.append((first, command))
    return steps, paths
