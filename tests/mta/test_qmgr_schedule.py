#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""The scheduler against a real queue manager: `postern-simulate schedule' says what a scenario
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
from lib.testing import Failed, Skipped, main

PORT = 2025
BUILD = Path(os.environ.get("POSTERN_BUILD", ".")).resolve()
DESTINATIONS = "abcdefgh"
PLUGS = ("p1", "p2", "p3", "p4", "p5", "p6")    # each holds a process, to begin with
LATE = 5            # tries of a scenario whose seconds pass too fast
SMALL = {"qmgr_message_recipient_limit": 40, "qmgr_message_recipient_minimum": 5,
         "qmgr_message_active_limit": 40}       # which the first one is raised to


class Transport:
    """Its parameters by the document's names, and which destinations it has."""

    def __init__(self, name, parameters, processes, destinations=DESTINATIONS):
        self.name, self.parameters = name, parameters
        self.processes, self.destinations = processes, destinations


def group(**members):
    return "{ " + " ".join(f"{name} = {json.dumps(value)};"
                           for name, value in members.items()) + " }"


class Case:
    """A scenario.  `messages`: (second, recipients as (destination, count)); `service`:
    milliseconds by destination."""

    def __init__(self, name, transports, messages, limits=None, service=None):
        self.name, self.transports, self.messages = name, transports, messages
        self.limits, self.service = limits or {}, service or {}
        self.seconds = any(second > 0 for second, _ in messages)

    def transport(self, destination):
        return next(one for one in self.transports if destination in one.destinations).name

    def scenario(self):
        lines = [f"{name} = {value};" for name, value in self.limits.items()]
        lines += ["transports = ( " + ",\n".join(
            group(name=one.name, process_limit=one.processes, **one.parameters)
            for one in self.transports) + " );"]
        lines += ["destinations = ( " + ", ".join(
            group(name=one, transport=self.transport(one), service=f"{ms}ms")
            for one, ms in self.service.items()) + " );"]
        lines += ["messages = ( " + ",\n".join(
            group(arrive=f"{second * 1000:.0f}ms",
                  recipients=[f"{one}:{count}" for one, count in recipients])
            for second, recipients in self.messages) + " );"]
        return "\n".join(lines) + "\n"

    def main_cf(self):
        return [f"{one.name}_{name} = {value}" for one in self.transports
                for name, value in one.parameters.items()]

    def maps(self):
        """Entries of transport_maps."""
        return [f"{{ {to}.{self.name}.example = {one.name}:{to}.{self.name} }}"
                for one in self.transports
                for to in [*one.destinations, *PLUGS[:one.processes]]]

    def addresses(self, number):
        """Message `number`, from 1: its recipients as the simulation names them."""
        names, k = [], 1
        for destination, count in self.messages[number - 1][1]:
            names += [f"{number}.{k + i}@{destination}.{self.name}.example" for i in range(count)]
            k += count
        return names


