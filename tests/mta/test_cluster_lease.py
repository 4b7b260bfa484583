#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""The lease script in a real Redis: random histories (calls and answers that are lost, late or
repeated, nodes that stop, restart and reboot, clocks that differ, a server that loses its data
or comes back with them) against a model; then that nothing is lost and nobody starves.  And the
script of tests/sim/machine, which has no Redis, must give the same answers."""
import heapq
import json
import subprocess
import time
from pathlib import Path

from lib.cluster import PASSWORD, USER, find_server, rights
from lib.lease_model import Model, Node, words
from lib.postern import build_tree
from lib.resp import Client, Refused
from lib.testing import SOURCE, main

SCRIPT = SOURCE / "src/front/cluster/lease.lua"
KEYS = ("t:1:leases", "t:schema", "t:1:dn")
NODES = 3
LEASE = 3000


class Virtual:
    """tests/machine/lease.c."""

    def __init__(self, program):
        self.process = subprocess.Popen([program], text=True, bufsize=1,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def tell(self, *words):
        print(*words, sep="\t", file=self.process.stdin)

    def ask(self, *arguments):
        self.tell(*arguments)
        return json.loads(self.process.stdout.readline())


class Server:
    def __init__(self, test):
        self.test = test
        self.virtual, self.compared, self.stored = None, 0, None
        self.directory = test.directory / "redis"
        self.directory.mkdir(exist_ok=True)
        self.socket = self.directory / "socket"
        self.process = None
        self.start()

    def start(self):
        self.process = self.test.spawn(
            [find_server(self.test), "--port", "0", "--unixsocket", self.socket, "--save",
             "", "--dir", self.directory, "--daemonize", "no"], "redis")
        self.test.wait_for(self.connects, "redis-server")

    def connects(self):
        try:
            self.client = Client(self.socket)
            self.client.ask("ACL", "SETUSER", *rights(prefix="t:").split()[1:])
            self.user = Client(self.socket, USER, PASSWORD)
            self.sha = self.user.ask("SCRIPT", "LOAD", SCRIPT.read_bytes()).decode()
            return True
        except (OSError, Refused):
            return False

    def stop(self, with_data):
        if with_data:
            self.client.ask("SAVE")
        self.process.kill()
        self.process.wait()
        self.socket.unlink()
        if not with_data:
            (self.directory / "dump.rdb").unlink(missing_ok=True)

    def call(self, *arguments):
        """With the rights that are shipped, and no more."""
        stored = self.virtual and plain(self.client.ask("HGET", KEYS[0], "run"))
        answer = plain(self.user.ask("EVALSHA", self.sha, len(KEYS), *KEYS, *arguments))
        if self.virtual:
            self.compare(stored, arguments, answer)
        return answer

    def compare(self, stored, arguments, answer):
        if stored != self.stored:           # somebody else changed it
            self.virtual.tell(f"stored {stored}" if stored else "emptied")
        run = plain(self.client.ask("INFO", "server")).split("run_id:")[1].split()[0]
        self.virtual.tell(f"run {run}")
        virtual = self.virtual.ask(*arguments)
        self.compared += 1
        if virtual != answer:
            self.test.check(False, f"{arguments}: {answer}, and {virtual} of tests/machine/lease.c")
        self.stored = plain(self.client.ask("HGET", KEYS[0], "run"))


def plain(value):
    if isinstance(value, list):
        return [plain(one) for one in value]
    return value.decode() if isinstance(value, bytes) else value


class History:
    """Virtual time; the server's answers are its own."""

    def __init__(self, test, server, seed_random, pools):
        self.test, self.server, self.random = test, server, seed_random
        self.pools = pools                  # name -> (limit, static)
        self.model = Model()
        self.now, self.heap, self.count, self.nonce = 0, [], 0, 0
        self.run = "first"
        self.calls = self.grants = self.most = 0
        self.nodes = []
        server.client.ask("FLUSHALL")
        for i in range(NODES):
            self.nodes.append(Node(f"mx{i + 1}", f"i{i}", LEASE, NODES,
                                   self.random.randrange(1, 10**9),
                                   1 + self.random.uniform(-0.045, 0.045)))
            self.nodes[i].connection = 0
            self.later(0, self.turn, self.nodes[i])
        # Another machine by the name of the first, as nobody should have it.
        twin = Node("mx1", "twin", LEASE, NODES, 5, 1)
        twin.connection = 0
        self.all = self.nodes + [twin]
        self.later(3 * LEASE, self.turn, twin)
        self.late = {}                      # connection -> when its last word arrives
        self.trouble = True

    def later(self, delay, what, *arguments):
        self.count += 1
        heapq.heappush(self.heap, (self.now + delay, self.count, what, arguments))

    def play(self, until):
        while self.heap and self.heap[0][0] <= until and not self.test.failures:
            self.now, _, what, arguments = heapq.heappop(self.heap)
            what(*arguments)
        self.now = until

    def chance(self, part):
        return self.trouble and self.random.random() < part

    # Nodes

    def turn(self, node):
        if not self.trouble and node not in self.nodes:
            return
        again = self.random.choice((50, 250, 250, 1000)) if self.trouble else 250
        if self.chance(0.02):
            again = self.fault(node)
        elif node.out is None:
            self.send(node)
        elif node.clock(self.now) - node.out["sent"] > 1500:
            node.connection += 1            # given up: another connection
            node.out, node.token = None, 0
        self.later(again, self.turn, node)

    def fault(self, node):
        kind = self.random.randrange(4)
        if kind == 0:                       # another boot, at any time of its clock
            node.connection += 1
            node.boot(f"i{self.random.randrange(10**6)}", self.random.randrange(1, 10**9)
                      - self.now * node.rate)
            node.offset = max(node.offset, 1 - self.now * node.rate)
        elif kind == 1:
            node.connection += 1
            node.restart()
        return self.random.choice((10, 500, LEASE, 3 * LEASE))

    def need(self):
        return self.random.choice((0, 0, 1, 2, 5, 30)) if self.trouble else 30

    def send(self, node):
        pools = []
        if node.token:
            for name, (limit, static) in self.pools.items():
                if not self.chance(0.3):
                    had = node.may_use(name, self.now)
                    keep = self.random.randint(0, had) if self.trouble else \
                        min(had, node.fair.get(name, had))
                    hold = node.lower(name, keep, self.now)
                    need = max(hold, self.need())
                    pools.append((name, limit, static, hold, need, need + self.random.choice((0, 0, 3))))
        self.nonce += 1
        call = dict(node.call("share" if node.token else "hello", self.now, f"n{self.nonce}", pools))
        if self.chance(0.05):
            return                          # lost
        self.carry(node, call)
        if self.chance(0.05):
            self.later(self.random.choice((1, 100, 2 * LEASE)), self.arrive, node, call, -1)

    def delay(self):
        return self.random.choice((0, 1, 20, 300, LEASE, 2 * LEASE)) if self.chance(0.2) else 1

    def carry(self, node, call):
        """What goes over one connection stays in order."""
        key = (node.name, node.instance, node.connection)
        at = max(self.now + self.delay(), self.late.get(key, 0))
        self.late[key] = at
        self.later(at - self.now, self.arrive, node, call, node.connection)

    def arrive(self, node, call, connection):
        answer = self.server.call(*words(call))
        self.calls += 1
        self.judge(call, answer)
        if not self.chance(0.05) and connection >= 0:
            self.later(self.delay(), self.hear, node, call, answer, connection)

    def judge(self, call, answer):
        wanted = self.model.process(self.run, call)
        checks, wanted = wanted[5:], wanted[:5]
        got = [answer[9 + 7 * i:16 + 7 * i] for i in range(len(checks))]
        if answer[:len(wanted)] != wanted or \
                not all(check(part) for check, part in zip(checks, got)):
            self.test.check(False, f"at {self.now}: {call}: got {answer}, wanted {wanted} "
                            f"{[getattr(check, 'allowed', 0) for check in checks]}")

    def hear(self, node, call, answer, connection):
        if node.out is None or node.connection != connection or node.out["sent"] != call["sent"]:
            return                          # of a connection that was given up
        node.answered(call, answer, self.now)
        for pool, (limit, static) in self.pools.items():
            used = [node.may_use(pool, self.now) for node in self.all]
            self.most = max(self.most, sum(used))
            self.grants += sum(used) > 0
            if sum(used) > limit - NODES * static:
                self.test.check(False, f"at {self.now}: {used} of {pool} in use")

    # The server

    def server_fault(self, kind):
        if kind == "emptied":
            self.server.client.ask("FLUSHALL")
            self.server.client.ask("SCRIPT", "LOAD", SCRIPT.read_bytes())
            self.model = Model()
        elif kind == "other data":          # as a restart with them does: another run_id
            if self.server.client.ask("EXISTS", KEYS[0]):
                self.server.client.ask("HSET", KEYS[0], "run", "other")
            self.model.run = None
        else:
            self.server.stop(kind == "restart with data")
            self.server.start()
            self.model = Model()
        for node in self.all:               # their connections with it
            if kind not in ("emptied", "other data"):
                node.connection += 1
                node.out, node.token = None, 0


