#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""Real Sendmail, whose queue Postern runs, and its queue directories: one with
subdirectories qf, df and xf, one that is made later, one that goes; a queue that is driven
no more and again."""
import shutil

from lib.driven import Driven, hosts
from lib.sendmail import find_root
from lib.testing import end_process, main

SITES = hosts(3)
NAMES = list(SITES.values())


def role(world):
    return next((pid for name, pid in world.postern.roles().items()
                 if name.startswith("queue")), None)


def mail_goes(test, world, text, count=12):
    """As many as there are directories, and more: each is used."""
    world.far.forget()
    recipients = [f"u{n}@{NAMES[n % 3]}" for n in range(count)]
    for recipient in recipients:
        world.submit(recipient)
    world.wait_delivered(count)
    world.each_once(recipients, text)
    world.none_queued()


def reload(test, world):
    done = world.postern.command("reload")
    test.equal(done.returncode, 0, f"reload {done.stderr}")


def subdirectories(world):
    """Sendmail keeps qf, df and xf files apart where it finds such directories at its
    start."""
    end_process(world.sendmail.process)
    for place in queues(world)[:4]:
        for name in ("qf", "df", "xf"):
            (place / name).mkdir(mode=0o700)
    world.start_sendmail()


def queues(world):
    return sorted((world.sendmail.root / "queue").glob("q*"))


def a_new_directory(test, world):
    before = role(world)
    new = world.sendmail.root / "queue/q90"
    new.mkdir(mode=0o700)
    reload(test, world)
    test.within(3, lambda: role(world) not in (None, before), "the role is started anew")
    # mail that is there already, as it was moved there
    world.postern.ask("hold", NAMES[0])
    world.far.forget()
    world.submit("moved@" + NAMES[0])
    file = world.sendmail.queue_files()[0]
    id = file.name[2:]
    data = next((world.sendmail.root / "queue").rglob("df" + id))
    shutil.move(data, new / data.name)
    shutil.move(file, new / file.name)
    world.postern.ask("resume", NAMES[0])
    world.wait_delivered(1)
    test.within(5.0, lambda: not any(new.iterdir()), "mail in a directory that is new goes")
    new.rmdir()


def a_directory_that_goes(test, world):
    before = role(world)
    gone = queues(world)[-1]
    test.wait_for(lambda: not any(gone.iterdir()), "it is empty")
    shutil.rmtree(gone)
    reload(test, world)
    test.within(3, lambda: role(world) not in (None, before), "the role is started anew")
    before = role(world)
    gone.mkdir(mode=0o700)
    reload(test, world)
    test.within(3, lambda: role(world) not in (None, before), "and once more when it is back")
    before = role(world)
    # many ends in a row, each within a second, would be called deaths
    test.throughout(1.2, lambda: role(world) == before, "it stays")


def driven_no_more(test, world):
    text = world.postern.file.read_text()
    assert "drive = true" in text
    world.postern.file.write_text(text.replace("drive = true", "drive = false"))
    reload(test, world)
    test.within(3, lambda: role(world) is None, "driven no more: there is no role")
    world.far.forget()
    world.submit("later@" + NAMES[1])
    test.throughout(1, lambda: world.far.count() == 0 and role(world) is None, "its mail waits")
    world.postern.file.write_text(text)
    reload(test, world)
    test.within(3, lambda: role(world) is not None, "driven again: the role is there")
    world.wait_delivered(1)
    world.each_once(["later@" + NAMES[1]], "and its mail goes")


def body(test):
    world = Driven(test, SITES, start=False)
    subdirectories(world)
    world.postern.start()
    mail_goes(test, world, "directories with and without subdirectories", 24)
    test.check(not any(any(place.glob("qf?*")) for place in queues(world)[:4]),
               "Sendmail uses the subdirectories")
    a_new_directory(test, world)
    a_directory_that_goes(test, world)
    mail_goes(test, world, "all directories after that")
    driven_no_more(test, world)


main(body, hosts=SITES, addresses=list(SITES), before=find_root)