def simulate(test, case):
    file = test.directory / f"{case.name}.conf"
    file.write_text(case.scenario())
    done = subprocess.run([BUILD / "postern-simulate", "--json", "schedule", "--trace",
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

    def __init__(self, case, agents, submitter, steps):
        self.case, self.agents, self.submitter, self.steps = case, agents, submitter, steps
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
        many, opened = len(self.agents) > 1, False
        for event, steps in itertools.groupby(self.steps, lambda step: step["event"]):
            steps = list(steps)
            if event == "start":
                self.in_time(steps[0])
                if not opened and not many:
                    self.agents[self.case.name].open()
                opened = True
                if not (self.start_each(steps) if many else self.start(steps)):
                    return
                self.was_in_time(steps[-1])
            for step in steps:
                self.in_time(step)
                # it is told once for each transport
                if event == "arrive" and step["message"] not in self.names.values():
                    self.names[self.submitter.send(self.case.addresses(step["message"]))] = \
                        step["message"]
                elif event == "end":
                    self.end(step)
                self.was_in_time(step)

    def start(self, steps):
        """So many are begun at once."""
        agent = self.agents[self.case.name]
        starts = [start for start in (agent.next() for _ in steps) if start is not None]
        self.running += starts
        wanted = [key_of(step) for step in steps]
        began = [start.key() for start in starts]
        if not agent.ordered and sorted(began) == sorted(wanted):
            began = wanted              # they tell in any order; selected() knows
        self.began += began
        return began == wanted

    def start_each(self, steps):
        """Transports choose by themselves; which has its turn is for the simulation to say."""
        for step in steps:
            agent = self.agents[step["transport"]]
            agent.allow()
            start = agent.next()
            if start is None:
                return False
            self.running.append(start)
            self.began.append(start.key())
            if start.key() != key_of(step):
                return False
        return True

    def end(self, step):
        one = next(start for start in self.running if start.message == step["message"] and
                   start.destination == step["destination"].split("@")[-1])
        self.running.remove(one)
        one.finish()

    def drain(self):
        """All that is left goes."""
        for agent in self.agents.values():
            agent.open()
        for start in self.running:
            start.finish()
        while any([self.drain_one(agent) for agent in self.agents.values()]):
            continue

    @staticmethod
    def drain_one(agent):
        start = agent.next(0.5)
        if start is not None:
            start.finish()
        return start is not None


def lead(test, case, agents, submitter):
    """`agents`: by transport."""
    result = simulate(test, case)
    wanted = [key_of(step) for step in result["steps"] if step["event"] == "start"]
    for _ in range(LATE):
        for agent in agents.values():
            agent.hold()
        leader = Leader(case, agents, submitter, result["steps"])
        try:
            leader.run()
        except TooLate:
            leader.drain()
            continue
        if leader.began == wanted and all(
                agent.next(0.01) is None and
                agent.selected(leader.names) in (None, [key[:2] for key in wanted])
                for agent in agents.values()):
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
    largest = random.choice((12, 30, 50))
    sizes = [random.choice((1, 2, 3, random.randint(1, largest), largest))
             for _ in range(random.randint(3, 7))]
    name = f"one{number}"
    return Case(name, [Transport(name, parameters, 1)], [(0, [("a", size)]) for size in sizes])


def recipients(random, destinations, most):
    return [(one, random.randint(1, most)) for one in random.sample(destinations,
            random.randint(1, len(destinations)))]


def parameters(random):
    limit = random.choice((1, 2, 2, 3, 5))
    return {
        "delivery_slot_cost": random.choice((2, 2, 3, 5)),
        "minimum_delivery_slots": random.choice((0, 1, 1, 2)),
        "delivery_slot_discount": random.choice((0, 50, 50, 100)),
        "delivery_slot_loan": random.choice((0, 0, 1, 3)),
        "destination_recipient_limit": random.choice((2, 2, 3, 5)),
        "destination_concurrency_limit": limit,
        "initial_destination_concurrency": random.randint(1, limit),
        "destination_concurrency_positive_feedback": random.choice((0, 1))}


def pool(random):
    return {
        "recipient_limit": random.choice((0, 5, 20, 60)),
        "extra_recipient_limit": random.choice((0, 4, 15)),
        "recipient_refill_limit": random.choice((1, 5, 20)),
        "recipient_refill_delay": "1000s"}


def two_destinations(test, number, seconds=0, most=5):
    """Two to `most` destinations with windows, several processes, deliveries that take
    different times."""
    random = test.random
    names = DESTINATIONS[:min(random.choice((2, 2, 2, 3, 5)), most)]
    messages = [(random.randint(0, seconds), recipients(random, names, random.choice((4, 12, 45))))
                for _ in range(random.randint(4, 9))]
    messages.sort(key=lambda message: message[0])
    # later ones find a queue manager that does not wait for the next
    messages = [(second + number / 1000 if second else 0, what)
                for number, (second, what) in enumerate(messages)]
    slowest = 40 if seconds else 2000
    name = f"two{number}"
    return Case(name, [Transport(name, parameters(random), random.choice((1, 2, 3, 4, 6)))],
                messages, service={one: random.randint(1, slowest) for one in names})


def unread(test, number):
    """More recipients than may be in memory, in an instance with small limits."""
    case = two_destinations(test, number)
    case.name = case.transports[0].name = f"unread{number}"
    case.limits = SMALL
    case.transports[0].parameters.update(pool(test.random))
    return case


def two_transports(test, number):
    """The same with messages that go by two transports, whose slots help one another."""
    random = test.random
    case = unread(test, number)
    case.name = f"both{number}"
    case.transports = [
        Transport(f"both{number}{letter}", {**parameters(random), **pool(random)},
                  random.choice((1, 2, 3)), destinations)
        for letter, destinations in (("x", DESTINATIONS[::2]), ("y", DESTINATIONS[1::2]))]
    return case


def main_cf(cases, limits):
    lines = ["relay_domains =", "mynetworks = 127.0.0.0/8", "in_flow_delay = 0",
             "smtpd_recipient_limit = 5000", "queue_run_delay = 1h",
             "transport_maps = inline:{ " + ", ".join(
                 entry for case in cases for entry in case.maps()) + " }"]
    lines += [f"{name} = {value}" for name, value in limits.items()]
    for case in cases:
        lines += case.main_cf()
    return "\n".join(lines) + "\n"


def against_sockets(test, name, port, cases, limits):
    """All cases, one after the other, with agents of our own."""
    postfix = Postfix(test, [f"{port} inet n - n - - smtpd\n"], name=name,
                      main=main_cf(cases, limits))
    agents = [{one.name: SteeredSocket(postfix, one.name, one.processes) for one in case.transports}
              for case in cases]
    postfix.start(port)
    submitter = Submitter(test, postfix, port)
    for case, its in zip(cases, agents):
        lead(test, case, its, submitter)
    log = postfix.log_text()
    test.check("panic" not in log and "status=deferred" not in log, f"{name}: nothing went wrong")


def against_pipes(test, rounds):
    """pipe(8) runs a command that asks; its processes are held by a message of their own
    until all messages are there."""
    cases = [two_destinations(test, number, most=2) for number in range(rounds)]
    agents = [SteeredPipe(test) for _ in cases]
    services = [agent.service(case.name, case.transports[0].processes)
                for case, agent in zip(cases, agents)]
    services.append("qmgr unix n - n 300 1 qmgr -v\n")
    postfix = Postfix(test, [f"{PORT} inet n - n - - smtpd\n", *services],
                      main=main_cf(cases, {}))
    postfix.start(PORT)
    submitter = Submitter(test, postfix, PORT)
    for case, agent in zip(cases, agents):
        plugs = [f"0.{i}@{plug}.{case.name}.example"
                 for i, plug in enumerate(PLUGS[:case.transports[0].processes])]
        agent.plug = lambda plugs=plugs: submitter.send(plugs)
        agent.processes = len(plugs)
        agent.watch(postfix.log, case.name)
        lead(test, case, {case.name: agent}, submitter)


def body(test):
    if not (BUILD / "postern-simulate").exists():
        raise Skipped("posternctl is not built")
    if test.rounds:
        return against_pipes(test, test.rounds)
    cases = [random_sizes(test, i) for i in range(10)]
    cases += [two_destinations(test, i) for i in range(10)]
    cases += [two_destinations(test, 10, seconds=2)]
    against_sockets(test, "A", PORT, cases, {})
    cases = [unread(test, i) for i in range(5)] + [two_transports(test, i) for i in range(5)]
    against_sockets(test, "B", PORT + 1, cases, SMALL)
    return None


main(body, seconds=85)
