#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""Real Postfix with two clones of the transport smtp, each with an address of its own that is
warmed up: a receiver that sees each message's source address never gets one more than the plan
allows in a day, through 20 kills of roles and of posternd, and the loss of the state file; what is
above waits, or goes by another transport; the next day has the next number, and a bad one ends
early."""
import os
import signal

from lib.journal import Journal
from lib.later import later
from lib.outbound import REMOTE, Outbound
from lib.postern import one_class
from lib.testing import main
from lib.warm import Receiver

PORT, GROUP = 2025, "games"             # a group that every system has
ADDRESS = {"ip2": "198.51.100.2", "ip3": "198.51.100.3"}
HOSTS = {"192.0.2.11": "a.big.example", "192.0.2.12": "b.big.example",
         "192.0.2.13": "other.example"}
GROUPS = {"a.big.example": "big", "b.big.example": "big", "other.example": "others"}
PLAN = {"ip2": [60, 70, 400], "ip3": [40, 45, 300]}
PROVIDERS = """version = 1;
providers = ( { name = "big"; relays = [ "*.big.example" ]; } );
replies = ( { name = "rate"; match = "^450 4\\\\.7\\\\.1 too much mail"; class = "remote-throttle"; } );
"""
SERVICES = [f"""smtp-{name} unix - - n - - smtp
  -o syslog_name=postfix-A/smtp-{name}
  -o smtp_bind_address={address}
