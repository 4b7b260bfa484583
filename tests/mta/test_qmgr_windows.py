#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""The law postfix against a real queue manager: fed the same results, it has the same
window after each, line by line of destination_concurrency_feedback_debug.

What the queue manager saw is taken from its verbose log: each start tells how many are
busy, each answer of a delivery agent whether the site is to blame."""
import os
import random
import re
import socket
import subprocess
import threading
import time
from pathlib import Path

from lib.limiter import Limiter
from lib.postfix import Postfix
from lib.testing import Skipped, main

PORT = 2025
SERVICE = 0.02

# Name, positive, negative feedback, initial, limit, failed cohorts, what the server takes
# at once, deliveries.
TRANSPORTS = (
    ("w1", "1/concurrency", "1/concurrency", 5, 20, 5, 5, 502),
    ("w2", "1/sqrt_concurrency", "1/sqrt_concurrency", 5, 20, 9, 5, 502),
    ("w3", "1", "1", 5, 20, 9, 5, 502),
    ("w4", "1/4", "1/3", 2, 12, 9, 7, 502),
    ("w5", "0.9/concurrency", "0.3", 1, 0, 0, 30, 60),
)
REVIVED = ("w6", "1/concurrency", "1/concurrency", 5, 20, 1, 1, 10)
BURIED = ("w7", "1", "1", 5, 20, 1, 0, 10)
ROWS = (*TRANSPORTS, REVIVED, BURIED)


class Server(Limiter):
    """`slow` messages are held until they are let go."""

    def __init__(self, test, port, limit, seed):
        self.slow = None
        self.random = random.Random(seed)
        super().__init__(test, ["127.0.0.1"], port, limit)

    def take(self):
        if self.slow is not None:
            self.slow.wait()
        else:
            time.sleep(SERVICE * self.random.uniform(0.5, 1.5))     # LINT-SLEEP: the service


def settings():
    """main.cf: two recipients a delivery, so that destinations are domains, not
    recipients."""
    lines = ["relay_domains =", "mynetworks = 127.0.0.0/8",
             "destination_concurrency_feedback_debug = yes",
             "smtp_connection_cache_on_demand = no", "smtpd_recipient_limit = 5000",
             "queue_run_delay = 1h", "minimal_backoff_time = 2s", "in_flow_delay = 0",
             "transport_maps = inline:{ " + ", ".join(
                 f"{{ {row[0]}.example = {row[0]}:[127.0.0.1]:{3000 + i} }}"
                 for i, row in enumerate(ROWS)) + " }"]
    for name, positive, negative, initial, limit, cohorts, *_ in ROWS:
        lines += [f"{name}_initial_destination_concurrency = {initial}",
                  f"{name}_destination_concurrency_limit = {limit}",
                  f"{name}_destination_concurrency_positive_feedback = {positive}",
                  f"{name}_destination_concurrency_negative_feedback = {negative}",
                  f"{name}_destination_concurrency_failed_cohort_limit = {cohorts}",
                  f"{name}_destination_recipient_limit = 2"]
    services = [f"{row[0]} unix - - n - - smtp\n" for row in ROWS]
    services += ["qmgr unix n - n 300 1 qmgr -v\n", f"{PORT} inet n - n - - smtpd\n"]
    return "\n".join(lines) + "\n", services


def send(row):
    """One message, to two recipients for each delivery."""
    with socket.create_connection(("127.0.0.1", PORT)) as sock, sock.makefile("rwb") as file:
        def say(text):
            file.write(text.encode())
            file.flush()
            answer = file.readline()
            assert answer[:1] in b"23", answer
        file.readline()
        say("HELO test.example\r\n")
        say("MAIL FROM:<sender@example.com>\r\n")
        for i in range(2 * row[7]):
            say(f"RCPT TO:<u{i}@{row[0]}.example>\r\n")
        say("DATA\r\n")
        say("Subject: test\r\n\r\nx\r\n.\r\n")


class Record:
    """What the queue manager saw of a transport's one destination, as the words of
    replay_windows, and what it said after each (None: nothing)."""

    def __init__(self):
        self.busy = 0
        self.words, self.said = [], []
        self.selected = []      # window that each start was allowed by, and after how many results
        self.guarded = 0        # good results that the distance to the busy ones kept from counting


SELECT = re.compile(r"qmgr_peer_select: \S+ (\w+) \S+ \((\d+) of (\d+)\)")
ANSWER = re.compile(r"private/(\w+) socket: wanted attribute: reason$")
WINDOW = re.compile(r"qmgr_queue_(un)?throttle: queue \[127\.0\.0\.1\]:(\d+): limit \d+ (window .*)")
FEEDBACK = re.compile(r"qmgr_queue_(un)?throttle: feedback ")


def read(log):
    records = {row[0]: Record() for row in ROWS}
    ports = {3000 + i: row[0] for i, row in enumerate(ROWS)}
    answering = last = None
    counted = False
    with open(log, errors="replace") as lines:
        for line in lines:
            if "/qmgr[" not in line:
                continue
            text = line.split("]: ", 1)[1].rstrip("\n")
            if match := ANSWER.search(text):
                answering = match.group(1) if match.group(1) in records else None
            elif answering and text.startswith("input attribute value: "):
                record = records[answering]
                bad = text.removeprefix("input attribute value: ") not in ("", "(end)")
                record.words.append(f"{'bad' if bad else 'good'} {record.busy}")
                record.said.append(None)
                record.busy -= 1
                last, answering, counted = answering, None, False
            elif match := SELECT.match(text):
                record = records[match.group(1)]
                record.busy = int(match.group(2))
                record.selected.append((int(match.group(3)), len(record.words)))
            elif FEEDBACK.match(text):
                counted = True
            elif match := WINDOW.match(text):
                name = ports[int(match.group(2))]
                record = records[name]
                # Up with no good answer: the time is over.
                if name != last or match.group(1) and record.words[-1].startswith("bad"):
                    record.words.append(f"turn {record.busy}")
                    record.said.append(None)
                elif match.group(1) and not counted:
                    record.guarded += 1
                record.said[-1] = match.group(3)
                last = None
    return records


def numbers(text):
    words = text.split()
    return dict(zip(words[::2], map(float, words[1::2])))


def replay(test, row, record):
    """Our law on the same: the lines that differ."""
    name, positive, negative, initial, limit, cohorts = row[:6]
    begin = f"begin {initial} {limit} {positive} {negative} {cohorts}\n"
    program = Path(os.environ.get("POSTERN_BUILD", ".")) / "tests/sim/replay_windows"
    if not program.exists():
        raise Skipped(f"{program} is not built: make test-programs")
    ours = subprocess.run([program], input=begin + "\n".join(record.words) + "\n", text=True,
                          capture_output=True, check=True).stdout.splitlines()
    test.equal(len(ours), len(record.words), f"{name}: an answer for each result")
    differences = []
    for i, (said, have) in enumerate(zip(record.said, ours)):
        if said is None:
            continue
        theirs, mine = numbers(said), numbers(have)
        if theirs["window"] != mine["window"] or \
                any(abs(theirs[key] - mine[key]) > 2e-6 for key in theirs):
            differences.append((i, record.words[i], said, have))
    for window, after in record.selected:
        before = numbers(ours[after - 1])["window"] if after > 0 else initial
        if before != window:
            differences.append((after, "start", window, before))
    for difference in differences[:5]:
        test.say(f"{name}: {difference}")
    return ours, differences


def compare(test, records):
    for row in ROWS:
        name, positive, negative = row[:3]
        record = records[name]
        _, differences = replay(test, row, record)
        bad = sum(word.startswith("bad") for word in record.words)
        spoken = [numbers(said)["window"] for said in record.said if said is not None]
        test.say(f"{name} ({positive}, {negative}): {len(spoken)} windows from {min(spoken):g} "
                 f"to {max(spoken):g}, {bad} bad results, {record.guarded} that did not count")
        test.check(not differences, f"{positive} and {negative}: the same windows "
                                    f"({len(differences)} of {len(spoken)} are not)")
        if row[7] >= 500:
            test.check(len(spoken) >= 500, f"{name}: that were at least 500")


def finished(postfix):
    return postfix.log_text().count(", status=") >= sum(2 * row[7] for row in TRANSPORTS)


def said(postfix, port, words, behind=""):
    """Does the queue manager's log say so of a destination, behind other words?"""
    text = postfix.log_text()
    at = text.find(behind) if behind else 0
    return at >= 0 and re.search(rf"qmgr_queue_\w+: queue \S+:{port}: .*{words}", text[at:])


