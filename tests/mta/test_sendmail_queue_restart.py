#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""Real Sendmail, whose queue Postern runs: what a restart costs.  Its queue is known again
without reading queue files but those that changed; runs begin at once; what came and went
meanwhile is seen.  --queued N: so many messages."""
import os
import re
import signal
import time

from lib.driven import Driven, hosts
from lib.opens import Opens
from lib.sendmail import find_root
from lib.testing import main

SITES = hosts(10)
NAMES = list(SITES.values())


def journal(world):
    """What status says of the queue's journal."""
    rows = {row["directory"]: row for row in world.postern.status()["journal"]}
    return rows.get("queue", {"messages": None})


def looked_through(world):
    return world.postern.log_text().count('text="read the queue"')


def restart(test, world, how):
    before = looked_through(world)
    test.deaths_expected = True
    begun = time.monotonic()
    if how == "role":
        os.kill(world.postern.roles()["queue.0"], signal.SIGKILL)
    else:
        world.postern.start(wait=False)
    test.wait_for(lambda: looked_through(world) > before, "the directories were looked through", 60)
    return time.monotonic() - begun


def known_again(test, world, count):
    """All is held: nothing is run, and so nothing has to be opened."""
    test.wait_for(lambda: journal(world)["messages"] == count, f"{count} messages are read", 120)
    opens = Opens((world.sendmail.root / "queue").glob("q*"))
    took = restart(test, world, "role")
    test.equal(journal(world)["messages"], count, "kill -9 of the role: they are known again")
    test.equal(opens.names(), [], f"and no file was opened ({took:.2f} s)")
    test.wait_for(lambda: len(world.postern.ask("sendmail", "queue")) > 0, "posternctl sendmail queue lists them")
    test.equal({row["wait"] for row in world.postern.ask("sendmail", "queue")}, {"suspended"}, "as held")
    return opens


def changed_meanwhile(test, world, opens, count):
    world.postern.stop()
    files = sorted(path for path in world.sendmail.queue_files() if path.name.startswith("qf"))
    new = files[3].with_name("tf" + files[3].name[2:])
    new.write_bytes(files[3].read_bytes())
    new.rename(files[3])
    gone = re.search(r"\b(m\d+@[\w.]+)", files[5].read_text(errors="replace"), re.M)[1]
    for kind in "qd":
        files[5].with_name(kind + files[5].name[1:]).unlink()
    opens.names()
    took = restart(test, world, "all")
    test.within(10, lambda: journal(world)["messages"] == count - 1, f"{gone} is forgotten")
    read = []
    test.poll(lambda: read.extend(opens.names()) or read, 10)   # what is gone is known before
    test.equal(set(read), {files[3].name}, f"the one that changed was read ({took:.2f} s)")
    return gone


def runs_begin(test, world, recipients):
    world.postern.stop()
    world.far.forget()
    opens = Opens((world.sendmail.root / "queue").glob("q*"))
    begun = time.monotonic()
    world.postern.start()
    test.equal(world.postern.command("resume", "--class", "all").returncode, 0, "it is resumed")
    took = test.wait_for(lambda: world.far.count() > 0, "a first delivery", 20)
    print(f"     first delivery {time.monotonic() - begun:.2f} s after the start, {took:.2f} s "
          f"after it was resumed; {len(opens.names())} opens by then")
    restart(test, world, "role")
    world.wait_delivered(len(recipients), 600)
    world.each_once(recipients, "all of them: each once")
    world.none_queued()
    test.within(10, lambda: journal(world)["messages"] == 0, "and the journal knows none")
    row = journal(world)
    print(f"     journal: {row}")
    test.equal((row["state"], row["lost"]), ("written", 0), "it was written all the time")


def body(test):
    count = test.arguments.queued
    world = Driven(test, SITES, processes=10)
    test.equal(world.postern.command("hold", "--class", "all").returncode, 0, "all is held")
    world.postern.stop()
    recipients = world.fill(count, NAMES)
    world.postern.start()
    opens = known_again(test, world, count)
    gone = changed_meanwhile(test, world, opens, count)
    runs_begin(test, world, [who for who in recipients if who != gone])


if __name__ == "__main__":
    main(body, hosts=SITES, addresses=list(SITES), seconds=60, before=find_root,
         options=(("--queued", {"type": int, "default": 600}),))
