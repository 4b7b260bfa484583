#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""The scheduler against a real queue manager: `simulate schedule' says what a scenario
comes to, delivery for delivery, and the real one is led through the same: messages come
when the simulation has them come, deliveries end when it has them end.  What the real one
begins next is its own choice, and must be ours.

--rounds N: N scenarios of two destinations by pipe(8), whose command asks the test."""
import itertools
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
PLUGS = ("p1", "p2", "p3", "p4", "p5", "p6")    # each holds a process, to begin with
LATE = 5            # tries of a scenario whose seconds pass too fast
SMALL = {"qmgr_message_recipient_limit": 40, "qmgr_message_recipient_minimum": 5,
         "qmgr_message_active_limit": 40}       # which the first one is raised to


class Case:
    """A scenario with one transport.  `parameters`: of the transport, by the document's
    names; `messages`: (second, recipients as (destination, count))."""

    def __init__(self, name, parameters, messages, processes=1, limits=None, service=None):
        self.name, self.parameters, self.processes = name, parameters, processes
        self.messages, self.limits, self.service = messages, limits or {}, service or {}
        self.seconds = any(second > 0 for second, _ in messages)

    def scenario(self):
        def group(**members):
            return "{ " + " ".join(f"{name} = {json.dumps(value)};"
                                   for name, value in members.items()) + " }"
        lines = [f"{name} = {value};" for name, value in self.limits.items()]
        lines += [f'transports = ( {group(name=self.name, process_limit=self.processes, **self.parameters)} );']
        lines += ["destinations = ( " + ", ".join(
            group(name=one, service=f"{ms}ms") for one, ms in self.service.items()) + " );"]
        lines += ["messages = ( " + ",\n".join(
            group(arrive=f"{second * 1000:.0f}ms", recipients=[f"{one}:{count}" for one, count in recipients])
            for second, recipients in self.messages) + " );"]
        return "\n".join(lines) + "\n"

    def main_cf(self):
        return [f"{self.name}_{name} = {value}" for name, value in self.parameters.items()]

    def addresses(self, number):
        """Message `number`, from 1: its recipients as the simulation names them."""
        names, k = [], 1
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


def key_of(step):
    return step["message"], step["destination"].split("@")[-1], step["recipients"]


class TooLate(Exception):
    """A second went by in which more should have happened."""


class Leader:
    """Leads the real queue manager through one scenario."""

    def __init__(self, case, agent, submitter, steps):
        self.case, self.agent, self.submitter, self.steps = case, agent, submitter, steps
        self.running = []
        self.zero = None
        self.began = []
        self.names = {}     # queue ids

    def in_time(self, step):
        """Waits for the step's second; the first begins early in one."""
        second = int(step["time_s"]) if self.case.seconds else 0
        if self.zero is None:
            while time.time() % 1 > (0.15 if self.case.seconds else 0.7):
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
        for event, steps in itertools.groupby(self.steps, lambda step: step["event"]):
            steps = list(steps)
            if event == "start":
                self.in_time(steps[0])
                if not opened:
                    self.agent.open()
                opened = True
                if not self.start(steps):
                    return
                self.was_in_time(steps[-1])
            for step in steps:
                self.in_time(step)
                if event == "arrive":
                    self.names[self.submitter.send(self.case.addresses(step["message"]))] = \
                        step["message"]
                elif event == "end":
                    self.end(step)
                self.was_in_time(step)

    def start(self, steps):
        """So many are begun at once."""
        starts = [start for start in (self.agent.next() for _ in steps) if start is not None]
        self.running += starts
        wanted = [key_of(step) for step in steps]
        began = [start.key() for start in starts]
        if not self.agent.ordered:      # they tell in any order
            began.sort(key=lambda key: wanted.index(key) if key in wanted else len(wanted))
        self.began += began
        return began == wanted

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


def lead(test, case, agent, submitter):
    result = simulate(test, case)
    wanted = [key_of(step) for step in result["steps"] if step["event"] == "start"]
    for _ in range(LATE):
        agent.hold()
        leader = Leader(case, agent, submitter, result["steps"])
        try:
            leader.run()
        except TooLate:
            leader.drain()
            continue
        if leader.began == wanted and agent.next(0.01) is None and \
                agent.selected(leader.names) in (None, [key[:2] for key in wanted]):
            return test.check(True, f"{case.name}: {len(wanted)} deliveries of "
                                    f"{len(case.messages)} messages in the same order")
        at = next((i for i, pair in enumerate(zip(leader.began, wanted)) if pair[0] != pair[1]),
                  min(len(leader.began), len(wanted)))
        test.say(case.scenario())
        test.check(False, f"{case.name}: after {at} deliveries the queue manager began "
                          f"{leader.began[at:at + 5]}, wanted {wanted[at:at + 5]}")
        return leader.drain()
    raise Failed(f"{case.name}: the machine is too slow")


# The cases