def dead_and_back(test, postfix, servers):
    """One delivery is held while the others are refused until the site is dead; then it
    ends well.  And a site that only time brings back."""
    server = servers[REVIVED[0]]
    server.slow = threading.Event()
    send(REVIVED)
    send(BURIED)
    test.wait_for(lambda: said(postfix, 3005, "window 0 "), "one site is dead")
    server.slow.set()
    test.wait_for(lambda: said(postfix, 3005, "window [1-9]", ":3005: limit 20 window 0 "),
                  "a delivery brings it back")
    test.wait_for(lambda: said(postfix, 3006, "window [1-9]", ":3006: limit 20 window 0 "),
                  "time brings the other one back")


def body(test):
    main_cf, services = settings()
    servers = {row[0]: Server(test, 3000 + i, row[6], test.seed + i)
               for i, row in enumerate(ROWS)}
    postfix = Postfix(test, services, main=main_cf)
    postfix.start(PORT)
    threads = [threading.Thread(target=send, args=(row,)) for row in TRANSPORTS]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    test.wait_for(lambda: finished(postfix), "all was tried", 60)
    dead_and_back(test, postfix, servers)
    records = read(postfix.log)
    compare(test, records)
    test.check(any(text and numbers(text)["window"] == 0 for text in records[REVIVED[0]].said),
               "one destination died and was revived by a delivery")
    test.check(any(word.startswith("turn") for word in records[BURIED[0]].words),
               "and one by time")
    test.check(records["w5"].guarded > 0, "the distance to what is busy mattered")


main(body, seconds=90)
