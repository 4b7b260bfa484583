#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""Completion of posternctl and postern-simulate in bash, zsh and fish (where these are there), against what its help
says."""
import os
import re
import shutil
import subprocess
from pathlib import Path

from lib.testing import main

BUILD = Path(os.environ.get("POSTERN_BUILD", ".")).resolve()
PLACES = {"bash": "src/completions/bash/posternctl", "zsh": "src/completions/zsh/_posternctl",
          "fish": "src/completions/fish/posternctl.fish"}
SIMULATE = {"bash": "src/completions/bash/postern-simulate",
            "zsh": "src/completions/zsh/_postern-simulate",
            "fish": "src/completions/fish/postern-simulate.fish"}
BASH = """source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
"_${1//-/_}"; printf '%s\\n' "${COMPREPLY[@]}"
"""


def run(*words):
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout + done.stderr


def bash(*words):
    return run("bash", "-c", BASH, "bash", BUILD / PLACES["bash"], "posternctl", *words)[1].split()


def bash_simulate(*words):
    return run("bash", "-c", BASH, "bash", BUILD / SIMULATE["bash"], "postern-simulate",
               *words)[1].split()


def options_of_help(*words, program="posternctl"):
    help_text = run(BUILD / program, *words, "--help")[1]
    return set(re.findall(r"^  (--[a-z-]+)", help_text, re.M))


def body(test):
    commands = bash("")
    test.check({"status", "why", "journal"} <= set(commands), "commands are offered")
    for command in commands:
        code, text = run(BUILD / "posternctl", command, "--help")
        test.check(code == 0, f"{command} is a command: {text.splitlines()[0]}")
    test.equal(bash("jou"), ["journal"], "the begin of a word")
    test.equal(sorted(bash("-c", "/x", "journal", "")), ["check", "dump", "stat"],
               "the second word, behind an option with a value")
    test.equal(bash("--color", "a"), ["auto", "always"], "values of --color")
    test.equal(bash("status", "x"), [], "what nobody knows is left to the shell")
    for words in (("suspend",), ("journal", "dump")):
        test.check(options_of_help(*words) <= set(bash(*words, "--")),
                   f"all options of the help of {' '.join(words)} are offered")
    simulations = bash_simulate("")
    test.equal(sorted(simulations), ["pace", "queue", "schedule", "warm", "window", "workers"],
               "simulations")
    for word in simulations:
        test.check(options_of_help(word, program="postern-simulate") <= set(bash_simulate(word, "--")),
                   f"all options of the help of {word} are offered")
    for shell, place in SIMULATE.items():
        text = (BUILD / place).read_text()
        test.check(all(word in text for word in simulations), f"{shell}: it names each simulation")
        if shutil.which(shell):
            test.equal(run(shell, "-n", BUILD / place), (0, ""), f"{shell} reads it")
    for shell, place in PLACES.items():
        text = (BUILD / place).read_text()
        test.check(all(command in text for command in commands), f"{shell}: it names each command")
        if shutil.which(shell):
            test.equal(run(shell, "-n", BUILD / place), (0, ""), f"{shell} reads it")
    if shutil.which("fish"):
        found = run("fish", "-c", f'source "{BUILD / PLACES["fish"]}"; complete -C "posternctl jou"')[1]
        test.check(found.startswith("journal"), f"fish completes: {found!r}")


main(body)