def random_history(test, server, number):
    random = test.random
    pools = {"b:x": (30, 1), "e:x": (7, 1), "d:y.example": (2, 0), "c:y.example": (1, 0)}
    history = History(test, server, random, pools)
    for _ in range(6):
        history.play(history.now + random.randrange(1000, 8 * LEASE))
        kinds = ["emptied", "other data", None, None, None, None]
        if number == 0:
            kinds = ["restart with data", "restart"]
        kind = random.choice(kinds)
        if kind:
            history.server_fault(kind)
    calm(test, history)
    return history


def calm(test, history):
    """No more faults: all of each pool is leased again, and fairly."""
    history.trouble = False
    history.play(history.now + 10 * LEASE)
    for node in history.nodes:
        node.connection += 1
        node.out, node.token = None, 0
    history.play(history.now + 4 * LEASE)
    had = {node.name: set() for node in history.nodes}
    end = history.now + 40000
    while history.now < end and not test.failures:
        history.play(history.now + 250)
        for pool, (limit, static) in history.pools.items():
            parts = [node.may_use(pool, history.now) for node in history.nodes]
            places = limit - NODES * static
            # (Where there are fewer places than nodes, one is given back before it is taken.)
            if sum(parts) < places - (places % NODES) or \
                    min(parts) < places // NODES or max(parts) > places // NODES + 1:
                test.check(False, f"calm, at {history.now}: {pool}: {parts} of {places}")
        for node in history.nodes:
            for pool in ("d:y.example", "c:y.example"):
                if node.may_use(pool, history.now):
                    had[node.name].add(pool)
    for name, pools in had.items():
        if len(pools) < 2 and not test.failures:
            test.check(False, f"{name} never had one of {set(history.pools) - pools}")


