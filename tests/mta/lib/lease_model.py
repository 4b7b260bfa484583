# SPDX-License-Identifier: ISC
"""What lease.lua must answer, worked out in another way: nothing is kept but the list of what
happened, and each answer is found by looking through it.  And nodes with clocks of their own
that use what they are granted as policy/window/share.h says."""

SEEN, SLICE = 500, 5000


def drift(lease):
    return lease // 10 + 50


class Model:
    def __init__(self):
        self.run, self.epoch = None, None

    def begin(self, run, nonce):
        self.run, self.epoch, self.event, self.tokens = run, nonce, 0, 0
        self.nodes = {}         # name -> dict
        self.heard = []         # (who heard: (name, instance, joined), event, when, of that clock)
        self.born = False       # the wait is over
        self.longest = 0
        self.pools = {}         # pool -> name -> dict
        self.order = []         # names by slot

    def silent(self, watcher, last, sent):
        """How long the watcher has seen it silent, by its own clock: since it first said that
        it heard of anything that came after (a repeated call may say less, too late)."""
        when = next((time for who, event, time in self.heard if who == watcher and event >= last),
                    sent)
        return max(0, sent - when)

    def watch(self, call, joined=True):
        """What the caller shows of the time: one that has not joined is another observer."""
        me = (call["node"], call["instance"], joined)
        if call["epoch"] == self.epoch and 0 < call["heard"] <= call["sent"]:
            self.heard.append((me, call["event"], call["heard"]))
        for name, node in self.nodes.items():
            if not (joined and name == call["node"]) and node["alive"] and \
                    self.silent(me, node["last"], call["sent"]) >= node["lease"] - SEEN:
                node["alive"] = False
        if self.silent(me, 0, call["sent"]) >= self.longest + drift(self.longest):
            self.born = True

    def process(self, run, call):
        """The start of the answer; for a share call also its pools."""
        op, name = call["op"], call["node"]
        if self.run != run:
            if op != "hello":
                return ["again", "-", 0]
            self.begin(run, call["nonce"])
        node = self.nodes.get(name)
        if op != "hello" and (node is None or node["instance"] != call["instance"]
                              or node["token"] != call["token"] or call["epoch"] != self.epoch):
            return ["again", self.epoch, self.event]
        if op == "share" and call["sequence"] <= node["sequence"]:
            return ["old", self.epoch, self.event]
        if op == "hello":
            return self.hello(call, node)
        self.watch(call)
        self.event += 1
        if not node["alive"]:
            node["alive"], node["life"] = True, self.event
        node.update(sequence=call["sequence"], last=self.event)
        return self.ok(node) + [self.settle(call, node, pool) for pool in call["pools"]]

    def hello(self, call, node):
        mine = node is not None and node["instance"] == call["instance"]
        self.longest = max(self.longest, call["lease"])
        self.watch(call, mine)
        if node and not mine:
            if node["alive"]:
                return ["taken", self.epoch, self.event]
            self.heard = [one for one in self.heard
                          if one[0] != (call["node"], node["instance"], True)]
            node.update(instance=call["instance"])
        if node is None:
            most = max([call["nodes"]] + [n["nodes"] for n in self.nodes.values() if n["alive"]])
            if len(self.nodes) >= most:
                return ["full", self.epoch, self.event]
            node = self.nodes[call["node"]] = dict(
                instance=call["instance"], alive=False, life=0, last=0, lease=call["lease"],
                nodes=call["nodes"])
        self.event += 1
        self.tokens += 1
        self.watch(call)
        node.update(token=self.tokens, sequence=0)
        return self.ok(node)

    def ok(self, node):
        return ["ok", self.epoch, self.event, node["token"], node["life"]]

    def held(self, pool, but=None):
        """What counts of each other node: (granted, need)."""
        return [(r["granted"], r["need"]) for name, r in self.pools.get(pool, {}).items()
                if name != but and self.nodes[name]["alive"]
                and self.nodes[name]["life"] == r["life"]]

    def settle(self, call, node, ask):
        """What may be the answer for a pool: a check, as it is not always one."""
        pool, limit, fixed, hold, need, want = ask
        if not self.born:
            return lambda got: got[0] == 0
        places = max(0, limit - fixed * call["nodes"])
        others = self.held(pool, call["node"])
        had = self.pools.get(pool, {}).get(call["node"])
        had = had["granted"] if had and had["life"] == node["life"] else 0
        hold = min(hold, had)
        need = max(hold, need)
        short = sum(max(0, n - g) for g, n in others)
        free = places - sum(g for g, _ in others)
        # One place after another to whoever has least and needs more.
        parts, rest, needs = [0] * (len(others) + 1), places, [need] + [n for _, n in others]
        while rest:
            hungry = [i for i in range(len(parts)) if parts[i] < needs[i]]
            least = min((parts[i] for i in hungry), default=None)
            row = [i for i in hungry if parts[i] == least]
            if not row or len(row) > rest:
                break
            for i in row:
                parts[i] += 1
            rest -= len(row)
        if parts[0] < need:
            fair = {parts[0], parts[0] + 1} if rest else {parts[0]}
        elif all(part >= n for part, n in zip(parts, needs)):
            fair = {places}
        else:
            # What those have that could use more, an odd one not counted.
            fair = {min(part for part, n in zip(parts, needs) if part < n)}
        wish = max(want, need) if short == 0 else need
        allowed = {(max(hold, min(wish, part, max(hold, free))), part) for part in fair}

        def check(got):
            if tuple(got[:2]) not in allowed or \
                    got[2:6] != [short, limit, places, max(0, free - got[0])]:
                return False
            self.pools.setdefault(pool, {})[call["node"]] = dict(
                granted=got[0], need=need, life=node["life"])
            return True
        check.allowed = (allowed, short, limit, places)
        return check


