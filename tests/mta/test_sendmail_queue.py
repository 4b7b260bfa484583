#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""Real Sendmail, whose queue Postern runs: mail goes as soon as it is queued, small mail
slips past bulk, no site gets more connections than its window, local recipients go along,
what is quarantined stays."""
import re
import subprocess
import time

from lib.driven import Driven, hosts
from lib.sendmail import find_root
from lib.testing import main

SITES = hosts(12)
NAMES = list(SITES.values())
SETTINGS = """window = { initial_destination_concurrency = 3; destination_concurrency_limit = 3; };
"""


def at_once(test, world):
    begun = time.monotonic()
    recipients, waits = [], []
    for n in range(3):                  # a machine that stands still does so once
        recipients.append(f"one{n}@{NAMES[0]}")
        accepted = world.submit(recipients[-1])
        world.wait_delivered(len(recipients))
        waits.append(world.far.when()[recipients[-1]] - accepted)
        world.none_queued()
        if waits[-1] < 1:
            break
    test.check(min(waits) < 1, f"one message is delivered {min(waits) * 1000:.0f} ms after it was "
               "accepted")
    recipients += [f"u{n}@{NAMES[n % len(NAMES)]}" for n in range(60)]
    world.submit_each(recipients[-60:])
    world.wait_delivered(len(recipients))
    test.say(f"{len(recipients)} messages in {time.monotonic() - begun:.1f} s")
    world.each_once(recipients, "61 messages: each once")
    world.none_queued()


def past_bulk(test, world):
    """Two processes; the bulk needs them for 10 s, one message a fraction of one."""
    world.far.forget()
    world.far.tell(delay=0.05)
    bulk = [f"b{n}@{NAMES[n % 10]}" for n in range(400)]
    begun = world.submit(*bulk, sender="bulk@example.org")
    test.wait_for(lambda: world.far.count() >= 20, "bulk is on its way")
    waits = []
    for n in range(6):
        who = f"s{n}@{NAMES[n * 2]}"
        accepted = world.submit(who)
        test.wait_for(lambda who=who: who in world.far.when(), "a single message is delivered")
        waits.append(world.far.when()[who] - accepted)
        bulk.append(who)
    left = 406 - world.far.count()
    world.wait_delivered(406, 30)
    took = max(world.far.when().values()) - begun
    test.say(f"single messages waited {', '.join(f'{wait:.1f}' for wait in waits)} s, "
             f"bulk took {took:.1f} s")
    test.check(max(waits) < took / 2, f"single messages pass bulk ({left} of it were left)")
    world.each_once(bulk, "bulk and single messages: each once")
    test.check(max(world.most().values()) <= 3, "never more connections than the window")
    queued = len(re.findall(r"stat=queued", world.syslog()))
    lines = world.syslog().count("\n") - queued
    test.check(lines <= 3 * queued, f"{lines} log lines besides for {queued} recipients")
    world.none_queued()


def windows_kept(test, world):
    """One site gets what three processes bring, though more would be free."""
    world.far.forget()
    world.far.tell(delay=0.1)
    recipients = [f"w{n}@{NAMES[0]}" for n in range(40)]
    world.submit_each(recipients)
    world.wait_delivered(40)
    world.each_once(recipients, "40 messages for one site: each once")
    most = world.most()[list(SITES)[0]]
    test.equal(most, 3, "as many connections as the window, not more")
    connections = world.far.state()[list(SITES)[0]]["connections"]
    test.check(connections < 40, f"several by one connection: {connections} for 40 messages")
    world.none_queued()


def local_too(test, world):
    world.far.forget()
    world.far.tell(delay=0)
    world.submit("root", "team", "u@" + NAMES[1], "v@" + NAMES[2])
    test.wait_for(lambda: len(world.local()) >= 2, "local mail is delivered")
    world.wait_delivered(3)
    test.equal(sorted(world.local()), ["nobody", "root"], "local recipients, one by an alias")
    world.each_once([f"u@{NAMES[1]}", f"v@{NAMES[2]}", f"x@{NAMES[3]}"],
                    "the others of that message, one by the alias: each once")
    world.submit("root")
    test.wait_for(lambda: len(world.local()) >= 3, "a message that is local alone")
    world.none_queued()


def quarantined(test, world):
    world.far.forget()
    world.postern.ask("hold", NAMES[4])
    world.submit("q@" + NAMES[4])
    world.submit("k@" + NAMES[4], "z@" + NAMES[5])
    world.wait_delivered(1)
    world.each_once(["z@" + NAMES[5]], "held by hand: the others go")
    held = [file for file in world.sendmail.queue_files()
            if f"q@{NAMES[4]}" in file.read_text(errors="replace")]
    test.equal(len(held), 1, "what is held waits in the queue")
    world.sendmail.queue_run().wait(20)     # what is not run says nothing
    test.wait_for(lambda: f"deferred by Postern: {NAMES[4]} is suspended until it is resumed"
                  in world.sendmail.queue_text(), "its file says why")
    done = world.sendmail.spawn("-Qtest", f"-qI{held[0].name[2:]}")
    done.wait(10)
    kept = held[0].parent / f"hf{held[0].name[2:]}"
    test.wait_for(kept.exists, "quarantined")
    world.postern.ask("resume", NAMES[4])
    world.wait_delivered(2)
    world.each_once(["z@" + NAMES[5], "k@" + NAMES[4]], "resumed: what waited goes at once")
    world.none_queued()                 # its file goes when the far site has taken it
    test.check(kept.exists(), "what is quarantined stays")
    subprocess.run([world.sendmail.program(), "-C", world.sendmail.cf, "-Q", "-qQ",
                    f"-qI{held[0].name[2:]}"], check=False, capture_output=True)
    world.wait_delivered(3)
    test.check(not kept.exists(), "released: it goes, too")


def body(test):
    world = Driven(test, SITES, processes=4, settings=SETTINGS,
                   aliases=f"team: nobody, x@{NAMES[3]}\n")
    at_once(test, world)
    local_too(test, world)
    quarantined(test, world)
    windows_kept(test, world)
    past_bulk(test, world)


main(body, hosts=SITES, addresses=list(SITES), before=find_root)
