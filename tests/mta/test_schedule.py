#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""postern-simulate schedule from outside: the orders of the document and of a real queue
manager, the document's worked sequences as scenario files (tests/scenarios; what is expected
was worked out by hand), options, bad input."""
import json
import os
import random
import subprocess
import time
from pathlib import Path

from lib.testing import SOURCE, main

BUILD = Path(os.environ.get("POSTERN_BUILD", ".")).resolve()
SHARED = os.environ.get("POSTERN_SHARED")
STEP = ["time_s", "event", "message", "transport", "destination", "recipients", "jobs", "current",
        "blocked", "parents", "slots", "entries", "in_core", "unread", "pool"]
DELIVERY = ["time_s", "message", "transport", "destination", "recipients", "result"]


def run(*words):
    return subprocess.run([BUILD / "postern-simulate", *map(str, words)], capture_output=True, text=True,
                          timeout=60)


def order_of(sizes, cost, minimum, discount, loan):
    done = run("--json", "schedule", "--sizes", ",".join(map(str, sizes)),
               "--slot-cost", cost, "--slot-minimum", minimum, "--slot-discount", discount,
               "--slot-loan", loan)
    return json.loads(done.stdout)["order"]


def digits(order):
    return "".join(map(str, order))


class Scenario:
    """A scenario file that was run with all its states."""

    def __init__(self, test, name):
        file = SOURCE / "tests/scenarios" / f"{name}.conf"
        done = run("--json", "schedule", "--trace", "--scenario", file)
        test.equal((done.returncode, done.stderr), (0, ""), f"{name}.conf runs")
        self.result = json.loads(done.stdout)
        self.order = digits(self.result["order"])
        self.steps = self.result["steps"]

    def at(self, seconds, event="start"):
        """The first such step of that time."""
        return next(step for step in self.steps
                    if step["time_s"] == seconds and step["event"] == event)

    def events(self, event):
        return [step for step in self.steps if step["event"] == event]


def the_orders_of_the_document(test):
    test.equal(digits(order_of([4, 1, 1, 1, 1], 2, 1, 0, 0)), "11211345",
               "one of 4 recipients and four of one: slots are saved before they are used")
    test.equal(digits(order_of([10, 2, 2], 2, 1, 0, 0)), "11112211113311",
               "10, 2, 2 with cost 2")
    test.equal(digits(order_of([10, 2, 2], 2, 1, 50, 0)), "11221111331111",
               "the same with a discount of 50 percent")


def the_orders_of_a_real_queue_manager(test):
    if not SHARED or not (Path(SHARED) / "qmgr-oracle.json").exists():
        return test.say("what it was asked is not beside the project: left out")
    for row in json.loads((Path(SHARED) / "qmgr-oracle.json").read_text()):
        case = row["case"]
        got = order_of(case["sizes"], case["cost"], case["minslots"], case["discount"],
                       case["loan"])
        test.equal(got, row["order"], f"the real order of {case}")
    return None


def the_stack_of_1_4_7(test):
    scenario = Scenario(test, "stack-1-4-7")
    test.equal(scenario.order, "1" * 12 + "4444" + "77" + "44" + "1" * 8 + "2" * 8 + "3" * 8 +
               "6666" + "3333" + "5" * 8 + "8" * 8, "1 is preempted by 4, 4 by 7, and each goes on")
    stack = scenario.at(16)
    test.equal((stack["message"], stack["jobs"], stack["current"], stack["parents"]),
               (7, "7-4-1-2-3-5-6-8", "7", "7:4 4:1"), "the stack 1-4-7 at its height")
    test.equal((scenario.at(12)["jobs"], scenario.at(12)["parents"]), ("4-1-2-3-5", "4:1"),
               "and before, 1-4")
    test.equal((scenario.at(18)["jobs"], scenario.at(18)["parents"]), ("4-1-2-3-5-6-8", "4:1"),
               "and after 7 is done, 1-4 again")


def seven_four_one_and_two_are_blocked(test):
    scenario = Scenario(test, "blocked-3-by-6")
    test.equal(scenario.order, "1" * 12 + "4444" + "7" + "3" * 8 + "66" + "7" + "44" + "1111" +
               "66" + "1111" + "2" * 8 + "3333" + "5" * 8 + "8" * 8,
               "3 goes on while 7, 4, 1 and 2 are blocked, and 6 slips past it")
    blocked, preempted = scenario.at(17), scenario.at(25)
    test.equal((blocked["message"], blocked["current"], blocked["blocked"], blocked["jobs"]),
               (3, "3", "7 4 1 2", "7-4-1-2-3-5-6-8"), "3 becomes the current job")
    test.equal((preempted["message"], preempted["jobs"], preempted["parents"], preempted["current"]),
               (6, "7-4-1-2-6-3-5-8", "7:4 4:1 6:3", "6"), "and is preempted by 6")
    test.equal(scenario.at(27)["message"], 7, "the first of the list goes on when it can")


def list_order_7_8_1_2_6_3_5(test):
    scenario = Scenario(test, "list-7-8-1-2-6-3-5")
    test.equal(scenario.order, "1" * 18 + "4444" + "7" + "4444" + "8" + "4" + "3" * 10 + "66" + "7" +
               "8" + "1" * 6 + "66" + "33" + "6" + "1" * 6 + "2" * 10 + "5" * 10,
               "the order of it all")
    two, gone, last = scenario.at(27), scenario.at(28), scenario.at(39)
    test.equal((two["jobs"], two["parents"]), ("7-8-4-1-2-3-5-6", "7:4 8:4 4:1"),
               "4 is preempted by 7 and by 8 at the same time")
    test.equal((gone["jobs"], gone["parents"]), ("7-8-1-2-3-5-6", "7:1 8:1"),
               "4 is gone, 1 has adopted 7 and 8")
    test.equal((last["jobs"], last["parents"], last["blocked"]),
               ("7-8-1-2-6-3-5", "7:1 8:1 6:3", "7 8 1 2"), "the list order 7-8-1-2-6-3-5")
    test.equal(scenario.at(49)["slots"], "6:3 3:6", "6 preempts 1, and 3 gets back the slots of the 3 "
                                                    "entries that it lent in vain")


def the_pool_example(test):
    scenario = Scenario(test, "pool-example")
    test.equal([(step["transport"], step["in_core"]) for step in scenario.events("arrive")],
               [("first", "1:1/4"), ("second", "1:5/5"), ("third", "1:2/0")],
               "in core 1, 5, 2; slots 4, 5, 0")
    test.equal(scenario.events("arrive")[-1]["unread"], "1:20+9",
               "8 are in core, so 1 + the minimum of 8 may be read")
    test.equal([step["recipients"] for step in scenario.events("read")][0], 9, "and are")
    scenario = Scenario(test, "pool-example-7")
    test.equal([(step["transport"], step["in_core"]) for step in scenario.events("arrive")],
               [("first", "1:1/4"), ("second", "1:4/5"), ("third", "1:2/0")],
               "in core 1, 4, 2, which are 7; slots 4, 5, 0")
    test.equal(scenario.events("arrive")[-1]["unread"], "1:20+9", "2 + the minimum of 7 may be read")
    test.equal([step["recipients"] for step in scenario.events("read")][0], 9, "and are")


def half_of_normal_plus_extra_pool(test):
    scenario = Scenario(test, "extra-pool")
    second = next(step for step in scenario.events("start") if step["message"] == 2)
    test.equal(second["pool"], "-5", "an unread job that preempts gets half of 10")
    test.check("2:7/5" in second["in_core"].split(), f"and uses its 5 slots and the minimum of 2: "
                                                     f"{second['in_core']}")
    third = next(step for step in scenario.events("start") if step["message"] == 3)
    test.equal((third["time_s"], third["pool"]), (30, "-8"),
               "and the next half of the 5 that are left")
    test.check("3:3/3" in third["in_core"].split(), f"which it has: {third['in_core']}")
    test.check(all(int(step["pool"]) >= -10 for step in scenario.steps),
               "never more than the extra pool")


def refill_limit_and_delay(test):
    limit = [(step["time_s"], step["recipients"])
             for step in Scenario(test, "refill-limit").events("read")]
    delay = [(step["time_s"], step["recipients"])
             for step in Scenario(test, "refill-delay").events("read")]
    test.equal(limit, [(0, 20), (1, 10), (2, 10), (3, 10), (4, 5)],
               "refill limit: when 10 slots are free")
    test.equal(delay, [(0, 20), (5, 5), (10, 5), (15, 5), (20, 5), (25, 5), (30, 5), (35, 5)],
               "refill delay: whatever is free after 5 s")


def one_recipient_a_delivery(test):
    scenario = Scenario(test, "recipient-limit-1")
    test.equal([(step["time_s"], step["message"], step["destination"])
                for step in scenario.result["deliveries"]],
               [(0, 1, "ann@a"), (0, 1, "joe@a"), (0, 2, "bob@a"), (1, 2, "joe@a"), (2, 3, "joe@a")],
               "recipient limit 1: each recipient is a destination")


def estimates_of_the_unread(test):
    scenario = Scenario(test, "estimates")
    test.equal(scenario.at(0)["entries"], "1:1/40 2:0/1..7 3:0/1..3 4:0/1",
               "as many entries more as there are unread recipients, at most")
    test.equal(scenario.order, "11" + "4" + "1" * 6 + "33" + "1" * 12 + "2222" + "1" * 20,
               "they need as many slots, and give back what they did not need")


def turns_and_order(test):
    scenario = Scenario(test, "transports-in-turn")
    test.equal([(step["time_s"], step["message"], step["destination"])
                for step in scenario.result["deliveries"]],
               [(0, 1, "a"), (0, 3, "c"), (0, 1, "b"), (0, 3, "c"),
                (1, 1, "a"), (1, 3, "c"), (1, 1, "b"), (2, 2, "a")],
               "transports in turn, and the destinations of a job in turn")
    scenario = Scenario(test, "fifo-by-destination")
    test.equal([(step["message"], step["destination"]) for step in scenario.result["deliveries"]],
               [(1, "x@a"), (1, "y@b"), (2, "y@b"), (3, "y@b"), (2, "x@a"), (5, "y@b"), (3, "x@a"),
                (4, "x@a")], "each destination's mail comes in the order of its messages")


def tried(scenario):
    """Each delivery: when, of which message, to whom, and how it ended."""
    return [(step["time_s"], step["message"], step["destination"], step["result"])
            for step in scenario.result["deliveries"]]


def put_off(scenario, event="defer"):
    return [(step["time_s"], step["message"], step["destination"], step["recipients"])
            for step in scenario.events(event)]


def dead_destination(test):
    scenario = Scenario(test, "dead-destination")
    test.equal(tried(scenario),
               [(0, number, "a", "failed") for number in (1, 1, 2, 2, 3)] +
               [(1, 4, "b", "delivered")] * 2 + [(2, 5, "c", "failed")] +
               [(600, number, "a", "delivered") for number in (1, 1, 2, 2, 3)] +
               [(600, 5, "c", "failed"), (601, 3, "a", "delivered"), (601, 4, "a", "delivered")],
               "a dead destination: what waits is not tried before its time")
    test.equal(put_off(scenario),
               [(0.05, 1, "a", 2), (0.05, 1, "a", 2), (0.05, 2, "a", 2), (0.05, 3, "a", 2),
                (0.05, 2, "a", 2), (0.05, 3, "a", 2), (1, 4, "a", 2), (2.05, 5, "c", 1)],
               "who is deferred, and when")
    test.equal(put_off(scenario, "bounce"), [(600.05, 5, "c", 1)], "what is too old bounces")
    test.equal([scenario.result[name] for name in ("failures", "deferred", "bounced")], [7, 15, 1],
               "the sums")


def dead_transport(test):
    scenario = Scenario(test, "dead-transport")
    test.equal(tried(scenario),
               [(0, 1, "r", "delivered"), (10, 2, "r", "failed"), (40, 3, "a", "delivered"),
                (75, 4, "s", "delivered"), (120, 2, "r", "delivered"), (120, 3, "s", "delivered")],
               "a dead transport: the other one goes on")
    test.equal(put_off(scenario), [(10.05, 2, "r", 1), (40, 3, "s", 1)], "who is deferred")


def incoming_first(test):
    test.equal(Scenario(test, "incoming-first").order, "23415", "incoming mail goes before deferred")


def nothing_is_lost(test, rounds=40):
    """Whatever fails: each recipient is delivered to once, as deferred ones come back."""
    file = test.directory / "any.conf"
    for seed in range(rounds):
        draw = random.Random(seed)
        names = "abcd"[:draw.randint(1, 4)]
        accepts = "".join(f'{{ name = "{name}"; accepts = "{draw.randint(0, 4)},'
                          f'{draw.randint(0, 9)}@{draw.randint(1, 900)}s,9@1000s"; }},'
                          for name in names)
        total, messages = 0, []
        for _ in range(draw.randint(1, 30)):
            counts = [(name, draw.randint(1, 12)) for name in draw.sample(names, draw.randint(1, len(names)))]
            total += sum(count for _, count in counts)
            messages.append("{ recipients = [ " + ", ".join(f'"{name}:{count}"' for name, count in counts) +
                            f' ]; arrive = "{draw.randint(0, 600)}s"; }}')
        file.write_text(
            f"default_process_limit = {draw.randint(1, 20)};\n"
            f"qmgr_message_active_limit = {draw.randint(1, 30)};\n"
            f"qmgr_message_recipient_minimum = {draw.randint(1, 10)};\n"
            f"default_destination_recipient_limit = {draw.randint(1, 5)};\n"
            f"default_recipient_limit = {draw.randint(5, 50)};\n"
            f"destinations = ( {accepts.rstrip(',')} );\nmessages = ( {', '.join(messages)} );\n")
        done = run("--json", "schedule", "--scenario", file)
        result = json.loads(done.stdout) if done.returncode == 0 else {"deliveries": []}
        reached = sum(row["recipients"] for row in result["deliveries"] if row["result"] == "delivered")
        if done.returncode != 0 or reached != total:
            test.check(False, f"seed {seed}: {reached} of {total} recipients, exit code "
                       f"{done.returncode}: {done.stderr.strip()}")
    test.check(True, f"{rounds} scenarios with failures: each recipient is delivered to once")


def both_outputs(test):
    file = SOURCE / "tests/scenarios/stack-1-4-7.conf"
    for words in (["--sizes", "10,2,2"], ["--sizes", "10,2,2", "--trace"], ["--scenario", file],
                  ["--scenario", file, "--trace"]):
        text = run("schedule", *words)
        data = json.loads(run("--json", "schedule", *words).stdout)
        names = [line.split()[0].rstrip(":") for line in text.stdout.splitlines()
                 if line and not line[0].isspace() and line.split()[0].rstrip(":") in data]
        test.equal(names, list(data), f"the same names in both outputs: {', '.join(data)}")
        for name, columns in (("deliveries", DELIVERY), ("steps", STEP)):
            if name in data:
                test.equal(list(data[name][0]), columns, f"columns of {name}")
    test.equal(run("schedule", "--sizes", "4,1").stdout.split(), ["order", "1", "1", "1", "1", "2"],
               "sizes alone give the order alone")


def bad_input(test):
    def refused(code, error, *words):
        done = run("schedule", *words)
        test.equal((done.returncode, error in done.stderr), (code, True),
                   f"{' '.join(map(str, words))}: {done.stderr.splitlines()[:1]}")
    refused(64, "give either --sizes or --scenario")
    refused(64, "give either", "--sizes", "1", "--scenario", "x")
    for sizes in ("", "0", "1,", ",1", "x", "-1", "1.5", "1000001", "999999,2", "99999999999"):
        refused(64, "is not N,N,...", "--sizes", sizes)
    for option in ("--slot-cost", "--slot-minimum", "--slot-loan"):
        for value in ("x", "-1", "", "1000001"):
            refused(64, "is not 0 to 1000000", "--sizes", "4,1", option, value)
    refused(64, "is not 0 to 100", "--sizes", "4,1", "--slot-discount", "101")
    refused(64, "cannot be used with --scenario", "--scenario", "x", "--slot-cost", "2")
    refused(66, "No such file", "--scenario", test.directory / "none")
    file = test.directory / "bad.conf"
    for text, error in (
            ("messages = (\n { recipients = \"a:x\"; } );", ":2: error: messages.recipients"),
            ("messages = (\n { recipients = \"a\"; ) );", ":2: error: syntax error"),
            ("messages = ( { recipients = \"a\"; } );\ncompletions = [ \"1\",\n \"1\" ];",
             ":3: error: completions: this delivery is not in progress at 0.000 s"),
            ("destinations = ( { name = \"a\"; window = \"0\"; } );\n"
             "messages = ( { recipients = \"a\"; count = 3; } );", "3 messages are never delivered"),
            ("messages = ( { recipients = \"a\"; } );\nmaximal_backoff_time = \"1s\";\n"
             "minimal_backoff_time = \"1s\"; queue_run_delay = \"1s\";", "maximal_queue_lifetime: more than"),
            ("messages = ( { recipients = \"a\"; queue = \"hold\"; } );", ":1: error: messages.queue"),
            ("destinations = ( { name = \"a\"; accepts = \"x\"; } );\n"
             "messages = ( { recipients = \"a\"; } );", ":1: error: destinations.accepts"),
            ("transports = ( { name = \"t\"; works = \"1,0\"; } );\n"
             "messages = ( { recipients = \"a\"; } );", ":1: error: transports.works"),
            ("destinations = ( { name = \"a\"; accepts = \"1\"; } );\n"
             "messages = ( { recipients = \"a\"; } );\ncompletions = [ \"1\" ];",
             ":3: error: completions: cannot be used with"),
            ("messages = ( { recipients = \"a\"; } );\nservice = \"400d\";", ":2: error: service")):
        file.write_text(text)
        refused(65, error, "--scenario", file)


def much_at_once(test):
    start = time.monotonic()
    file = test.directory / "much.conf"
    file.write_text("default_process_limit = 20;\n"
                    "messages = ( { recipients = \"a:100000\"; }, { recipients = \"b\"; count = 20000; } );")
    done = run("schedule", "--scenario", file)
    test.equal(done.returncode, 0, f"120,000 recipients in {time.monotonic() - start:.1f} s")


def body(test):
    the_orders_of_the_document(test)
    the_orders_of_a_real_queue_manager(test)
    the_stack_of_1_4_7(test)
    seven_four_one_and_two_are_blocked(test)
    list_order_7_8_1_2_6_3_5(test)
    the_pool_example(test)
    half_of_normal_plus_extra_pool(test)
    refill_limit_and_delay(test)
    one_recipient_a_delivery(test)
    estimates_of_the_unread(test)
    turns_and_order(test)
    dead_destination(test)
    dead_transport(test)
    incoming_first(test)
    nothing_is_lost(test)
    both_outputs(test)
    bad_input(test)
    much_at_once(test)


main(body)