def random_sizes(test, number):
    """One process, messages of any sizes, all of one second."""
    random = test.random
    parameters = {
        "delivery_slot_cost": random.choice((0, 1, 2, 2, 3, 5, 5, 7)),
        "minimum_delivery_slots": random.choice((0, 1, 1, 2, 3, 5)),
        "delivery_slot_discount": random.choice((0, 0, 25, 50, 50, 75, 100)),
        "delivery_slot_loan": random.choice((0, 0, 1, 3, 5)),
        "destination_recipient_limit": 1}
    largest = random.choice((12, 30, 60))
    sizes = [random.choice((1, 2, 3, random.randint(1, largest), largest))
             for _ in range(random.randint(3, 8))]
    return Case(f"one{number}", parameters, [(0, [("a", size)]) for size in sizes])


def recipients(random, destinations, most):
    return [(one, random.randint(1, most)) for one in random.sample(destinations,
            random.randint(1, len(destinations)))]


def two_destinations(test, number, seconds=0, most=5):
    """Two to `most` destinations with windows, several processes, deliveries that take different times."""
    random = test.random
    limit = random.choice((1, 2, 2, 3, 5))
    parameters = {
        "delivery_slot_cost": random.choice((2, 2, 3, 5)),
        "minimum_delivery_slots": random.choice((0, 1, 1, 2)),
        "delivery_slot_discount": random.choice((0, 50, 50, 100)),
        "delivery_slot_loan": random.choice((0, 0, 1, 3)),
        "destination_recipient_limit": random.choice((2, 2, 3, 5)),
        "destination_concurrency_limit": limit,
        "initial_destination_concurrency": random.randint(1, limit),
        "destination_concurrency_positive_feedback": random.choice((0, 1))}
    names = DESTINATIONS[:min(random.choice((2, 2, 2, 3, 5)), most)]
    messages = [(random.randint(0, seconds), recipients(random, names, random.choice((4, 20, 60))))
                for _ in range(random.randint(4, 9))]
    messages.sort(key=lambda message: message[0])
    # later ones find a queue manager that does not wait for the next
    messages = [(second + number / 1000 if second else 0, what)
                for number, (second, what) in enumerate(messages)]
    slowest = 40 if seconds else 2000
    return Case(f"two{number}", parameters, messages, random.choice((1, 2, 3, 4, 6)),
                service={one: random.randint(1, slowest) for one in names})


def unread(test, number):
    """More recipients than may be in memory, in an instance with small limits."""
    random = test.random
    case = two_destinations(test, number)
    case.name, case.limits = f"unread{number}", SMALL
    case.parameters.update({
        "recipient_limit": random.choice((0, 5, 20, 60)),
        "extra_recipient_limit": random.choice((0, 4, 15)),
        "recipient_refill_limit": random.choice((1, 5, 20)),
        "recipient_refill_delay": "1000s"})
    return case


def main_cf(cases, limits):
    lines = ["relay_domains =", "mynetworks = 127.0.0.0/8", "in_flow_delay = 0",
             "smtpd_recipient_limit = 5000", "queue_run_delay = 1h",
             "transport_maps = inline:{ " + ", ".join(
                 f"{{ {one}.{case.name}.example = {case.name}:{one}.{case.name} }}"
                 for case in cases for one in [*DESTINATIONS, *PLUGS[:case.processes]]) + " }"]
    lines += [f"{name} = {value}" for name, value in limits.items()]
    for case in cases:
        lines += case.main_cf()
    return "\n".join(lines) + "\n"


def against_sockets(test, name, port, cases, limits):
    """All cases, one after the other, with agents of our own."""
    postfix = Postfix(test, [f"{port} inet n - n - - smtpd\n"], name=name,
                      main=main_cf(cases, limits))
    agents = [SteeredSocket(postfix, case.name, case.processes) for case in cases]
    postfix.start(port)
    submitter = Submitter(test, postfix, port)
    for case, agent in zip(cases, agents):
        lead(test, case, agent, submitter)
    log = postfix.log_text()
    test.check("panic" not in log and "status=deferred" not in log, f"{name}: nothing went wrong")


def against_pipes(test, rounds):
    """pipe(8) runs a command that asks; its processes are held by a message of their own
    until all messages are there."""
    cases = [two_destinations(test, number, most=2) for number in range(rounds)]
    agents = [SteeredPipe(test) for _ in cases]
    services = [agent.service(case.name, case.processes) for case, agent in zip(cases, agents)]
    services.append("qmgr unix n - n 300 1 qmgr -v\n")
    postfix = Postfix(test, [f"{PORT} inet n - n - - smtpd\n", *services],
                      main=main_cf(cases, {}))
    postfix.start(PORT)
    submitter = Submitter(test, postfix, PORT)
    for case, agent in zip(cases, agents):
        agent.plug = lambda case=case: submitter.send(
            [f"0.{i}@{plug}.{case.name}.example"
             for i, plug in enumerate(PLUGS[:case.processes])])
        agent.processes = case.processes
        agent.watch(postfix.log, case.name)
        lead(test, case, agent, submitter)


def body(test):
    if not (BUILD / "posternctl").exists():
        raise Skipped("posternctl is not built")
    if test.rounds:
        return against_pipes(test, test.rounds)
    cases = [random_sizes(test, i) for i in range(12)]
    cases += [two_destinations(test, i) for i in range(10)]
    cases += [two_destinations(test, 10, seconds=2)]
    against_sockets(test, "A", PORT, cases, {})
    against_sockets(test, "B", PORT + 1, [unread(test, i) for i in range(8)], SMALL)
    return None


main(body, seconds=85)