def histories(test, server):
    start, calls, grants, most = time.monotonic(), 0, 0, 0
    rounds = test.rounds or 4
    for number in range(rounds):
        if test.failures:
            return
        history = random_history(test, server, number)
        calls, grants = calls + history.calls, grants + history.grants
        most = max(most, history.most)
    test.check(grants > calls / 4, f"{rounds} histories, {calls} calls as the model has them, at most "
               f"{most} of 27 in use, none too many ({time.monotonic() - start:.1f} s)")


class Caller:
    """A node that says what the test wants it to say."""

    def __init__(self, server, name, instance=None, at=1000, **settings):
        self.server, self.at = server, at
        self.call = dict(node=name, instance=instance or f"of{name}", token=0, sequence=0, epoch="-",
                         event=0, heard=0, lease=15000, nodes=3, nonce="n" + name)
        self.call.update(settings)

    def ask(self, op, *pools, **changes):
        """`pools`: as POOL, but for the name of most, which is x."""
        self.call["sequence"] += 1
        call = {**self.call, "op": op, "sent": self.at, **changes, "pools": []}
        head = words(call)[0]
        if "other" in changes:
            head = head[:-1] + changes["other"]
        answer = self.server.call(head, *(pool if ":" in pool else pool + " b:x" for pool in pools))
        if answer[1] != "-":
            self.call.update(epoch=answer[1], event=answer[2], heard=self.at)
        if op == "hello" and answer[0] == "ok":
            self.call.update(token=answer[3], sequence=0)
        return answer

    def hello(self, **changes):
        return self.ask("hello", **changes)

    def share(self, *pools, **changes):
        """What was settled of the pools, or the status."""
        answer = self.ask("share", *pools, **changes)
        return [answer[9 + 7 * i:16 + 7 * i] for i in range(len(pools))] if answer[0] == "ok" else \
            answer[0]


