#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""posternctl sendmail queue, sendmail next and status on a real Sendmail whose queue Postern runs: what waits
for what, what would be next and why, patterns, names from outside, a role that is away."""
import os
import signal
import time

from lib.driven import Driven, hosts
from lib.far import GOOD, REFUSING
from lib.sendmail import find_root
from lib.testing import main

SITES = hosts(8)
NAMES = list(SITES.values())
ADDRESS = {name: address for address, name in SITES.items()}
PART = ["destination", "id", "mta", "age", "recipients", "unread", "tries", "tried", "wait", "until",
        "run", "sender", "waits_for"]
HELD, REFUSED, SLOW = NAMES[0], NAMES[1], NAMES[2:6]
HOSTILE = '"a\\\\b;%n `x`"@example.org'


def rows(world, *words):
    return world.postern.ask("sendmail", "queue", *words)


def waits(world, name):
    return [row["wait"] for row in rows(world, name)]


def empty_queue(test, world):
    test.equal(rows(world), [], "nothing is queued: an empty list")
    test.equal(world.postern.ask("sendmail", "next"), [], "and nothing is next")
    text = world.postern.command("sendmail", "queue", json_output=False)
    test.equal((text.returncode, text.stdout.split()), (0, PART), "text: the heading alone")
    status = world.postern.status()
    test.equal((status["queue"], status["queue_away"]), ("driven", None), "status: it is driven")


def what_waits_for_what(test, world):
    test.equal(world.postern.command("hold", HELD).returncode, 0, "one site is held")
    world.far.tell([ADDRESS[REFUSED]], does=REFUSING)
    world.submit("u@" + HELD, sender=HOSTILE)
    world.submit("v@" + REFUSED)
    test.wait_for(lambda: waits(world, HELD) == ["suspended"], "mail for it waits: suspended")
    test.wait_for(lambda: waits(world, REFUSED) == ["retry"], "what failed waits for its retry time")
    held, refused = rows(world, HELD)[0], rows(world, REFUSED)[0]
    test.equal(list(held), PART, "what a row tells")
    test.equal((held["destination"], held["mta"], held["recipients"], held["unread"], held["tries"],
                held["until"], held["run"]), (HELD, "out", 1, 0, 0, None, 0), "what is held")
    test.check(held["sender"] in (HOSTILE, f"<{HOSTILE}>"), f"its sender: {held['sender']}")
    test.equal(held["waits_for"], "its destination, which is suspended or held", "told in words")
    test.check(refused["tries"] >= 1 and 0 < refused["until"] <= 300 and refused["tried"] is not None,
               f"tried {refused['tries']} times, again in {refused['until']} s")
    world.submit("w@" + HELD, sender="")
    test.wait_for(lambda: len(waits(world, HELD)) == 2, "a bounce waits there, too")
    test.equal(rows(world, HELD)[1]["sender"], "", "its sender in JSON is empty")
    text = world.postern.command("sendmail", "queue", json_output=False)
    test.check(" <> " in text.stdout, "and <> in text")
    test.equal(text.stdout.split("\n")[0].split(), PART, "text has the same names")
    test.check(all(" " <= c <= "~" or c == "\n" for c in text.stdout), "and nothing unprintable")


def patterns(test, world):
    both = [HELD, HELD, REFUSED]
    for pattern, want in ((HELD, [HELD, HELD]), ("*.far.example", both), ("*", both), ("h1.*", [REFUSED]),
                          ("nobody.example", []), (HELD.upper(), [HELD, HELD])):
        test.equal([row["destination"] for row in rows(world, pattern)], want, f"queue {pattern}")
    sites = rows(world, "--destinations")
    test.equal([(row["destination"], row["messages"], row["window"] == 0) for row in sites],
               [(HELD, 2, True), (REFUSED, 1, False)], "--destinations")
    test.equal(rows(world, "--runs"), [], "--runs: none")


def next_and_why(test, world):
    """Both processes are busy for a while; what waits is listed in its order."""
    world.far.forget()
    world.far.tell([ADDRESS[name] for name in SLOW], delay=0.4)
    for name in SLOW:
        world.submit(*[f"b{n}@{name}" for n in range(8)], sender="bulk@example.org")
    test.wait_for(lambda: len(rows(world, "--runs")) >= 1, "runs are listed")
    singles = [f"s{n}@{name}" for n, name in enumerate(NAMES[6:])]
    for who in singles:
        world.submit(who)
    run = {}

    def a_process():                    # one that has not ended between the two looks
        run.update(next((row for row in rows(world, "--runs") if row["pid"] in world.runs()), {}))
        return run
    test.wait_for(a_process, "a run is a process of Sendmail")
    test.check(run["mta"] == "out" and run["messages"] >= 1, f"and has its messages: {run}")
    coming = world.postern.ask("sendmail", "next", 50)
    test.equal([row["place"] for row in coming], list(range(1, len(coming) + 1)), "next: places")
    test.check(all(row["why"] in ("current", "preempts", "first", "same-run") and
                   row["because"] for row in coming), "and why")
    test.equal([row["place"] for row in world.postern.ask("sendmail", "next", 1)], [1], "next 1: the first alone")
    of_bulk = [row["destination"] for row in coming if row["recipients"] == 8]
    test.check(len(of_bulk) >= 1 and set(of_bulk) < set(SLOW), f"bulk that waits is in it: {of_bulk}")
    test.check(all(row["wait"] == "running" for row in rows(world) if row["run"] and
                   row["wait"] not in ("message", "read")), "what runs has a run")
    world.wait_delivered(32 + len(singles), 30)
    test.within(10, lambda: sorted(row["destination"] for row in rows(world)) == [HELD, HELD, REFUSED],
                "what is left is what was held or refused")


def mistakes(test, world):
    ctl = world.postern.command
    for words, code in ((("sendmail", "next", "0"), 64), (("sendmail", "next", "x"), 64), (("sendmail", "next", "10001"), 64),
                        (("sendmail", "queue", "a", "b"), 64), (("sendmail", "queue", "--runs", "--destinations"), 64),
                        (("sendmail", "queue", "a..b"), 64), (("status", "--runs"), 64)):
        test.equal(ctl(*words).returncode, code, f"posternctl {' '.join(words)}: {code}")
    test.equal(ctl("-s", test.directory / "nowhere", "sendmail", "queue").returncode, 69, "nobody at the socket: 69")


def back_again(test, world):
    world.far.forget()
    world.far.tell([ADDRESS[REFUSED]], does=GOOD)
    test.equal(world.postern.command("resume", HELD).returncode, 0, "it is resumed")
    world.wait_delivered(2)
    test.within(5, lambda: waits(world, HELD) == [], "and its mail is gone from the list")


def role_dies(test, world):
    """Its successor tells the same."""
    test.deaths_expected = True
    pid = world.postern.roles()["queue.0"]
    os.kill(pid, signal.SIGKILL)
    test.wait_for(lambda: world.postern.roles().get("queue.0", pid) != pid, "the role is back")
    test.wait_for(lambda: world.postern.command("sendmail", "queue").returncode == 0 and
                  [row["destination"] for row in rows(world)] == [REFUSED], "and knows what waits")
    test.within(5, lambda: world.postern.status()["queue"] == "driven", "status: driven")


def first_come(test, world):
    with open(world.postern.file, "a") as file:
        file.write('schedule = { discipline = "first-come"; };\n')
    test.equal(world.postern.command("reload").returncode, 0, "the other discipline, by reload")
    world.far.forget()
    for name in SLOW:
        world.submit(*[f"c{n}@{name}" for n in range(4)])
    test.wait_for(lambda: len(rows(world, "--runs")) == 2, "runs by it")
    # the role takes the new settings with its next event
    test.within(5, lambda: {row["why"] for row in world.postern.ask("sendmail", "next", 100)} <=
                {"first", "same-run"}, "next: why, by the new discipline")
    world.wait_delivered(16, 30)


def alarm(test, world):
    """Long form: the role is killed as soon as it is there, for more than a minute."""
    end = time.monotonic() + 75
    while time.monotonic() < end and world.postern.status()["queue"] != "away":
        pid = world.postern.roles().get("queue.0")
        if pid:
            os.kill(pid, signal.SIGKILL)
        test.poll(lambda: world.postern.roles().get("queue.0"), 1)
    status = world.postern.status()
    test.equal(status["queue"], "away", "away for a minute: status")
    test.check(status["queue_away"] >= 60 and "is away" in status["mtas"][0]["note"],
               f"for {status['queue_away']} s: {status['mtas'][0]['note']}")
    test.equal(world.postern.log_text().count("event=queue-away"), 1, "the log, once")
    test.within(20, lambda: world.postern.status()["queue"] == "driven", "it is driven again")
    test.equal((world.postern.log_text().count("event=queue-back"),
                world.postern.log_text().count("event=queue-away")), (1, 1), "the log, once")


def stopped(test, world):
    world.postern.stop()
    done = world.postern.command("sendmail", "queue")
    test.equal((done.returncode, done.stdout), (69, ""), "stopped: 69, and no list")
    test.check("no answer" in done.stderr, done.stderr.strip())


def body(test):
    world = Driven(test, SITES, processes=2, mta='retry = "5m"; stall = "3s";')
    for step in (empty_queue, what_waits_for_what, patterns, next_and_why, mistakes, back_again, role_dies,
                 first_come, *([alarm] if test.arguments.rounds else []), stopped):
        step(test, world)


main(body, hosts=SITES, addresses=list(SITES), before=find_root)
