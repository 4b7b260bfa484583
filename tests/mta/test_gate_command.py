#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""gate.command: how it is run, and what becomes of one that fails or hangs."""
import contextlib
import os
import re
import signal

from lib.postern import Postern, one_class
from lib.testing import alive, main

# a class without places is full: the gate is shut from the beginning
FULL = one_class("none", 0, [25, 2525])


def gate(*words):
    def edit(text):
        text = re.sub(r"^classes = \(.*\Z", f"classes = (\n{FULL} );\n", text,
                      flags=re.M | re.S)
        listed = ", ".join(f'"{word}"' for word in words)
        return re.sub(r"^#gate = .*$", f"gate = {{ command = [ {listed} ]; }};", text,
                      flags=re.M)
    return edit


def script(test, name, text):
    file = test.directory / name
    file.write_text("#!/bin/sh\n" + text)
    file.chmod(0o755)
    return file


def use(test, postern, *words):
    postern.configure((), gate(*words))
    test.equal(postern.command("reload").returncode, 0, f"reload with {words[0].name}")


def is_run(test, postern, told):
    test.wait_for(lambda: told.exists() and "end" in told.read_text(), "the command was run")
    lines = told.read_text().splitlines()
    environment = {line for line in lines if "=" in line}
    test.equal(lines[0], "a b* shut uid 0", "as root, with its words and one more")
    test.check({"POSTERN_GATE_PORTS=25 2525", "POSTERN_GATE_EXEMPT4=127.0.0.0/8 192.0.2.1/32",
                "POSTERN_GATE_EXEMPT6=2001:db8::/32"} <= environment,
               "it is told the ports and whom to spare")
    test.equal({line.split("=")[0] for line in environment} - {"PWD", "OLDPWD", "SHLVL", "_"},
               {"PATH", "LC_ALL", "POSTERN_GATE_PORTS", "POSTERN_GATE_EXEMPT4",
                "POSTERN_GATE_EXEMPT6"}, "and nothing else is in its environment")
    test.check("fds 0 1 2 " in told.read_text(), "nor in its descriptors")
    test.equal(postern.status()["gate"], "shut", "status tells it")


def fails(test, postern):
    use(test, postern, script(test, "fails", 'echo "no \\"luck\\"" >&2; echo more; exit 3\n'))
    test.wait_for(lambda: re.search(
        r"event=gate-command .*word=shut .*exit=3 text=\"no 'luck'\"", postern.log_text()),
        "its exit code and its words are logged")
    use(test, postern, test.directory / "nowhere")
    test.wait_for(lambda: 'text="cannot be run: No such file or directory"'
                  in postern.log_text(), "so is one that is not there")


def pipes(pid):
    found = 0
    for fd in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):    # a file that it had for a moment
            found += os.readlink(f"/proc/{pid}/fd/{fd}").startswith("pipe:")
    return found


def role_of_then(test, postern):
    """One that is started while a command runs."""
    test.deaths_expected = True
    old = postern.roles()["policy.0"]
    before = pipes(old)
    os.kill(old, signal.SIGKILL)
    test.wait_for(lambda: postern.roles().get("policy.0") not in (None, old)
                  and postern.ready(), "the role has a successor")
    test.equal(pipes(postern.roles()["policy.0"]), before,
               "the command's pipe is not among its descriptors")


def hangs(test, postern):
    pids = test.directory / "pids"
    use(test, postern, script(test, "hangs",
        f"sleep 1000 & echo $$ $! >{pids}.new; mv {pids}.new {pids}; wait\n"))
    test.wait_for(pids.exists, "one that hangs is run")

    def both():
        return [int(pid) for pid in pids.read_text().split()]

    def answers():
        """It hangs for 2 s, and again and again: one that has not lived on proves nothing."""
        hung = both()
        return postern.command("reload").returncode == 0 and all(map(alive, hung))
    test.within(0.5, answers, "the supervisor answers meanwhile")
    role_of_then(test, postern)
    hung = both()
    test.within(2.3, lambda: not any(map(alive, hung)),
                "it is killed after 2 s, with what it started")
    test.within(1.0, lambda: re.search(r"event=gate-command .*signal=9 killed=yes",
                                       postern.log_text()), "and that is logged")
    postern.stop()
    test.within(1.0, lambda: not any(map(alive, both())), "the daemon's end leaves none behind")


def body(test):
    told = test.directory / "told"
    first = script(test, "first", f"""{{ echo "$1 $2 $3 uid $(id -u)"; env
echo fds $(ls /proc/$$/fd | sort -n | grep -v '^10$') ""; echo end; }} >{told}.new && mv {told}.new {told}
""")
    postern = Postern(test, edit=gate(first, "a", "b*"),
                      exempt='"127.0.0.0/8", "192.0.2.1", "2001:db8::/32"')
    postern.start()
    is_run(test, postern, told)
    fails(test, postern)
    hangs(test, postern)


main(body)