def joined(server, *names, **settings):
    """Callers in an epoch whose wait is over."""
    server.client.ask("FLUSHALL")
    callers = [Caller(server, name, **settings) for name in names]
    for caller in callers:
        caller.hello()
        caller.share()
        caller.at += 16550
        caller.share()
    for caller in callers:      # the last one has seen the first ones silent for so long
        caller.share()
    return callers


def places_by_hand(test, server):
    one, two = joined(server, "mx1", "mx2")
    test.equal(one.share("30 0 1 0 27 27 0"), [[27, 27, 0, 30, 27, 0, 0]], "all of it for who asks first")
    test.equal(two.share("30 0 1 0 10 10 0"), [[0, 17, 0, 30, 27, 0, 0]], "nothing is taken from it")
    test.equal(one.share("30 0 1 20 27 27 0"), [[20, 17, 10, 30, 27, 7, 0]],
               "it keeps what it holds, above what is fair")
    test.equal(two.share("30 0 1 0 10 10 0"), [[7, 17, 7, 30, 27, 0, 0]], "what it gave back is had")
    test.equal(one.share("30 0 1 17 27 27 0"), [[17, 17, 3, 30, 27, 3, 0]], "and no more than that")
    test.equal(two.share("30 0 1 7 10 25 0"), [[10, 17, 10, 30, 27, 0, 0]],
               "what is only good to have is not had while another lacks places")
    other = Client(server.socket)
    other.ask("SUBSCRIBE", KEYS[2])
    two.share("30 0 1 10 10 25 0", other="tell")
    two.share("30 0 1 10 17 17 0")
    two.share("30 0 1 10 17 17 0", other="tell")
    server.client.ask("PUBLISH", KEYS[2], "the end")
    test.equal([plain(other.reply())[2], plain(other.reply())[2]], ["short", "the end"],
               "the others hear of a call that lacks what they have, if it is to tell")
    other.close()
    one.share("30 0 1 3 3 3 0")
    test.equal(two.share("30 0 1 10 10 25 0"), [[24, 27, 0, 30, 27, 0, 0]], "of free places it is")
    one.share("9 0 0 0 9 9 0 d:lost")
    one.hello()
    test.equal(two.share("9 0 0 0 9 9 0 d:lost")[0][0], 0, "what a node had stays its own when it is back")
    test.equal(one.share("30 0 1 0 3 3 0", other="fresh")[0][0], 3, "but if its state was made anew")
    test.equal(two.share("9 0 0 0 9 9 0 d:lost")[0][0], 9, "what it does not know of any more is free")
    # 24 are leased to mx2, that is silent; mx1 has heard of nothing later than its share.
    one.share("30 0 1 3 27 27 0")
    one.at += 14499
    test.equal(one.share("30 0 1 3 27 27 0")[0][0], 3, "14.499 s are not 14.5")
    one.at += 1
    test.equal(one.share("30 0 1 3 27 27 0")[0][0], 27, "14.5 s after the last word all is free")
    late = two.call["sequence"]
    test.equal(two.share("30 0 1 24 24 24 0")[0][0], 0, "a late call holds nothing any more")
    test.equal(two.ask("share", sequence=late)[0], "old", "nor does a repeated one")


