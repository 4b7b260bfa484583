#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""Real Sendmail, whose queue Postern runs, with the configuration that is shipped: single
messages pass a bulk of 400 on two processes; local bulk for slow users does not change how
long remote ones wait; in order of arrival a bulk of 400 has 91 % of the processes; and what
accepting costs where Sendmail cuts a message by destination."""
import socket
import time

from lib.driven import OUT, PORT, STOCK, Driven, hosts
from lib.postern import substitute
from lib.sendmail import Sendmail, find_root
from lib.smtp import Session
from lib.testing import Failed, main

SITES = hosts(50)
NAMES = list(SITES.values())
SLOW = "sleep 1"           # LINT-SLEEP: the delivery agent of slow users


def change(test, world, pattern, new):
    text = world.postern.file.read_text()
    world.postern.file.write_text(substitute(text, pattern, new))
    test.equal(world.postern.command("reload").returncode, 0, f"reload: {new}")


def busy(world):
    return sum(row["busy"] for row in world.far.state().values())


def bulk_of_400():
    return [f"b{n}@{NAMES[n % 50]}" for n in range(400)]


def past_bulk(test, world):
    """Two processes."""
    world.far.forget()
    bulk = bulk_of_400()
    world.submit(*bulk, sender="bulk@example.org")
    test.wait_for(lambda: busy(world) >= 2, "bulk is on its way")
    waits = []
    for n in range(5):
        who = f"s{n}@{NAMES[n * 7]}"
        accepted = world.submit(who)
        bulk.append(who)
        test.wait_for(lambda who=who: who in world.far.when(), "a single message is delivered")
        waits.append(world.far.when()[who] - accepted)
    test.say(f"singles waited {', '.join(f'{wait:.2f}' for wait in waits)} s")
    test.check(waits[0] <= 3 + test.noise, f"the first single waited {waits[0]:.2f} s")
    change(test, world, r"\bprocesses = 2;", "processes = 22;")
    world.wait_delivered(405, 30)
    world.each_once(bulk, "bulk and singles: each once")
    world.none_queued()


def singles(test, world, name):
    """How long remote messages wait, the longest but one of 12."""
    waits = []
    for n in range(12):
        who = f"{name}{n}@{NAMES[n * 3 % 50]}"
        accepted = world.submit(who)
        test.wait_for(lambda who=who: who in world.far.when(), "a remote single is delivered")
        waits.append(world.far.when()[who] - accepted)
    return sorted(waits)[-2]


def local_bulk(test, world):
    """The same with more mail for slow local users than there are processes."""
    world.far.forget()
    world.far.tell(delay=0.1)
    without = singles(test, world, "w")
    (world.sendmail.root / "slow").touch()
    before = len(world.local())
    for n in range(2):
        world.submit(*["root", "nobody", "daemon", "bin"] * 10, sender=f"n{n}@example.org")
    for n in range(30):
        world.submit("root", sender=f"m{n}@example.org")
    beside = singles(test, world, "x")
    done = len(world.local()) - before
    (world.sendmail.root / "slow").unlink()
    test.say(f"p95 of remote singles: {without:.3f} s, beside local bulk {beside:.3f} s "
             f"({done} local ones done meanwhile)")
    test.check(beside <= 1.1 * without + 0.05 + test.noise, "remote mail does not wait for local users")
    test.wait_for(lambda: len(world.local()) - before >= 38, "local mail is delivered", 40)
    world.none_queued()


def first_come(test, world):
    """22 processes, 20 of them for one message."""
    world.far.forget()
    with open(world.postern.file, "a") as file:
        file.write('schedule = { discipline = "first-come"; };\n')
    test.equal(world.postern.command("reload").returncode, 0, "reload: first-come")
    bulk = bulk_of_400()
    world.submit(*bulk, sender="bulk@example.org")
    most, end = 0, time.monotonic() + 20
    while world.far.count() < 400 and time.monotonic() < end:
        most = max(most, busy(world))
        time.sleep(0.02)                        # LINT-SLEEP: the samples
    test.check(19 <= most <= 20, f"first-come: {most} of 22 processes for one message")
    world.wait_delivered(400, 20)
    world.each_once(bulk, "each once")
    world.none_queued()


def best(test, sendmail, recipients):
    """The shortest of some times to accept a message for them, and how many files it became."""
    took = []
    for _ in range(9):
        session = Session(("127.0.0.1", sendmail.port))
        session.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        begun = time.monotonic()
        code = session.send(recipients, "bulk@example.org")
        took.append(time.monotonic() - begun)
        session.quit()
        if code[0] != 250:
            raise Failed(f"Sendmail takes mail: {code}")
        files = sendmail.queue_files()
        for file in files:
            file.unlink()
    return min(took), len(files)


def accepting(test, world):
    """One message for 40 sites, and one for 2,000 recipients of 50; beside it a Sendmail as an
    admin has it, which cuts a message into files of 40 alone."""
    root = test.directory / "stock"
    stock = Sendmail(test, PORT + 10, name="stock", outbound=OUT,
                     before=STOCK.format(root=root, processes=4))
    stock.split_queue()
    stock.start()
    world.postern.ask("hold", "--class", "all")
    for count in (40, 2000):
        recipients = [f"a{n}@{NAMES[n % 50]}" for n in range(count)]
        took, files = best(test, world.sendmail, recipients)
        plain, fewer = best(test, stock, recipients)
        test.say(f"{count} recipients: accepted in {took * 1000:.1f} ms as {files} files, with "
                 f"r=40 alone in {plain * 1000:.1f} ms as {fewer}")
        test.check(took <= 3 * plain + test.noise / 10, f"accepting {count} recipients costs "
                   f"{took / plain:.1f} times as much as with r=40")


def body(test):
    test.noise = 4.0 if test.arguments.noise else 0.0
    world = Driven(test, SITES, processes=2, delay=0.1)
    mda = world.sendmail.root / "mda"
    mda.write_text(mda.read_text().replace(
        "cat >", f"[ -e {world.sendmail.root}/slow ] && {SLOW}\ncat >"))
    past_bulk(test, world)
    local_bulk(test, world)
    first_come(test, world)
    accepting(test, world)


main(body, hosts=SITES, addresses=list(SITES), before=find_root,
     options=(("--noise", {"type": int, "default": 1}),))