""" for name, address in ADDRESS.items()]
# Postfix itself tries nothing again meanwhile.
PATIENT = """queue_run_delay = 2h
minimal_backoff_time = 2h
maximal_backoff_time = 4h
"""
DAY = 24 * 3600


def settings(providers, over):
    entries = ",\n".join(
        f'  {{ name = "{name}"; transport = "smtp-{name}"; warm = {{ plan = {PLAN[name]}; }};'
        + (f' over = "{over}";' if name == "ip3" else "") + " }" for name in ADDRESS)
    return f'providers = "{providers}";\nsources = (\n{entries} );\n'


class World:
    def __init__(self, test):
        self.test = test
        self.sink = Receiver(test, HOSTS, REMOTE, GROUPS)
        self.providers = test.directory / "providers.conf"
        self.providers.write_text(PROVIDERS)
        self.site = Outbound(test, PORT, [one_class("all", 10000)], services=SERVICES, main=PATIENT,
                             settings=settings(self.providers, "wait"), group=GROUP)
        self.postern, self.postfix = self.site.postern, self.site.postfix
        self.journal = Journal(test, self.postern)
        self.day, self.sent, self.users, self.first = 0, 0, 0, 0

    def send(self, count, domain):
        self.users += 1
        self.sent += count
        self.postfix.send(PORT, domain, count, user=f"u{self.users}")

    def learn(self):
        """Mail counts with the others until its provider is known, and the hints have it."""
        for domain in GROUPS:
            self.send(1, domain)
        self.test.wait_for(lambda: len(self.sink.addresses) == len(GROUPS), "each was delivered to")
        for domain in ("a.big.example", "b.big.example"):
            before = self.row("ip2", "big")["sent"]

            def counts_there():
                self.send(1, domain)
                return self.test.poll(lambda: self.row("ip2", "big")["sent"] > before, 1) is not None
            self.test.wait_for(counts_there, f"mail to {domain} counts for its provider")
        self.test.wait_for(lambda: len(self.sink.addresses) == self.sent, "all was delivered")
        self.test.wait_for(lambda: sum(self.row("ip2", one)["sent"] for one in ("big", "others")) >=
                           self.sent, "all is counted")
        self.first = self.tried("ip2", "big") - self.row("ip2", "big")["sent"]

    def explained(self, domain):
        return self.postern.ask("explain", "destination", domain)

    def rows(self):
        return {(row["source"], row["provider"]): row
                for row in self.postern.ask("explain", "source")}

    def row(self, source, provider):
        return self.rows().get((source, provider), {"sent": 0})

    def tried(self, source, group):
        return self.sink.tried[ADDRESS[source], group]

    def waiting(self):
        return len(self.postfix_queue())

    def postfix_queue(self):
        return [file for place in ("active", "deferred", "incoming", "maildrop")
                for file in (self.postfix.spool / place).rglob("*") if file.is_file()]

    def never_above(self, text, step=0):
        """What each address tried in this day; the first messages counted with the others."""
        came = {(source, group): self.tried(source, group) for source in ADDRESS
                for group in ("big", "others")}
        came["ip2", "big"] -= self.first
        came["ip2", "others"] += self.first
        wrong = {key: count for key, count in came.items() if count > PLAN[key[0]][step]}
        self.test.equal(wrong, {}, f"{text}: never above the plan: " + ", ".join(
            f"{source} {count} of {PLAN[source][step]} to {group}"
            for (source, group), count in came.items()))

    def next_day(self):
        """All of it starts again, a day later by the clock of the boot."""
        self.day += 1
        self.postfix.stop()
        self.postern.stop()
        later(self.day * (DAY + 3600))
        self.sink.fresh()
        self.first = 0
        self.postern.start_again()
        self.test.wait_for(lambda: all(row["released"] for row in self.rows().values()),
                           "the new day's numbers are released")
        self.postfix.start(PORT)


def one_day(test, world):
    """Up to the number, the first source first; the rest waits."""
    world.send(20, "a.big.example")
    world.send(10, "other.example")
    test.wait_for(lambda: len(world.sink.addresses) == world.sent, "all of it goes")
    test.check(world.tried("ip3", "big") + world.tried("ip3", "others") <= 6,
               "nearly all by the first source, while it has messages left")
    world.never_above("the first mail")


def kills(test, world):
    """One death after the other while mail comes, without a state file from the middle on."""
    roles = ("feed.0", "keeper.0", "policy.0", "posternd")
    for number in range(20):
        victim = roles[number % len(roles)]
        world.send(4, "ab"[number % 2] + ".big.example")
        if victim != "posternd":
            os.kill(world.postern.roles()[victim], signal.SIGKILL)
            world.send(2, "other.example")
            test.wait_for(lambda: world.postern.roles().get(victim), f"{victim} is back")
        else:
            world.postern.kill()
            if number > 16:
                world.journal.lose_state()
            world.postern.start_again()
        # what may go goes meanwhile
        test.poll(lambda: len(world.sink.addresses) >= world.sent, 1)
        world.never_above(f"kill {number + 1}, of {victim}")


def full(test, world):
    """What is above the numbers waits, and says why."""
    world.send(60, "b.big.example")
    world.send(80, "other.example")
    test.wait_for(lambda: "(Postern: warm-up of ip3" in world.postfix.log_text(), "mail waits")
    test.wait_for(lambda: world.explained("a.big.example")["binds"] == "warm-up",
                  "explain destination names it")
    world.test.throughout(5, lambda: world.tried("ip2", "big") <= PLAN["ip2"][0], "and goes on waiting")
    world.never_above("full")
    for source in ADDRESS:
        test.check(world.tried(source, "big") >= 0.5 * PLAN[source][0],
                   f"{source}: {world.tried(source, 'big')} of {PLAN[source][0]} went, in spite of "
                   "20 kills")
    row = world.row("ip2", "big")
    test.equal((row["step"], row["number"], row["state"]), (1, PLAN["ip2"][0], "used"),
               "explain source")
    test.check(row["next_day"] is not None and 0 < row["next_day"] <= DAY,
               f"the next day can begin in {row['next_day']} s")
    test.equal(len(set(world.sink.addresses)), len(world.sink.addresses), "none was sent twice")


def second_day(test, world):
    """Nobody dies: the number is used to the last message."""
    world.next_day()
    world.send(60, "a.big.example")
    world.send(100, "other.example")
    world.postfix.flush()
    test.wait_for(lambda: all(world.row("ip2", one).get("state") == "used" and
                              world.row("ip2", one)["next_day"] for one in ("big", "others")),
                  "what waited goes")
    row = world.row("ip2", "big")
    test.equal((row["verdict"], row["step"], row["number"]), ("grew", 2, PLAN["ip2"][1]),
               "with the next number")
    test.equal((row["sent"], row["left"]), (PLAN["ip2"][1], 0), "all of it is used")
    told = [line for line in world.postern.log_text().splitlines()
            if "event=source-day" in line and "source=ip2" in line and "sent to big" in line]
    test.check(len(told) == 1 and f"number={PLAN['ip2'][1]} before={PLAN['ip2'][0]} text=\"grew: " in
               told[0], f"the log tells it: {told}")
    test.check(f"may send {PLAN['ip2'][1]} messages in its new day" in
               world.postern.command("why", "ip2", json_output=False).stdout, "and why")
    world.never_above("the second day", 1)


def over(test, world):
    """Mail that no source has a message left for goes by the transport that `over` names."""
    world.site.settings = settings(world.providers, "smtp")
    world.postern.configure((), lambda text: world.site.edit(text, [one_class("all", 10000)]))
    world.postern.ask("reload")
    world.site.read_site()
    world.postern.ask("reload")
    world.send(150, "other.example")
    world.postfix.flush()
    test.wait_for(lambda: world.waiting() == 0, "nothing waits any more", 40)
    test.equal(len(world.sink.addresses), len(set(world.sink.addresses)), "none was sent twice")
    elsewhere = sum(count for (source, _), count in world.sink.tried.items()
                    if source not in ADDRESS.values())
    test.check(elsewhere > 0, f"{elsewhere} went by the transport smtp")
    world.never_above("over another transport", 1)


def not_in_master(test, world):
    """A transport whose results the log would not show, and one that is not there."""
    done = world.site.read_site()
    test.equal([row["fault"] for row in done["sources"]], [None, None], "both can be used")
    world.postfix.serve([*world.site.services()[:-3], world.site.services()[-1],
                         "smtp-ip2 unix - - n - - smtp\n"])
    faults = [row["fault"] for row in world.site.read_site()["sources"]]
    test.equal(faults, ["master.cf must have -o syslog_name=postfix-A/smtp-ip2 for smtp-ip2",
                        "master.cf has no service smtp-ip3"], "postfix-lanes tells what is wrong")
    test.check("\nsource " not in world.site.site_file.read_text(), "and neither gets mail")


def bad_day(test, world):
    """A receiver that throttles one source: its day ends early."""
    world.next_day()
    world.sink.most_from[ADDRESS["ip2"]] = 60
    test.equal(world.explained("a.big.example")["warm_up_source"], "ip2",
               "a new day: mail goes by the first source")
    world.send(200, "a.big.example")
    test.wait_for(lambda: world.row("ip2", "big").get("state") == "early", "its day ends early")
    before = world.tried("ip2", "big")
    world.send(20, "a.big.example")
    test.wait_for(lambda: world.tried("ip3", "big") > 0, "mail goes by the next source")
    test.check(before <= PLAN["ip2"][2] // 2, f"after {before} messages of {PLAN['ip2'][2]}")


def body(test):
    test.deaths_expected = True
    world = World(test)
    world.learn()
    one_day(test, world)
    kills(test, world)
    full(test, world)
    second_day(test, world)
    over(test, world)
    bad_day(test, world)
    not_in_master(test, world)


main(body, hosts=HOSTS, addresses=[*HOSTS, *ADDRESS.values()], seconds=150)
