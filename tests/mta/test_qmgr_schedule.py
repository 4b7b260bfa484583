#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""The scheduler against a real queue manager: `simulate schedule' says what a scenario
comes to, delivery for delivery, and the real one is led through the same: messages come
when the simulation has them come, deliveries end when it has them end.  What the real one
begins next is its own choice, and must be ours.

--rounds N: N scenarios of two destinations by pipe(8), whose command asks the test."""
import json
import os
import subprocess
import time
from pathlib import Path

from lib.postfix import Postfix
from lib.steered import SteeredPipe, SteeredSocket, Submitter
from lib.testing import SOURCE, Failed, Skipped, main

PORT = 2025
BUILD = Path(os.environ.get("POSTERN_BUILD", ".")).resolve()
DESTINATIONS = "abcdefgh"
LATE = 5            # tries of a scenario whose seconds pass too fast
SMALL = {"qmgr_message_recipient_limit": 40, "qmgr_message_recipient_minimum": 5}


class Case:
    """A scenario with one transport.  `parameters`: of the transport, by the document's
    names; `messages`: (second, recipients as (destination, count))."""

    def __init__(self, name, parameters, messages, processes=1, limits=None, service=None):
        self.name, self.parameters, self.processes = name, parameters, processes
        self.messages, self.limits, self.service = messages, limits or {}, service or {}
        self.seconds = len({second for second, _ in messages}) > 1

    def scenario(self):
        def group(**members):
            return "{ " + " ".join(f"{name} = {json.dumps(value)};"
                                   for name, value in members.items()) + " }"
        lines = [f"{name} = {value};" for name, value in self.limits.items()]
        lines += [f'transports = ( {group(name=self.name, process_limit=self.processes, **self.parameters)} );']
        lines += ["destinations = ( " + ", ".join(
            group(name=one, service=f"{ms}ms") for one, ms in self.service.items()) + " );"]
        lines += ["messages = ( " + ",\n".join(
            group(arrive=f"{second}s", recipients=[f"{one}:{count}" for one, count in recipients])
            for second, recipients in self.messages) + " );"]
        return "\n".join(lines) + "\n"

    def main_cf(self):
        return [f"{self.name}_{name} = {value}" for name, value in self.parameters.items()]

    def addresses(self, number):
        """Message `number`, from 1: its recipients as the simulation names them."""
        names, k = [], 0
        for destination, count in self.messages[number - 1][1]:
            names += [f"{number}.{k + i}@{destination}.{self.name}.example" for i in range(count)]
            k += count
        return names

    def size(self):
        return sum(count for _, recipients in self.messages for _, count in recipients)


def simulate(test, case):
    file = test.directory / f"{case.name}.conf"
    file.write_text(case.scenario())
    done = subprocess.run([BUILD / "posternctl", "--json", "simulate", "schedule", "--trace",
                           "--scenario", file], capture_output=True, text=True, timeout=30)
    if done.returncode != 0:
        raise Failed(f"{case.name}: {done.stderr.strip()}")
    return json.loads(done.stdout)


class TooLate(Exception):
    """A second went by in which more should have happened."""


class Leader:
    """Leads the real queue manager through one scenario."""

    def __init__(self, case, agent, submitter, steps):
        self.case, self.agent, self.submitter, self.steps = case, agent, submitter, steps
        self.running = []
        self.zero = None
        self.began = []

    def in_time(self, step):
        """Waits for the step's second; the first begins early in one."""
        second = int(step["time_s"]) if self.case.seconds else 0
        if self.zero is None:
            while time.time() % 1 > (0.15 if self.case.seconds else 0.5):
                time.sleep(0.005)
            self.zero = int(time.time())
        while int(time.time()) < self.zero + second:
            time.sleep(0.005)

    def was_in_time(self, step):
        if step["event"] == "arrive" or self.case.seconds:
            second = int(step["time_s"]) if self.case.seconds else 0
            if int(time.time()) != self.zero + second:
                raise TooLate

    def run(self):
        """What it began, up to the first that should have been another."""
        opened = False
        for step in self.steps:
            self.in_time(step)
            if step["event"] == "arrive":
                self.submitter.send(self.case.addresses(step["message"]))
            elif step["event"] == "start":
                if not opened:
                    self.agent.open()
                opened = True
                if not self.start(step):
                    return
            elif step["event"] == "end":
                self.end(step)
            self.was_in_time(step)

    def start(self, step):
        start = self.agent.next()
        if start is None:
            return False
        self.running.append(start)
        self.began.append(start.key())
        return start.key() == (step["message"], step["destination"].split("@")[-1],
                               step["recipients"])

    def end(self, step):
        one = next(start for start in self.running if start.message == step["message"] and
                   start.destination == step["destination"].split("@")[-1])
        self.running.remove(one)
        one.finish()

    def drain(self):
        """All that is left goes."""
        self.agent.open()
        for start in self.running:
            start.finish()
        while (start := self.agent.next(0.5)) is not None:
            start.finish()
        self.agent.hold()


def lead(test, case, agent, submitter):
    result = simulate(test, case)
    wanted = [(step["message"], step["destination"].split("@")[-1], step["recipients"])
              for step in result["steps"] if step["event"] == "start"]
    for _ in range(LATE):
        leader = Leader(case, agent, submitter, result["steps"])
        try:
            leader.run()
        except TooLate:
            leader.drain()
            continue
        if leader.began == wanted and agent.next(0.01) is None:
            agent.hold()
            return test.check(True, f"{case.name}: {len(wanted)} deliveries of "
                                    f"{len(case.messages)} messages in the same order")
        at = next((i for i, pair in enumerate(zip(leader.began, wanted)) if pair[0] != pair[1]),
                  min(len(leader.began), len(wanted)))
        test.say(case.scenario())
        test.check(False, f"{case.name}: after {at} deliveries the queue manager began "
                          f"{leader.began[at:at + 5]}, wanted {wanted[at:at + 5]}")
        return leader.drain()
    raise Failed(f"{case.name}: the machine is too slow")
