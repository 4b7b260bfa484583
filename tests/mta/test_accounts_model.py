#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""Accounts against a model that is exact: what each recipient and each end of a message must
be answered, whatever is repeated, given up, turned away by others, or told by a clock that
lags.  The model keeps every event with its time; it has no sub-windows.

Never more than the limit in any window (by the clock as each question read it, which may be
50 ms before it got its lock): with more the answer must be no.  Where even what is
a twelfth of the window older counts and there is room, it must be yes (what a transaction gives
back is taken from its begin: others of that time may count in its stead until its end does).  Between
these either is right, and the model takes over what was answered.

	QUESTIONS=2000000 tests/mta/run accounts_model
"""
import os
import random
import subprocess
import sys
from pathlib import Path

from lib.postern import build_tree
from lib.testing import Skipped, main

SECOND = 10**9
LOGINS = ["ann@a", "Bob@a", "cee@a", "dan@b", "eve@b", "few@a", "Much@a", "obs@c", "Ost@c",
          "old@d", "few@d", "net@e"]
NEW_AT_A_TIME, FOR = 2, 1800        # logins of entry d that nobody has seen before; seconds
CONFIG = """classes = ();
account_overrides = "%s";
accounts = (
  { name = "a"; match = "*@a"; free = "own";
    each = { recipients = [ "12/1m", "60/10m" ]; messages = "9/1m"; bytes = "200k/10m";
             recipients_per_message = 7; };
    all = { recipients = "30/1m"; }; },
  { name = "b"; match = "*@b"; action = "reject"; each = { recipients = "5/1m"; }; },
  { name = "c"; match = "*@c"; observe = true;
    each = { recipients = "5/1m"; messages = "4/1m"; bytes = "200k/10m";
             recipients_per_message = 4; }; },
  { name = "d"; match = "*@d"; each = { recipients = "9/1m"; messages = "5/1m"; };
    new = { recipients = [ "4/1m", "12/10m" ]; for = "30m"; }; },
  { name = "e"; match = "*@e"; each = { recipients = "9/1m"; networks = "3/10m"; }; } );