class Node:
    """One machine: its clock, what it has leased, what it knows of the server."""

    def __init__(self, name, instance, lease, nodes, offset, rate):
        self.name, self.lease, self.nodes = name, lease, nodes
        self.rate = rate
        self.boot(instance, offset)

    def boot(self, instance, offset):
        """Another boot: another clock, another segment."""
        self.instance, self.offset = instance, offset
        self.leased, self.fair, self.until = {}, {}, 0
        self.restart()

    def restart(self):
        """The role alone: what is in the segment stays."""
        self.token, self.sequence, self.epoch, self.event, self.heard = 0, 0, "-", 0, 0
        self.life = 0
        self.out = None

    def clock(self, now):
        return int(self.offset + now * self.rate)

    def may_use(self, pool, now):
        return self.leased.get(pool, 0) if self.clock(now) < self.until else 0

    def call(self, op, now, nonce, pools=()):
        self.sequence += 1
        self.out = dict(op=op, node=self.name, instance=self.instance, token=self.token,
                        sequence=self.sequence, epoch=self.epoch, event=self.event,
                        heard=self.heard, sent=self.clock(now), lease=self.lease,
                        nodes=self.nodes, nonce=nonce, pools=list(pools))
        return self.out

    def lower(self, pool, to, now):
        """Before it is told: what is kept."""
        self.leased[pool] = min(to, self.may_use(pool, now))
        return self.leased[pool]

    def answered(self, call, answer, now):
        self.out = None
        if answer[1] != "-":
            if answer[1] != self.epoch:
                self.life = 0
            self.epoch, self.event, self.heard = answer[1], answer[2], self.clock(now)
        if answer[0] == "again":
            self.token = 0
        if answer[0] != "ok":
            return
        if call["op"] == "hello":
            self.token, self.sequence = answer[3], 0
        elif answer[5] == 0:
            if self.life != answer[4]:
                self.leased, self.life = {}, answer[4]
            for i, ask in enumerate(call["pools"]):
                self.leased[ask[0]], self.fair[ask[0]] = answer[9 + 7 * i:11 + 7 * i]
            self.until = call["sent"] + self.lease - drift(self.lease) - SEEN


def words(call):
    """HEAD and POOLs, as wire/cluster/cluster_call.h has them."""
    head = "{op} 1 {node} {instance} {token} {sequence} {epoch} {event} {heard} {sent} {lease} " \
        "{nodes} {nonce} -".format(**call)
    return [head] + [f"{limit} 0 {fixed} {hold} {need} {want} 0 {pool}"
                     for pool, limit, fixed, hold, need, want in call["pools"]]
