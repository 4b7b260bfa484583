#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""posternctl journal: what check, dump and stat say of journals that were made here by
postern-journal(5) and then torn, damaged, or written by a later version; of one that a real
daemon writes meanwhile; as a user who may only read; and that nothing is ever changed."""
import json
import os
import re
import subprocess

from lib.driven import Driven, hosts
from lib.journal_file import DELIVERY, FINISH, GARBAGE, File
from lib.postern import build_directory, shipped
from lib.sendmail import find_root
from lib.testing import main

SITES = hosts(4)
NAMES = list(SITES.values())
NOBODY = 65534
HOSTILE = b"a\x1b]0;x\x07\xff\"`$(id)`\n\x00%s@x.example"
KEY = 0x5eed


def run(*words, user=None, config=None):
    more = {} if user is None else {"user": user, "group": user, "extra_groups": []}
    return subprocess.run([build_directory() / "posternctl", *(["-c", config] if config else []),
                           "journal", *map(str, words)], capture_output=True, timeout=30, **more)


def found(*words):
    """The findings of check, as (finding, severity, file's name, offset), and the exit code."""
    done = run("check", "--json", *words)
    return [(row["finding"], row["severity"], os.path.basename(row["file"]), row["offset"])
            for row in json.loads(done.stdout)], done.returncode


def records(*words, **more):
    done = run("dump", "--json", *words, **more)
    return [json.loads(line) for line in done.stdout.splitlines()]


def look(directory):
    """All that could be changed of it."""
    return {path: (path.stat().st_mtime_ns, path.stat().st_size, path.stat().st_mode,
                   path.is_file() and path.read_bytes())
            for path in [directory, *sorted(directory.rglob("*"))]}


def sound(directory):
    """Two files: a message that waits, one that is done, one whose sender means ill."""
    first = File("queue")
    first.envelope("6AM3A1", {"a.example": 2, "b.example": 1}, key=KEY)
    first.sync()
    first.envelope("6AM3A2", {"a.example": 1}, key=KEY + 1)
    first.finish(KEY + 1)
    first.sync()
    first.write(directory)
    second = File("queue", 2, first.sequence + 1, (1, len(first.data)), first.synced)
    second.envelope("6AM3A3", {"c.example": 1}, HOSTILE, key=KEY + 2)
    return first, second


def whole(test, place):
    _, second = sound(place / "queue")
    second.write(place / "queue")
    test.equal(found(place), ([], 0), "a sound journal: nothing is found, exit code 0")
    text = run("check", place)
    test.equal((text.returncode, text.stdout), (0, f"{place}/queue: 2 files, 6 records: intact\n".encode()),
               "and text says that it is whole")
    test.equal(found(place / "queue/"), ([], 0), "the same for the one directory by itself")
    test.equal([row["type"] for row in records(place)],
               ["head", "envelope", "envelope", "finish", "head", "envelope"], "dump: every record")


def hostile(test, place):
    row = next(row for row in records(place, "--id", "6AM3A3"))
    test.equal(row["sender"], "a\x1b]0;x\x07\\xff\"`$(id)`\n%s@x.example", "a hostile sender in JSON")
    text = run("dump", "--id", "6AM3A3", place).stdout
    test.check(all(byte == 10 or 32 <= byte <= 126 for byte in text) and text.count(b"\n") == 1,
               "and in text: one line, nothing that a terminal obeys")
    test.check(rb'sender="a\x1b]0;x\x07\xff\"`$(id)`\x0a%s@x.example"' in text, "but all of it")


def filters(test, place):
    for words, wanted in ((("--id", "6AM3A2"), ["envelope", "finish"]), (("--type", "finish"), ["finish"]),
                          (("--destination", "a.example"), ["envelope", "envelope"]),
                          (("--destination", "*.example"), ["envelope"] * 3),
                          (("--destination", "B.EXAMPLE"), ["envelope"]),
                          (("--id", "6AM3A2", "--type", "start"), []), (("--id", "nobody"), [])):
        test.equal([row["type"] for row in records(*words, place)], wanted, f"dump {' '.join(words)}")
    envelope = records("--id", "6AM3A1", place)[0]
    test.equal((envelope["mta"], envelope["directory"], envelope["sender"], envelope["recipients"],
                [(group["domain"], group["recipients"]) for group in envelope["groups"]]),
               ("out", "/q/q1", "a@example.org", 3, [("a.example", 2), ("b.example", 1)]),
               "what stands in an envelope")
    text = run("dump", "--id", "6AM3A1", place).stdout.decode()
    names = re.findall(r"(?:^| )([a-z_]+)=", text.partition(" groups=")[0])
    test.equal([name for name in envelope if envelope[name] is not None and name != "groups"], names,
               "the same names in text")


def stat(test, place):
    queue = json.loads(run("stat", "--json", place).stdout)["queue"]
    test.equal((queue["files"], queue["records"], queue["queued"], queue["working"], queue["damaged"]),
               (2, 6, 2, 0, 0), "stat: files, records, messages")
    test.equal(queue["bytes"], sum(path.stat().st_size for path in (place / "queue").glob("*.log")),
               "stat: bytes")
    # the envelope of the one that is done, and its finish
    done = sum(row["bytes"] for row in records("--id", "6AM3A2", place))
    test.equal(queue["garbage_bytes"], done, "stat: what is garbage")
    text = run("stat", place).stdout.decode()
    test.equal([line.split()[0] for line in text.splitlines()[1:-3]],
               [name for name in queue if name != "positions"], "the same names in text")


def torn(test, place):
    """The end of the last file, at every byte: no crash is ever called damage."""
    _, second = sound(place / "queue")
    begin = second.finish(KEY + 2)
    wrong = []
    for length in range(begin + 1, len(second.data)):
        second.write(place / "queue", length)
        got = found(place)
        if got != ([("torn", "note", "0000000002.log", begin)], 0):
            wrong.append((length, got))
    test.equal(wrong, [], "cut at each byte of what was not synced: a torn tail, exit code 0")
    text = run("check", place).stdout.decode()
    test.check(f"0000000002.log:{begin}: note: torn tail: " in text and
               "no acknowledged data is lost" in text, "and text says what that means")
    test.equal([row["type"] for row in records(place)][-1], "envelope", "dump: up to there")


def damaged(test, place):
    """A bit of what was synced, in every byte, and a piece that is cut out."""
    first, second = sound(place / "queue")
    second.write(place / "queue")
    at = len(File("queue").data)
    end = at + 60
    wrong = []
    for position in [*range(at, end)]:
        data = bytearray(first.data)
        data[position] ^= 1 << test.random.randrange(8)
        (place / "queue/0000000001.log").write_bytes(data)
        findings, code = found(place)
        if code != 65 or [row[:3] for row in findings] != [("damage", "error", "0000000001.log")]:
            wrong.append((position, findings, code))
    test.equal(wrong, [], "a bit in each byte of a record that was synced: damage, exit code 65")
    (place / "queue/0000000001.log").write_bytes(first.data[:at + 30])
    findings, code = found(place)
    test.equal((findings[0], {row[0] for row in findings}, code),
               (("damage", "error", "0000000001.log", at), {"damage"}, 65),
               "a file that is shorter than it was: damage")
    text = run("check", place)
    test.check(f"0000000001.log:{at}: error: damage: ".encode() in text.stdout and
               text.stdout.endswith(b" damaged places\n"), "and text says so")
    done = run("dump", place)
    test.check(done.returncode == 65 and b"damage: " in done.stderr, "dump complains and goes on")
    test.check(b"6AM3A3" in done.stdout, "with what follows")
    first.write(place / "queue")
    second.sync()
    File("queue", 3, second.sequence + 1, (2, len(second.data)), second.synced).write(place / "queue")
    test.equal(found(place), ([], 0), "with another file behind them")
    (place / "queue/0000000002.log").unlink()
    test.equal(found(place)[1], 65, "a file that is missing between others: damage")


def later(test, place):
    _, second = sound(place / "queue")
    new = second.put(DELIVERY, b"who knows", version=2)
    newer = second.put(99, b"what")
    second.put(FINISH, bytes(33), mark=GARBAGE)
    second.write(place / "queue")
    test.equal(found(place), ([("later", "error", "0000000002.log", new),
                               ("later", "error", "0000000002.log", newer)], 76),
               "records of a later version: exit code 76")
    test.check(b"a later Postern; this version skips it" in run("check", place).stdout, "and text says so")
    rows = records(place)
    test.equal([row["type"] for row in rows[-3:]], ["delivery", "99", "finish"], "dump passes them over")
    first, _ = sound(place / "queue")
    File("queue", 2, first.sequence + 1, (1, len(first.data)), first.synced,
         version=2).write(place / "queue")
    test.equal(found(place), ([("later", "error", "0000000002.log", 0)], 76),
               "a file of a later version: exit code 76")
    test.equal([row["type"] for row in records(place)][:4], ["head", "envelope", "envelope", "finish"],
               "the others are read")


def mistakes(test, place):
    for words, code in ((("check", "/nonexistent"), 66), (("stat", "/etc"), 66), (("dump", "/etc/passwd"), 66),
                        (("dump", "--type", "frob", place), 64), (("check", "--id", "x"), 64),
                        (("dump", "--destination", "a..b", place), 64), (("frob",), 64), ((), 64)):
        done = run(*words)
        test.equal(done.returncode, code, f"journal {' '.join(map(str, words))}: {code}")
        test.check(done.stderr.startswith(b"posternctl: "), f"and says why: {done.stderr.decode().splitlines()[:1]}")
    for path, why in (("none", b"the journal is disabled (journal.path)"),
                      ("/nonexistent/j", b"posternd has not created a journal there")):
        file = test.directory / "other.conf"
        file.write_text(shipped() + f'journal = {{ path = "{path}"; }};\n')
        done = run("check", config=file)
        test.check(done.returncode == 69 and why in done.stderr, f"journal.path is {path}: 69, {done.stderr}")
    (place / "empty/feed").mkdir(parents=True)
    test.equal(found(place / "empty"), ([], 0), "a directory that was just made is no mistake")
    (place / "file").mkdir()
    (place / "file/keeper").write_text("mine")
    test.equal(run("check", place / "file").returncode, 66, "a file where a directory should be: 66")
    (place / "foreign/feed").mkdir(parents=True)
    File("feed").write(place / "foreign/feed")
    (place / "foreign/feed/notes.txt").write_text("mine")
    test.equal(found(place / "foreign"), ([("foreign", "note", "feed", 0)], 0),
               "a file that is no journal's is told of")


def readers(test, place):
    """As a user who may only read, and who may not."""
    _, second = sound(place / "queue")
    second.write(place / "queue", len(second.data) - 5)
    (place / "queue/0000000002.log").chmod(0o444)
    (place / "queue").chmod(0o555)
    before = look(place)
    codes = [run(words, place, user=NOBODY).returncode for words in ("check", "dump", "stat")]
    test.equal(codes, [0, 0, 0], "a user who may only read reads it")
    test.equal(look(place), before, "nothing was changed")
    (place / "queue").chmod(0o700)
    codes = [run(words, place, user=NOBODY).returncode for words in ("check", "dump", "stat")]
    test.equal(codes, [77, 77, 77], "one who may not is told so: 77")


def hand_made(test):
    for number, part in enumerate((whole, hostile, filters, stat, torn, damaged, later, mistakes, readers)):
        place = test.directory / f"made-{'0' if part in (hostile, filters, stat) else number}"
        part(test, place)


# --- what a daemon writes


def journal(world, *words):
    return run(*words, config=world.postern.file)


def live(test, world):
    """While it is written: whole each time, but for what is being written."""
    world.far.tell(delay=0.02)
    world.submit(*[f"b{n}@{name}" for n in range(20) for name in NAMES[1:]])
    codes = set()
    while world.far.count() < 50:
        codes.add(journal(world, "check").returncode)
    test.equal(codes, {0}, "check while a daemon writes: 0 each time")
    world.wait_delivered(60)
    world.none_queued()


def by_hand(test, world):
    test.equal(world.postern.command("suspend", NAMES[0], "--for", "2h", "--reason", "ask noc").returncode, 0,
               "one site is suspended by hand")

    def manual():
        rows = [json.loads(line) for line in
                journal(world, "dump", "--json", "--type", "manual").stdout.splitlines()]
        return [(row["verb"], row["on"], row["name"], row["reason"], row["uid"]) for row in rows]
    test.wait_for(lambda: manual() != [], "the keeper writes what was done by hand")
    test.equal(manual(), [("suspend", "destination", NAMES[0], "ask noc", 0)], "who did what to whom, and why")


def learned(test, world):
    def rows():
        return [json.loads(line) for line in
                journal(world, "dump", "--json", "--type", "destination").stdout.splitlines()]
    test.wait_for(lambda: {row["name"] for row in rows()} >= set(NAMES[1:]), "the feed writes what it learns")


def messages(test, world):
    """What waits for the site that is suspended."""
    world.submit("u@" + NAMES[0], sender="x@example.org")

    def rows():
        return [json.loads(line) for line in journal(
            world, "dump", "--json", "--destination", NAMES[0], "--type", "envelope").stdout.splitlines()]
    test.wait_for(lambda: rows() != [], "the queue role writes what waits")
    identifier = world.postern.ask("sendmail", "queue", NAMES[0])[0]["id"]
    row = rows()[-1]
    test.equal((row["id"], row["mta"], row["recipients"]), (identifier, "out", 1), "with its queue id")
    test.within(5, lambda: json.loads(journal(world, "stat", "--json").stdout)["queue"]["queued"] == 1,
                "stat: one message is queued")
    queue = json.loads(journal(world, "stat", "--json").stdout)
    test.equal(set(queue), {"feed", "queue", "keeper", "decisions"}, "stat tells of all")
    def deliveries():
        return json.loads(journal(world, "stat", "--json").stdout)["queue"]["deliveries"] or 0
    test.wait_for(lambda: deliveries() >= 60, "positions are recorded, with what was delivered", 30)
    stat = json.loads(journal(world, "stat", "--json").stdout)["queue"]
    test.check(stat["syncs"] > 0 and stat["syncs_per_delivery"] is not None,
               f"{stat['syncs']} fsyncs for {stat['deliveries']} deliveries")


def with_a_daemon(test):
    world = Driven(test, SITES)
    live(test, world)
    by_hand(test, world)
    learned(test, world)
    messages(test, world)
    test.equal(journal(world, "check").returncode, 0, "check: whole")
    world.postern.kill()
    test.equal(journal(world, "check").returncode, 0, "and after kill -9")


def body(test):
    hand_made(test)
    with_a_daemon(test)


main(body, hosts=SITES, addresses=list(SITES), before=find_root)
