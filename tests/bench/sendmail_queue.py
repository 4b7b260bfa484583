#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""tests/bench/sendmail_queue.py [--parts bulk,hang,many] [--worlds stock,postern] [--recipients N]
[--queued N]: a Sendmail as it is, with queue runs of its own, and one whose queue
Postern runs; both deliver with as many processes, and cut bulk alike.

bulk: one message for 2,000 recipients of 50 sites that take 200 ms for each, and 20
      single messages over the 60 s after it keeps all processes busy.  How long the
      singles wait, how long the bulk takes, connections per site, log lines and bytes
      of queue files rewritten for each recipient.
hang: the same bulk alone, without and with one site that accepts and never greets.
many: 20,000 messages that are queued when it starts: how long to the first delivery,
      deliveries a second, and what the queue role costs when all is done.

Private to itself: needs root and a Sendmail (tests/mta/sendmail-root).  Ten minutes.
"""
import argparse
import ctypes
import json
import os
import random
import re
import shutil
import statistics
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "mta"))
from lib.driven import Driven, hosts                # noqa: E402
from lib.sendmail import find_root                  # noqa: E402
from lib.testing import INSIDE, main                # noqa: E402

SITES = hosts(50)
NAMES = list(SITES.values())
DELAY = 0.2                             # seconds that a site takes for a recipient
PROCESSES = 4
SINGLES, SPAN = 20, 60.0
WINDOW = 20                             # destination_concurrency_limit, which is the default
MARK = "figures "


class Rewritten:
    """Bytes of queue files that are written anew (inotify)."""

    def __init__(self, directories):
        self.bytes = self.files = 0
        libc = ctypes.CDLL(None)
        self.fd = libc.inotify_init1(0)
        self.of = {libc.inotify_add_watch(self.fd, str(place).encode(), 0x80): place
                   for place in directories}        # IN_MOVED_TO
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while True:
            data = os.read(self.fd, 1 << 16)
            while data:
                watch, _, _, length = struct.unpack("iIII", data[:16])
                name = data[16:16 + length].rstrip(b"\0").decode()
                data = data[16 + length:]
                if name.startswith("qf"):
                    self.files += 1
                    try:
                        self.bytes += (self.of[watch] / name).stat().st_size
                    except OSError:
                        pass


def cpu_seconds(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def busy(world):
    return sum(row["busy"] for row in world.far.state().values())


def bulk_recipients(test):
    """As many for each site, or as chance has it: then a queue file has many sites."""
    chance = random.Random(test.seed)
    return [f"b{n}@{chance.choice(NAMES) if test.arguments.uneven else NAMES[n % len(NAMES)]}"
            for n in range(test.arguments.recipients)]


def bulk(test, world):
    """Fills all processes with one message, then single ones come."""
    count = test.arguments.recipients
    recipients = bulk_recipients(test)
    accepted = world.submit(*recipients, sender="bulk@example.org")
    rewritten = Rewritten((world.sendmail.root / "queue").iterdir())
    lines = world.syslog().count("\n")
    test.wait_for(lambda: busy(world) >= PROCESSES, "all processes deliver", 90)
    begun = time.monotonic()
    singles = {}
    for n in range(SINGLES):
        due = begun + n * SPAN * test.arguments.scale / SINGLES
        time.sleep(max(0, due - time.monotonic()))  # LINT-SLEEP: the pace
        who = f"s{n}@{NAMES[n * 7 % len(NAMES)]}"
        singles[who] = world.submit(who)
    total = count + SINGLES
    test.wait_for(lambda: world.far.count() >= total, "all is delivered", 600)
    when = world.far.when()
    waits = sorted(when[who] - singles[who] for who in singles)
    last = max(when[who] for who in recipients)
    state = world.far.state()
    return {"p95": waits[int(len(waits) * 0.95)], "median": statistics.median(waits),
            "most_wait": waits[-1], "bulk": last - begun, "bulk_accepted": last - accepted,
            "most": max(row["most"] for row in state.values()),
            "connections": sum(row["connections"] for row in state.values()),
            "lines": (world.syslog().count("\n") - lines) / total,
            "rewritten": rewritten.bytes / total, "rewrites": rewritten.files,
            "twice": sum(many - 1 for many in world.far.delivered().values()),
            "missing": len(set(recipients) - set(when))}


def hang(test, world, hanging):
    """How fast the others' mail goes."""
    recipients = bulk_recipients(test)
    if hanging:
        world.far.tell([list(SITES)[7]], does=test.arguments.does)
    world.submit(*recipients, sender="bulk@example.org")
    others = {who for who in recipients if not who.endswith("@" + NAMES[7])}
    test.wait_for(lambda: busy(world) > 0, "a delivery", 90)
    begun = time.monotonic()
    test.wait_for(lambda: len(others & set(world.far.delivered())) == len(others),
                  "the others' mail is delivered", 600)
    when = world.far.when()
    last = max(when[who] for who in others)
    return {"rate": len(others) / (last - begun), "seconds": last - begun}