def who_may_call(test, server):
    one, two = joined(server, "mx1", "mx2")
    old = dict(one.call)
    one.hello()
    test.equal(one.ask("share", "30 0 1 0 5 5 0", token=old["token"])[0], "again",
               "a call of the connection before does nothing")
    one.share("30 0 1 0 5 5 0")
    server.client.ask("FLUSHALL")
    test.equal(one.ask("share")[:2], ["again", "-"], "without an epoch hello is due")
    stale = dict(one.call)
    new, other = Caller(server, "mx1", nonce="another"), Caller(server, "mx2")
    new.call["instance"] = one.call["instance"]
    new.hello()
    new.hello()
    other.hello()
    test.equal(one.ask("share", "30 0 1 0 5 5 0", token=new.call["token"], sequence=9,
                       epoch=stale["epoch"])[0], "again",
               "a call of another epoch does nothing, whatever its token")
    one, two = joined(server, "mx1", "mx2")
    twin = Caller(server, "mx1", instance="twin", at=77)
    test.equal(twin.hello()[0], "taken", "a name is one instance's")
    twin.at += 14000
    test.equal(twin.hello()[3:], [500, "ofmx1"], "until its lease has ended: 0.5 s more")
    one.share()
    twin.at += 14000
    test.equal(twin.hello()[3], 14500, "which is renewed")
    twin.at += 14500
    test.equal(twin.hello()[0], "ok", "14.5 s of silence later the name is the other's")
    test.equal(one.share(), "again", "and no longer the first one's")
    test.equal(one.hello()[0], "ok", "which waits in its turn (nothing was leased yet)")
    three, four = Caller(server, "mx3"), Caller(server, "mx4")
    three.hello()
    test.equal(four.hello()[0], "full", "a fourth name of three nodes is refused")
    two.share()
    test.equal(three.ask("forget", other="mx2")[0], "alive", "a living node is not forgotten")
    three.at += 14500
    test.equal(three.ask("forget", other="mx2")[0], "ok", "one that was silent for its lease is")
    test.equal(four.hello()[0], "ok", "and there is room for another name")
    test.equal(three.ask("forget", other="mx9")[0], "bad", "nobody else is")
    slow = Caller(server, "mx3", instance="ofmx3", lease=30000)
    three.share()
    one.share()
    test.equal(slow.hello()[3:], [15000, "mx1"], "another lease is refused, and why is told")
    odd, = joined(server, "odd", lease=30000)
    one, two = Caller(server, "mx1"), Caller(server, "mx2", at=50)
    for caller in (one, two):
        test.equal(caller.hello()[0], "lease", "who has the first one's lease is not")
        caller.at += 20000
        caller.hello()
    odd.share()
    one.hello()
    one.at += 29499
    test.equal(one.hello()[0], "lease", "as long as it lives,")
    one.at += 1
    test.equal([one.hello()[0], two.hello()[0]], ["ok", "ok"],
               "and not for ever: when it has gone, those whom it refused see it")