"""
OVERRIDES = """# login   limits
FEW@a     recipients=3/1m,9/10m recipients_per_message=2
much@a    recipients=none messages=none
few@d     messages=3/1m
"""
# of each entry: (kind, seconds, limit) of a login, of all together, and recipients of a message
RULES = {"a": ([("r", 60, 12), ("r", 600, 60), ("m", 60, 9), ("k", 600, 200)], [("r", 60, 30)], 7),
         "b": ([("r", 60, 5)], [], None),
         "c": ([("r", 60, 5), ("m", 60, 4), ("k", 600, 200)], [], 4),
         "d": ([("r", 60, 9), ("m", 60, 5)], [], None),
         "e": ([("r", 60, 9)], [], None)}
NEW = {"d": [("r", 60, 4), ("r", 600, 12)]}
OVERRIDDEN = {"few@a": ([("r", 60, 3), ("r", 600, 9), ("m", 60, 9), ("k", 600, 200)], [("r", 60, 30)], 2),
              "much@a": ([("k", 600, 200)], [("r", 60, 30)], 7),
              "few@d": ([("r", 60, 9), ("m", 60, 3)], [], None)}
NETWORKS = {"e": (600, 3)}
OBSERVED, REJECTED, FREE = "c", "b", "a"
LAG = SECOND // 20          # who waits for a lock has read the clock so long before, at most


class Event:
    __slots__ = ("time", "kind", "amount", "given_back_after", "first", "last")

    def __init__(self, time, kind, amount):
        self.time, self.kind, self.amount = time, kind, amount
        self.given_back_after = None        # that long after its transaction began


class Transaction:
    def __init__(self, instance, login):
        self.instance, self.login = instance, login
        self.network = None
        self.events, self.passed, self.free, self.last, self.done = [], 0, 0, None, False

    @property
    def charged(self):
        return sum(event.amount for event in self.events)


class Model:
    def __init__(self, begun):
        self.begun = begun          # logins are known since then
        self.of_login = {}          # login -> events; entry -> events of all its logins
        self.transactions = {}      # process -> Transaction
        self.first = {}             # login -> when it was seen first
        # (login, network) -> last time: of a recipient that was let in, of anything but too many
        self.let_in, self.used_from = {}, {}
        self.ambiguous = self.new = self.of_networks = 0

    def events(self, name):
        return self.of_login.setdefault(name, [])

    def drop(self, transaction, count):
        """The last of its recipients do not count any more."""
        if not transaction.events:
            return
        lasted = self.now - transaction.events[0].time
        first, last = transaction.events[0].time, max(e.time for e in transaction.events)
        while count > 0:
            event = transaction.events.pop()
            count -= event.amount
            event.given_back_after, event.first, event.last = lasted, first, last

    def over(self, process):
        old = self.transactions.pop(process, None)
        if old and old.network:
            self.used_from[old.network] = self.now
        if old and not old.done:
            self.drop(old, old.charged)

    def may(self, login, amounts):
        """True, False or None: either."""
        own, common, _ = rules(login)
        without = self.within(login, own, common, amounts)
        if login[-1] not in NEW or login in OVERRIDDEN:
            return without
        first = self.first.setdefault(login, self.now)
        ago = self.now - first
        # whole seconds; nobody is new to a table that is
        if first - self.begun < (FOR - 2) * SECOND or ago > (FOR + 2) * SECOND:
            return without
        both = self.within(login, own + NEW[login[-1]], common, amounts)
        if first - self.begun > (FOR + 2) * SECOND and ago < (FOR - 2) * SECOND:
            self.new += both is False
            return both
        return both if both == without else None

    def may_from(self, login, network):
        """As may: from this network."""
        if login[-1] not in NETWORKS:
            return True
        seconds, most = NETWORKS[login[-1]]
        window = seconds * SECOND

        def since(times, when):
            return {other for (name, other), time in times.items() if name == login and time > when}
        sure = since(self.let_in, self.now - window + LAG)
        if network in sure:
            return True
        if len(sure) >= most:
            self.of_networks += 1
            return False
        maybe = since(self.used_from, self.now - window - window // 12 - 4 * LAG) | {network}
        return True if len(maybe) <= most else None

    def within(self, login, own, common, amounts):
        answer = True
        for name, rules in ((login, own), (login[-1], common)):
            for kind, seconds, limit in rules:
                if amounts[kind] == 0:
                    continue
                window = seconds * SECOND
                late = window + window // 12 + 2 * LAG
                exact = at_most = amounts[kind]
                for event in self.events(name):
                    if event.kind != kind:
                        continue
                    if event.given_back_after is None:
                        exact += event.amount * (event.time > self.now - window + LAG)
                    # a window that is shorter than the transaction was gives nothing back
                    if event.given_back_after is None or event.given_back_after >= window - LAG:
                        at_most += event.amount * (event.time > self.now - late)
                    # what was taken from its begin others may have charged, as late as its end
                    elif event.first + window - LAG < self.now:
                        at_most += event.amount * (event.last > self.now - late)
                if exact > limit:
                    return False
                if at_most > limit:
                    answer = None
        return answer

    def charge(self, transaction, amounts):
        for kind, amount in amounts.items():
            if amount == 0:
                continue
            event = Event(self.now, kind, amount)
            if kind == "r" and not transaction.done:
                transaction.events.append(event)
            for name in (transaction.login, transaction.login[-1]):
                self.events(name).append(event)

    def forget_old(self):
        horizon = self.now - 700 * SECOND
        for name, events in self.of_login.items():
            self.of_login[name] = [event for event in events if event.time > horizon]

    def transaction(self, process, instance, login):
        """Of this question: another one of the process is over."""
        if process not in self.transactions or self.transactions[process].instance != instance:
            self.over(process)
            self.transactions[process] = Transaction(instance, login)
        return self.transactions[process]


def rules(login):
    return OVERRIDDEN.get(login) or RULES[login[-1]]


def never(login, amounts):
    own, common, _ = rules(login)
    return any(amounts[kind] > limit for kind, _, limit in own + common)


def wrong(test, told, line, model, wanted):
    test.check(False, f"after {model.asked} questions: {line}: {told}, but {wanted}")
    sys.exit(1)


class World:
    def __init__(self, test, program, files, rng):
        self.test, self.rng, self.model = test, rng, Model(0)
        self.pipe = subprocess.Popen([program, *files], stdin=subprocess.PIPE,
                                     stdout=subprocess.PIPE, text=True, bufsize=1 << 16)
        self.model.asked = self.refused = self.observed = 0
        self.time = 1000 * SECOND
        self.numbers = 0
        self.new_logins = []

    def say(self, line):
        self.pipe.stdin.write(line + "\n")

    def ask(self, line, may, never=False):
        """True: yes.  Ends the test if that is not what `may` says.  A no is for good if the entry
        rejects, or if the limit is smaller than what is asked for (`never`)."""
        self.say(line)
        self.pipe.stdin.flush()
        told = self.pipe.stdout.readline().split()
        yes = told[:1] == ["yes"]
        self.is_too_many = told[1:2] == ["account-networks"]
        entry = line.split()[1][-1]
        self.model.asked += 1
        self.refused += not yes
        self.observed += not yes and entry == OBSERVED
        if may is None:
            self.model.ambiguous += 1
        elif may != yes:
            wrong(self.test, told, line, self.model, "yes" if may else "no")
        wanted = "observed" if entry == OBSERVED else "never" if never or entry == REJECTED else "no"
        if not yes and told[:1] != [wanted]:
            wrong(self.test, told, line, self.model, wanted)
        return yes

    def newcomer(self):
        self.numbers += 1
        self.new_logins = [f"new{self.numbers}@d", *self.new_logins][:NEW_AT_A_TIME]

    def turn(self, more=0):
        """Some time passes; sometimes a process has waited for a lock."""
        self.time += more + int(self.rng.expovariate(1 / 0.45) * SECOND)
        self.model.now = self.time - (self.rng.randrange(LAG) if self.rng.random() < 0.1 else 0)
        self.say(f"T {self.model.now}")

    def recipient(self, process, now_and_then):
        rng, model, login = self.rng, self.model, now_and_then["login"]
        instance, size = now_and_then["instance"], now_and_then["size"]
        old = model.transactions.get(process)
        again = old and old.instance == instance and old.last and rng.random() < 0.15
        free = not again and login[-1] == FREE and rng.random() < 0.1
        self.numbers += 1
        to = old.last if again else f"r{self.numbers}@{'own' if free else 'x'}"
        line = f"R {login} {instance} {size} {to} {now_and_then['network']}"
        transaction = model.transaction(process, instance, login.lower())
        if again:
            return self.ask(line, True)
        per_message = rules(login.lower())[2]
        if per_message and transaction.charged + transaction.passed >= per_message:
            self.ask(line, False)
            return self.let_by(transaction)
        if free:
            transaction.passed += 1
            transaction.free += 1
            transaction.last = to
            return self.ask(line, True)
        amounts = {"r": 1, "m": 1, "k": max(1, -(-size // 1024))}
        allowed, network = model.may(login.lower(), amounts), (login.lower(), now_and_then["network"])
        if allowed is not False:
            allowed = min(allowed, model.may_from(*network), key=[False, None, True].index)
        yes = self.ask(line, allowed, never(login.lower(), amounts))
        if not self.is_too_many:
            model.used_from[network] = model.now
            transaction.network = network
        if yes:
            model.let_in[network] = model.now
            model.charge(transaction, {"r": 1})
            transaction.last = to
        return yes or self.let_by(transaction)

    def let_by(self, transaction):
        """In observe mode: it is accepted, and does not count."""
        if transaction.login[-1] != OBSERVED:
            return False
        transaction.passed += 1
        transaction.last = None
        return True

    def end(self, process, now_and_then):
        rng, model, login = self.rng, self.model, now_and_then["login"]
        transaction = model.transaction(process, now_and_then["instance"], login.lower())
        counted = transaction.charged + transaction.passed
        count = max(1, counted - (rng.randrange(3) if rng.random() < 0.2 else 0))
        if rng.random() < 0.02:
            count += 2              # that nobody asked about
        size = rng.choice((0, 500, 3000, 20000, 150000, 250000))
        amounts = {"r": max(0, count - counted), "m": 1, "k": max(1, -(-size // 1024))}
        line = f"E {login} {now_and_then['instance']} {size} {count} {now_and_then['network']}"
        if transaction.free == counted and count <= counted:     # all are free: so is the message
            transaction.done = self.ask(line, True)
            return
        yes = self.ask(line, model.may(login.lower(), amounts), never(login.lower(), amounts))
        model.used_from[login.lower(), now_and_then["network"]] = model.now
        if not yes and login[-1] == OBSERVED:   # accepted: its recipients stay, and no more counts
            transaction.done = True
            model.drop(transaction, max(0, transaction.charged - count))
        elif yes:
            transaction.done = True
            model.charge(transaction, amounts)
            if transaction.charged > count:
                model.drop(transaction, transaction.charged - count)
            if rng.random() < 0.1:
                self.ask(line, True)
        else:
            model.over(process)

    def message(self, process):
        rng = self.rng
        self.numbers += 1
        # each has three networks where it mostly is
        login = rng.choice([*LOGINS, *self.new_logins])
        now_and_then = {"login": login, "size": rng.choice((0, 0, 3000, 150000, 250000)),
                        "network": 1 + rng.randrange(3 if rng.random() < 0.97 else 8),
                        "instance": f"{process:x}.1.{self.numbers:x}.0"}
        accepted = 0
        for _ in range(1 + rng.randrange(6)):
            accepted += self.recipient(process, now_and_then)
            yield
        what = rng.random()
        if accepted and what < 0.7:
            self.end(process, now_and_then)
        elif what < 0.8:
            self.say(f"O {process:x}")
            self.model.over(process)


def body(test):
    program = Path(build_tree()) / "tests/sim/ask_accounts"
    if not program.exists():
        raise Skipped("tests/sim/ask_accounts is not built (make test-programs)")
    config = test.directory / "accounts"
    overrides = test.directory / "overrides"
    overrides.write_text(OVERRIDES)
    overrides.chmod(0o644)
    config.write_text(CONFIG % overrides)
    wanted = int(os.environ.get("QUESTIONS") or 200000)
    world = World(test, program, [config, overrides], random.Random(test.seed))
    running = {process: None for process in range(1, 4)}
    while world.model.asked < wanted:
        world.turn()
        if world.rng.random() < 0.001:      # quiet times: what is under way ends before
            for messages in filter(None, running.values()):
                list(messages)
            running = dict.fromkeys(running)
            world.turn(world.rng.choice((50, 300, 700)) * SECOND)
        if world.rng.random() < 0.001 or not world.new_logins:
            world.newcomer()
        process = world.rng.choice(list(running))
        if running[process] is None or next(running[process], "over") == "over":
            running[process] = world.message(process)
            next(running[process])
        if world.rng.random() < 0.02:
            world.model.forget_old()
    world.pipe.stdin.close()
    test.equal(world.pipe.wait(10), 0, "the program under test ends")
    model = world.model
    test.say(f"{model.asked} questions, {world.refused} refused; either answer was right for "
             f"{model.ambiguous}")
    test.check(world.refused > wanted // 20, "limits were met")
    test.check(model.ambiguous < wanted // 4, "and nearly all answers are determined")
    test.say(f"{world.observed} would have been refused, {model.new} were for new logins, "
             f"{model.of_networks} for networks")
    for count in (world.observed, model.new, model.of_networks):
        test.check(count > wanted // 2000, "those, too")


main(body)