def many(test, world):
    count = test.arguments.queued
    if world.postern is not None:
        world.postern.stop()
    world.far.tell(delay=0)
    world.fill(count, NAMES)
    lines = world.syslog().count("\n")
    begun = time.monotonic()
    if world.postern is None:
        test.spawn([world.sendmail.binary, "-C", world.sendmail.cf, "-q"], "run",
                   env={"PATH": "/usr/bin:/bin", "LD_LIBRARY_PATH": str(world.sendmail.library)})
    else:
        world.postern.start(wait=False)
    test.wait_for(lambda: world.far.count() > 0, "a first delivery", 60)
    test.wait_for(lambda: world.far.count() >= count, "all is delivered", 1200)
    times = [when for when, _, _ in world.far.deliveries()]
    figures = {"first": times[0] - begun, "rate": count / (times[-1] - begun),
               "seconds": times[-1] - begun, "lines": (world.syslog().count("\n") - lines) / count,
               "twice": sum(n - 1 for n in world.far.delivered().values()),
               "connections": sum(row["connections"] for row in world.far.state().values()),
               "most": max(row["most"] for row in world.far.state().values())}
    if world.postern is not None:
        pid = next(pid for role, pid in world.postern.roles().items() if role.startswith("queue"))
        before = cpu_seconds(pid)
        time.sleep(10)                              # LINT-SLEEP: what it costs in that time
        figures["idle_cpu_percent"] = (cpu_seconds(pid) - before) * 10
        figures["rss_mb"] = int(re.search(r"VmHWM:\s*(\d+)", Path(
            f"/proc/{pid}/status").read_text())[1]) / 1024
    return figures


def body(test):
    part, world_name = test.arguments.only.split(":")
    stock = world_name == "stock"
    processes = test.arguments.processes or (10 if part == "many" else PROCESSES)
    world = Driven(test, SITES, processes=processes, stock=stock,
                   delay=DELAY * test.arguments.scale,
                   interval=None if part == "many" or not stock else "60s")
    figures = {"bulk": bulk, "many": many,
               "hang": lambda t, w: hang(t, w, True), "good": lambda t, w: hang(t, w, False)}[part](
                   test, world)
    test.check(True, f"{part}, {world_name}")
    if test.arguments.keep:
        shutil.copytree(test.logs, f"{test.arguments.keep}/{part}-{world_name}",
                        dirs_exist_ok=True)
    print(MARK + json.dumps(figures), flush=True)


# Outside: each part in a world of its own, and what came of it.


def run(part, world, words):
    done = subprocess.run([sys.executable, "-B", __file__, "--only", f"{part}:{world}", *words],
                          text=True, capture_output=True)
    for line in done.stdout.splitlines():
        if line.startswith(MARK):
            figures = json.loads(line[len(MARK):])
            print(f"{part:5} {world:8} " + ", ".join(
                f"{name} {value:.4g}" for name, value in figures.items()), flush=True)
            return figures
    print(done.stdout[-3000:], done.stderr[-1000:])
    if done.returncode == 77:
        sys.exit(77)
    return None


def judge(ok, text):
    print(f"{'met   ' if ok else 'MISSED'} {text}", flush=True)


def compare_bulk(ours, stock):
    judge(ours["most"] <= WINDOW, f"bulk: {ours['most']} connections to a site, {WINDOW} at most")
    judge(ours["lines"] <= 5, f"bulk: {ours['lines']:.2f} log lines for a recipient, 5 at most")
    judge(ours["rewritten"] <= 20000, f"bulk: {ours['rewritten']:.0f} bytes of queue files "
          "rewritten for a recipient, 20 kB at most")
    judge(ours["twice"] == 0 and ours["missing"] == 0, "bulk: each recipient once")
    if stock:
        judge(ours["p95"] <= stock["p95"] / 5, f"bulk: p95 of the singles {ours['p95']:.1f} s, "
              f"stock's {stock['p95']:.1f} s: a fifth at most")
        judge(ours["bulk"] <= 1.25 * stock["bulk"], f"bulk: {ours['bulk']:.1f} s, stock's "
              f"{stock['bulk']:.1f} s: 1.25 times at most")


def compare_many(ours, stock):
    judge(ours["first"] <= 10, f"many: first delivery after {ours['first']:.2f} s, 10 at most")
    judge(ours["idle_cpu_percent"] < 1, f"many: idle role {ours['idle_cpu_percent']:.2f} % CPU")
    judge(ours["twice"] == 0, "many: each recipient once")
    if stock:
        judge(ours["rate"] >= 0.8 * stock["rate"], f"many: {ours['rate']:.1f} a second, stock's "
              f"{stock['rate']:.1f}: 0.8 at least")


def outside():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", default="bulk,hang,many")
    parser.add_argument("--worlds", default="stock,postern")
    given, words = parser.parse_known_args()
    worlds = given.worlds.split(",")
    for part in given.parts.split(","):
        if part == "hang":
            good = run("good", "postern", words)
            bad = run("hang", "postern", words)
            if good and bad:
                judge(bad["rate"] >= 0.9 * good["rate"], f"hang: {bad['rate']:.1f} a second with "
                      f"a site that hangs, {good['rate']:.1f} without: 0.9 at least")
            continue
        figures = {world: run(part, world, words) for world in worlds}
        if figures.get("postern"):
            (compare_bulk if part == "bulk" else compare_many)(figures["postern"],
                                                               figures.get("stock"))


if INSIDE not in os.environ and "--only" not in sys.argv:
    outside()
else:
    main(body, hosts=SITES, addresses=list(SITES), seconds=1800, before=find_root, options=(
        ("--only", {}), ("--recipients", {"type": int, "default": 2000}),
        ("--queued", {"type": int, "default": 20000}),
        ("--scale", {"type": float, "default": 1.0, "help": "of the delays of sites, and arrivals"}),
        ("--keep", {"metavar": "DIRECTORY", "help": "the logs are copied there"}),
        ("--uneven", {"action": "store_true", "help": "recipients as chance has it"}),
        ("--does", {"default": "silent", "help": "how the site hangs: silent or at-dot"}),
        ("--processes", {"type": int, "default": 0})))