def settings_that_differ(test, server):
    one, two = joined(server, "mx1", "mx2")
    one.share("30 0 1 0 5 5 0")
    test.equal(two.share("20 0 2 0 27 27 0"), [[9, 9, 0, 20, 14, 0, 1]],
               "the lowest limit and the greatest static part count: 20 - 3 * 2")
    one.share("30 7 0 5 5 5 0 d:x")
    test.equal(two.share("20 6 0 0 27 27 0 d:x")[0][3], 30, "of the greatest version: 30 by 7, not 20 by 6")
    two.share("20 0 2 0 0 0 0")
    test.equal(one.share("30 0 1 5 27 27 0"), [[14, 14, 0, 20, 14, 0, 1]],
               "and that of who has nothing there, too")
    two.share("30 0 1 0 0 0 0")
    test.equal(one.share("30 0 1 14 27 27 0"), [[27, 27, 0, 30, 27, 0, 0]],
               "until it says the same, ")
    two.share("20 0 2 0 0 0 0")
    two.share("1000000000 0 0 0 0 0 0")
    test.equal(one.share("30 0 1 27 27 27 0")[0][3], 30, "or that the class has left its scope")
    one.share("30 0 1 0 0 0 0")
    two.share("20 0 2 0 0 0 0")
    one.share("30 0 1 0 0 0 0")
    two.share("20 0 2 0 0 0 0")
    test.equal(one.share("30 0 1 0 27 27 0"), [[14, 14, 0, 20, 14, 0, 1]],
               "nor does it matter who is idle, for how long, and who has calls first")
    test.equal(one.ask("look", "30 0 1 0 0 0 0")[9:],
               [[["mx1", 1, one.call["event"], 3], ["mx2", 1, two.call["event"], 3]],
                [[0, 0, 14, 27, 0, 30, 1], [0, 1, 0, 0, 0, 20, 2]]], "who has another one is told")
    test.equal(two.ask("look", "20 0 2 0 0 0 0")[10], [[0, 0, 14, 27, 0, 30, 1]],
               "but not who has nothing and the same")
    two.share("30 0 1 0 0 0 0")
    one.share("30 0 1 0 5 5 0 d:x")
    two.share("20 0 2 0 0 0 0 d:x")
    test.equal(one.share("30 0 1 5 5 5 0 d:x")[0][3], 30, "of a destination it is not kept")
    two.call["nodes"] = 10
    two.share("30 0 1 0 5 5 0")
    test.equal(one.share("30 0 1 0 27 27 0")[0][4], 20, "the most nodes count: 30 - 10 * 1")
    one, two, three = joined(server, "mx1", "mx2", "mx3")
    one.share()
    one.at += 14500
    one.call["nodes"] = 1
    test.equal(one.share("30 0 1 0 30 30 0")[0][4], 27,
               "who is not heard of has its static part all the same: 30 - 3 * 1")


