#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""A keeper that is not ours any more: a program of the roles' user overwrites, replaces and
cuts the hints file, at random and aimed, while a real Postfix asks postern-lookup; and then the
state that hints are made of, while Postern runs, questions and reloads come.  No answer names
another next hop or another transport, mail goes where it went or is held, and postern-lookup
never ends by itself."""
import os
import re
import signal
import subprocess
import sys
import threading
import time

from lib.limiter import Limiter
from lib.routing import REMOTE, Routing, Site
from lib.testing import alive, main
from test_attack import answer, attacker

PORT, SECONDS = 2025, 6
HOSTS = {"192.0.2.11": "open.example", "192.0.2.12": "hop.example", "192.0.2.13": "slow.example"}
EVIL = {"192.0.2.66": "bad.example"}
MAIN = """transport_maps = inline:{ port.example=smtp:[hop.example] }
mydestination = local.example
local_recipient_maps = inline:{ postern=x }
mail_spool_directory = /run/t/boxes
"""
NEXT_HOPS = {"u@open.example": "", "u@port.example": "[hop.example]", "u@slow.example": ""}
WIDTHS = (1, 2, 3, 5, 10, 20)

ATTACK = r'''
import os, random, struct, sys, time
path, seconds = sys.argv[1], float(sys.argv[2])
os.setgroups([])
os.setgid(int(sys.argv[4]))
os.setuid(int(sys.argv[3]))
random.seed(int(sys.argv[5]))
good = open(path, "rb").read()
header_bytes = struct.unpack_from("=I", good, 12)[0]
now = lambda: int(time.clock_gettime(time.CLOCK_BOOTTIME) * 1e9)
beat = next(at for at in range(24, 256, 4)
            if abs(struct.unpack_from("=q", good, at)[0] - now()) < 60e9)
VALUES = (0, 1, 1 << 31, 1 << 32, 1 << 46, (1 << 64) - 1, len(good), len(good) - 1)
# in place: another next hop, another domain, a next hop where there was none
AIMS = ((b"[hop.example]", b"[bad.example]"), (b"open.example", b"port.example"),
        (b"\x0c\x00\x00open.example", b"\x0c\x0d\x00open.example[bad.example]"))
counts = [0] * 6

def write(fd, data):
    os.pwrite(fd, data[:beat] + struct.pack("=q", now()) + data[beat + 8:], 0)

def replace(fd, data):
    with open(path + ".evil", "wb") as file:
        write(file.fileno(), data)
    os.chmod(path + ".evil", 0o644)
    os.rename(path + ".evil", path)
    os.pwrite(fd, b"\1\0\0\0", beat + 8)        # the one before says so

def word(low, high):
    value = random.choice(VALUES + (random.getrandbits(64),))
    return random.randrange(low, high) & ~3, struct.pack("=Q", value)

def header_word():
    while True:
        at, data = word(24, random.choice((200, header_bytes)))
        if not beat - 8 < at < beat + 12:
            return at, data

def spoil(how, fd):
    if how == 0:        # of the header, under the reader
        for _ in range(random.randrange(1, 5)):
            at, data = header_word()
            os.pwrite(fd, data, at)
    elif how == 1:      # of the tables
        for _ in range(random.choice((10, 1000))):
            at, data = word(header_bytes, len(good) - 8)
            os.pwrite(fd, data, at)
    elif how == 2:      # cut, and long again
        for _ in range(20):
            os.ftruncate(fd, random.choice((0, 100, header_bytes,
                                            random.randrange(len(good)))))
            os.ftruncate(fd, len(good))
            write(fd, good)
    elif how == 3:      # another file, that says what it likes of itself
        data = bytearray(good)
        for _ in range(random.randrange(4)):
            at, value = header_word()
            data[at:at + 8] = value
        replace(fd, bytes(data))
    elif how == 4:
        old, new = random.choice(AIMS)
        at = good.find(old)
        if at >= 0:
            os.pwrite(fd, new, at)
    elif how == 5:      # any bytes, anywhere
        for _ in range(random.choice((1, 10, 100))):
            at = random.randrange(len(good))
            os.pwrite(fd, random.randbytes(min(random.choice((1, 4, 64, 4096)), len(good) - at)), at)
    counts[how] += 1

end = time.monotonic() + seconds
while time.monotonic() < end:
    fd = os.open(path, os.O_RDWR)
    write(fd, good)
    time.sleep(random.choice((0.001, 0.01)))
    spoil(random.randrange(6), fd)
    time.sleep(random.choice((0.0001, 0.001, 0.005)))
    os.close(fd)
print(*counts)
'''


def is_allowed(address, answer):
    """NOTFOUND; held; or by a lane of the site's to the site's own next hop."""
    if answer == "NOTFOUND" or re.fullmatch(r"OK retry:4\.7\.1 [^\x00-\x1f\x7f]*", answer, re.S):
        return True
    return answer in [f"OK lane{width}:{NEXT_HOPS[address]}" for width in WIDTHS]


class Asker(threading.Thread):
    """Asks one postern-lookup without an end, as Postfix would."""

    def __init__(self, routing, site):
        super().__init__()
        self.process = subprocess.Popen(
            [routing.lookup, f"{routing.postern.shared}/state.hints", site.name,
             f"{routing.test.directory}/site/{site.name}"], user="nobody", group="nogroup",
            extra_groups=[], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.kinds, self.wrong, self.ends = {}, [], False
        self.start()

    def answer(self):
        length = b""
        while not length.endswith(b":"):
            byte = self.process.stdout.read(1)
            if not byte:
                return None
            length += byte
        return self.process.stdout.read(int(length[:-1]) + 1)[:-1].decode("latin-1").rstrip(" ")

    def run(self):
        while not self.ends:
            for address in NEXT_HOPS:
                key = f"transport {address}"
                try:
                    self.process.stdin.write(f"{len(key)}:{key},".encode())
                    self.process.stdin.flush()
                except BrokenPipeError:
                    return
                answer = self.answer()
                if answer is None:
                    return
                kind = re.sub(r"\d.*", "", answer)
                self.kinds[kind] = self.kinds.get(kind, 0) + 1
                if not is_allowed(address, answer):
                    self.wrong.append((address, answer))

    def stop(self):
        """Its exit status."""
        self.ends = True
        self.join()
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass
        return self.process.wait(10)


def is_as_before(plain, outcome):
    """Delivered as without Postern, or held."""
    return outcome == plain or (outcome[0] == 250 and
                                all(result[4:6] == ("4.7.1", "deferred") for result in outcome[1]))


def rounds_of_mail(routing, site, plain, attack, meanwhile=lambda number: None):
    """Until the attack ends: how many, and what went elsewhere."""
    rounds, wrong = 0, []
    while attack.poll() is None:
        meanwhile(rounds)
        found = routing.outcomes(site, site.send(list(plain)))
        wrong += [(name, outcome) for name, outcome in found.items()
                  if not is_as_before(plain[name], outcome)]
        site.empty()
        rounds += 1
        time.sleep(0.05)
    return rounds, wrong[:5]


def state_attacked(test, routing, site, plain, seconds):
    """Roles die of it, and the segment may be built again: mail has no other way for that."""
    postern = routing.postern
    test.deaths_expected = test.attacked = True
    postern.start()
    supervisor = postern.status()["pid"]
    attack = attacker(postern, "words", str(seconds), str(test.seed))

    def meanwhile(number):
        answer(postern, number)
        if number % 4 == 0:
            os.kill(supervisor, signal.SIGHUP)
    asker = Asker(routing, site)
    rounds, wrong = rounds_of_mail(routing, site, plain, attack, meanwhile)
    status = asker.stop()
    test.equal(attack.returncode, 0, f"words of the state were overwritten for {seconds} s: "
               f"{attack.stdout.read().strip()}")
    test.equal((status, asker.wrong[:5]), (0, []), "postern-lookup ended when it was let go, no answer "
               f"named another next hop or transport: {asker.kinds}")
    test.equal(wrong, [], f"{rounds} rounds of mail went where they went, or were held")
    test.check(alive(supervisor), "the supervisor lives")
    postern.stop()


def attacked(test, routing, site, plain, seconds):
    hints = routing.postern.shared / "state.hints"
    owner = hints.stat()
    test.check(owner.st_uid != 0, "the hints file is no file of root's")
    routing.postern.stop()
    attack = subprocess.Popen([sys.executable, "-c", ATTACK, hints, str(seconds),
                               str(owner.st_uid), str(owner.st_gid), str(test.seed)],
                              stdout=subprocess.PIPE, text=True)
    asker = Asker(routing, site)
    routing.widths.clear()
    rounds, wrong = rounds_of_mail(routing, site, plain, attack)
    status = asker.stop()
    done = attack.stdout.read().strip()
    test.equal(attack.returncode, 0, f"the attack ran to its end: {done}")
    test.equal(status, 0, f"postern-lookup ended when it was let go: {asker.kinds}")
    test.equal(asker.wrong[:5], [], "no answer named another next hop or transport")
    test.check(asker.kinds.get("OK lane", 0) > 0, "lanes were answered meanwhile")
    test.equal(wrong, [], f"{rounds} rounds of mail went where they went, or were held")


def body(test):
    sink = Limiter(test, list(HOSTS), REMOTE, seconds=0)
    evil = Limiter(test, list(EVIL), REMOTE, seconds=0)
    site = Site(test, "A", [PORT], MAIN, ["smtp unix - - n - - smtp\n"],
                mta=f"ports = [ {REMOTE} ];")
    routing = Routing(test, [site])
    plain = routing.round(site, list(NEXT_HOPS))
    routing.postern.start()
    routing.attach(site)
    routing.round(site, list(NEXT_HOPS))
    for address, next_hop in NEXT_HOPS.items():
        test.wait_for(lambda: re.fullmatch(rf"OK lane\d+:{re.escape(next_hop)}",
                                           routing.ask(site, address)), f"{address} has a lane")
    attacked(test, routing, site, plain, test.rounds or SECONDS)
    state_attacked(test, routing, site, plain, test.rounds or SECONDS)
    test.equal(len(evil.delivered), 0, "nothing came to the host that the attack named")
    test.check(len(sink.delivered) > 0, "mail went")
    for line in site.postfix.log_text().splitlines():
        if "mail transport unavailable" in line or "unknown mail transport" in line:
            test.check(False, line)


main(body, hosts={**HOSTS, **EVIL}, addresses=[*HOSTS, *EVIL], seconds=60)