def strange_keys(test, server):
    one, = joined(server, "mx1")
    ask = server.client.ask
    ttl = [ask("PTTL", key) for key in KEYS[:2]]
    test.check(all(0 < ms <= 31 * 86400000 for ms in ttl), f"each key has a time to live: {ttl}")
    ask("SET", KEYS[1], "2")
    test.equal(one.ask("share"), ["newer", "-", 0, 2], "a newer schema is left alone")
    for value in (("SET", KEYS[1], "x"), ("SET", KEYS[1], "0")):
        ask(*value)
        test.equal(one.ask("share"), ["foreign", "-", 0, "schema"], f"{value[2]} is no schema")
    ask("DEL", KEYS[1])
    ask("LPUSH", KEYS[1], "x")
    test.equal(one.ask("hello"), ["foreign", "-", 0, "schema"], "nor is a list")
    ask("DEL", *KEYS)
    ask("HSET", KEYS[0], "somebody", "else's")
    test.equal(one.hello(), ["foreign", "-", 0, "leases"], "a hash of somebody else's is left alone")
    ask("DEL", KEYS[0])
    ask("SADD", KEYS[0], "x")
    test.equal(one.hello(), ["foreign", "-", 0, "leases"], "and a set")
    one, = joined(server, "mx1")
    ask("HSET", KEYS[0], "n:1", "mx1 what is this")
    test.equal(one.share(), "foreign", "a node that is none is told")
    one, = joined(server, "mx1")
    ask("HSET", KEYS[0], "p:b:x", "1,2;;x,3,4,5,6,7,8,9,10,11;9,9,9,9,9,9,9,9,9,9")
    test.equal(one.share("30 0 1 0 5 5 0"), [[5, 27, 0, 30, 27, 22, 0]], "entries that are none do not count")
    life = ask("HGET", KEYS[0], "n:1").split()[4]
    ask("EVAL", "redis.call('HSET', KEYS[1], 'p:b:x', cmsgpack.pack({ 1, tonumber(ARGV[1]), 'a', {}, "
        "true, 1.5, -1, 0, 0, 0 }))", 1, KEYS[0], life)
    test.equal(one.share("30 0 1 0 5 5 0"), [[5, 27, 0, 30, 27, 22, 0]], "nor do such as are not of numbers")
    for bad in (["nonsense"], ["share 1 a b 1 1 - 0 0 0 15000 3 n"], ["share 1 a b 1 1 - 0 0 x 15000 3 n -"],
                ["hello 1 a b 1 1 - 0 0 -1 15000 3 n -"], ["hello 1 a b 1 1 - 0 0 1 15000 65 n -"], [""], []):
        test.equal(server.call(*bad)[0], "bad", f"a call that is none: {bad}")
    other = SCRIPT.read_bytes().replace(b"'run_id:", b"'no_id:")
    test.equal(plain(ask("EVAL", other, len(KEYS), *KEYS, "hello 1 mx1 a 0 1 - 0 0 5 15000 3 n -")),
               ["bad", "-", 0, "INFO tells no run_id"],
               "a server whose restart would not be noticed is not used")
    test.equal(one.share("30 0 1 0 5 5"), "bad", "a pool that is none")


def bounds(test, server):
    """More pools than there may be: those of nodes that are gone make room."""
    one, two = joined(server, "mx1", "mx2")
    two.share("30 0 1 0 5 5 0 b:kept")
    server.client.ask("EVAL", "for i = 1, 20000 do redis.call('HSET', KEYS[1], 'p:d:' .. i, "
                      "'2,1,1,1,1,0,0,0,0,0') end", 1, KEYS[0])
    test.equal(one.share("5 0 0 0 5 5 0 d:new")[0][0], 0, "the 20,001st pool is not granted")
    left = server.client.ask("HLEN", KEYS[0])
    test.check(19000 < left < 19900 and server.client.ask("HGET", KEYS[0], "p:b:kept"),
               f"some of what is nobody's is taken away with each call: {left} are left")
    test.equal(one.share("5 0 0 0 5 5 0 d:new")[0][0], 5, "and there is room again")
    one.share("5 0 0 0 0 0 0 d:new")
    test.equal(server.client.ask("HGET", KEYS[0], "p:d:new"), None, "a pool that nobody uses is not kept")
    nodes = joined(server, *(f"mx{i}" for i in range(64)), nodes=64)
    names = [f"b:class {i}" for i in range(25)]
    start = time.monotonic()
    for node in nodes:
        node.share(*(f"6400 0 10 0 90 90 0 {name}" for name in names))
    spent = time.monotonic() - start
    test.check(spent < 10, f"64 nodes of 25 classes: {spent / 64 * 1000:.1f} ms a call")
    look = nodes[5].ask("look", *(f"6400 0 10 0 0 0 0 {name}" for name in names))
    test.check(len(look[9]) == 64 and len(look[10]) == 1500, "64 nodes are shown, and 1,500 shares")


def body(test):
    server = Server(test)
    for part in (strange_keys, bounds):
        part(test, server)
    program = Path(build_tree()) / "tests/sim/lease_answers"
    if program.exists():                    # make test-programs
        server.client.ask("FLUSHALL")
        server.virtual = Virtual(program)
    for part in (places_by_hand, who_may_call, settings_that_differ, histories):
        part(test, server)
    test.check(not server.virtual or server.compared > 1000,
               f"{server.compared} answers as the machine in virtual time has them")


if __name__ == "__main__":
    main(body)
