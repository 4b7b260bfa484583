# SPDX-License-Identifier: ISC
"""A storm of clients that the kernel does not show: behind a real HAProxy (both versions
of its protocol) and by XCLIENT, on services that ask by policy, by milter and by both,
while Postfix and Postern are killed, stopped, restarted and reloaded.

The judgement is on counters.  A session is surely inside from its greeting until its
client begins to close, or shortly before it saw that the server had; it may still be
counted for RIGHT seconds after that.  Each look at a class lies between the two, but that
whoever came while a role was down may be in or not."""
import json
import threading
import time

from lib.postern import one_class
from lib.postfix import conf_service
from lib.smtp import Session, xclient
from lib.stalls import Stalls
from lib.storm import PostfixServer, Strikes, linger, storm_classes
from lib.storm_record import ADDRESSES, CLASSES, SERVER_TIMEOUT, class_of, stood_still
from lib.testing import Failed

RIGHT = 2.0
# Seconds until a client has noticed that the server ended: it asks now and then.
NOTICED = SERVER_TIMEOUT / 4 + 0.3
WORKERS = 30
ASKS = ("policy", "milter", "both")
POLICY = ("smtpd_client_restrictions", "smtpd_recipient_restrictions")
MILTER = ("smtpd_milters", "milter_connect_macros")
LEFT_OUT = {"policy": MILTER, "milter": POLICY, "both": ()}
BEHIND = dict(zip(ASKS, (2041, 2042, 2043)))        # services that HAProxy speaks to
BY_XCLIENT = dict(zip(ASKS, (2044, 2045, 2046)))
OUTSIDE = 2525
SERVING = ("policy.0", "policy.1", "milter.0")
XCLIENT = "smtpd_authorized_xclient_hosts=127.0.0.0/8"
TIMEOUT = f"smtpd_timeout={SERVER_TIMEOUT}s"


def fronts():
    """HAProxy's ports: (port, version of the protocol, how the service asks)."""
    return [(3041 + number * 3 + at, version, asks)
            for number, version in enumerate(("v1", "v2")) for at, asks in enumerate(ASKS)]


def haproxy_text():
    """With the second version it says that it is on another machine: no connection of its
    client's is in the kernel's table then."""
    text = ["defaults", "  mode tcp", "  timeout connect 10s", "  timeout client 60s",
            "  timeout server 60s"]
    for port, version, asks in fronts():
        text += [f"listen f{port}", f"  bind 127.0.0.1:{port}"]
        if version == "v2":
            text += ["  tcp-request connection set-dst ipv4(192.0.2.1)",
                     f"  tcp-request connection set-dst-port int({OUTSIDE})"]
        text.append(f"  server a 127.0.0.1:{BEHIND[asks]} send-proxy"
                    f"{'-v2' if version == 'v2' else ''}")
    return "\n".join(text) + "\n"


def services():
    for asks in ASKS:
        yield conf_service("postfix-haproxy.master.cf", BEHIND[asks], extra=[TIMEOUT],
                           leave_out=LEFT_OUT[asks])
        # asked by policy alone, an idle process is to leave soon here too
        idle = ["max_idle=1s"] if asks == "policy" else []
        yield conf_service(f"postfix-{asks}.master.cf", BY_XCLIENT[asks],
                           extra=[TIMEOUT, XCLIENT, *idle])


def ports():
    return [port for port, _, _ in fronts()] + list(BEHIND.values()) \
        + list(BY_XCLIENT.values()) + [OUTSIDE]


def classes(extra=()):
    """Those of the storm for each port, and the proxy's own."""
    texts = storm_classes(0, extra)
    listed = f"ports = [ {', '.join(map(str, ports()))} ];"
    return [text.replace("ports = [ 0 ];", listed) for text in texts] \
        + [one_class("carriers", 1000, ports(), '"127.0.0.1"')]


class Visit:
    """Of one client; times are monotonic."""

    def __init__(self, way, address):
        self.way, self.address = way, address
        self.asked = time.monotonic()
        self.answered = None
        self.code = 0
        self.surely = float("inf")      # it is inside until then
        self.gone = float("inf")        # and out from then on

    def leaves(self):
        self.surely = time.monotonic()

    def left(self, by_server):
        self.gone = time.monotonic()
        if by_server:
            self.surely = min(self.surely, self.gone - NOTICED)


class Clients:
    """They come until it is quiet, and stay until they are sent away."""

    def __init__(self, test):
        self.test = test
        self.visits, self.port = [], 20000
        self.lock = threading.Lock()
        self.over, self.outage, self.leave = (threading.Event() for _ in range(3))
        self.ways = [("haproxy", port) for port, _, _ in fronts()] \
            + [("xclient", port) for port in BY_XCLIENT.values()] * 2
        self.threads = []

    def come(self):
        self.over.clear()
        self.leave.clear()
        self.threads = [threading.Thread(target=self.run, args=(number,), daemon=True)
                        for number in range(WORKERS)]
        for thread in self.threads:
            thread.start()

    def quiet(self):
        self.over.set()

    def send_away(self):
        self.leave.set()
        for thread in self.threads:
            thread.join(60)

    def let_in(self):
        with self.lock:
            return sum(1 for visit in self.visits if visit.code == 220)

    def run(self, number):
        chance = type(self.test.random)(f"{self.test.seed} {number} {len(self.visits)}")
        while not self.over.is_set():
            self.visit(chance)
            self.over.wait(chance.uniform(0, 0.3))

    def begin(self, chance):
        """A session that has its last greeting, and its visit."""
        (way, port), address = chance.choice(self.ways), chance.choice(ADDRESSES)
        visit = Visit(way, address)
        with self.lock:
            self.visits.append(visit)
            self.port = self.port + 1 if self.port < 60000 else 20001
            number = self.port
        session = Session(("127.0.0.1", port), address if way == "haproxy" else None)
        code = session.code
        if way == "xclient" and code == 220:
            code = xclient(session, address, number)[0]
        visit.answered, visit.code = time.monotonic(), code
        return session, visit

    def visit(self, chance):
        session, visit = self.begin(chance)
        if visit.code != 220:
            visit.left(True)
            session.close()
            return
        for _ in range(chance.choice((0, 0, 1))):
            session.send()
        how = chance.choice(("quit", "quit", "drop", "reset", "silence"))
        if how == "silence":
            session.socket.settimeout(SERVER_TIMEOUT + 20)
            session.ended()
            visit.left(True)
            session.close()
            return
        stays = (4.0,) if self.outage.is_set() else (0.01, 0.2, 0.6, 1.2, 3.0, 3.0)
        linger(session, self.over, chance.choice(stays) * chance.uniform(0.5, 1.5))
        if self.over.is_set() and chance.random() < 0.7:
            linger(session, self.leave, 60)
        visit.leaves()
        by_server = session.command("NOOP")[0] != 250
        {"quit": session.quit, "reset": session.reset}.get(how, session.drop)()
        visit.left(by_server)


class Watcher:
    """Looks at the counters again and again."""

    def __init__(self, postern):
        self.postern, self.looks = postern, []
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while not self.over.wait(0.3):
            self.look()

    def look(self):
        begin = time.monotonic()
        done = self.postern.command("classes")
        if done.returncode != 0:
            return None
        rows = {row["name"]: row["open"] for row in json.loads(done.stdout)}
        self.looks.append((begin, time.monotonic(), rows))
        return self.looks[-1]

    def stop(self):
        self.over.set()
        self.thread.join(30)


class ProxiedStrikes(Strikes):
    def reload(self):
        self.reloads += 1
        extra = [one_class("extra", 5, [OUTSIDE], '"10.0.0.0/8"')] if self.reloads % 2 else []
        self.postern.configure(classes(extra))
        self.postern.ask("reload")


class Verdict:
    def __init__(self, test, clients, downs):
        self.test, self.downs = test, downs
        self.visits = [visit for visit in clients.visits
                       if visit.answered is not None and visit.code == 220]
        self.wrong = 0

    def failed_open(self, visit):
        return any(down.serves and down.touches(visit.asked, visit.answered)
                   for down in self.downs)

    def bounds(self, name, begin, end):
        """What a class may hold in a look from begin to end."""
        mine = [visit for visit in self.visits if class_of(visit.address) == name]
        least = sum(1 for visit in mine if visit.answered < begin and visit.surely > end
                    and not self.failed_open(visit))
        most = sum(1 for visit in mine if visit.asked < end and visit.gone + RIGHT > begin)
        return least, most

    def near(self, name, begin, end):
        return "; ".join(
            f"{v.way}{' failed open' if self.failed_open(v) else ''} {v.address} asked "
            f"{v.asked:.3f} answered {v.answered:.3f} surely {v.surely:.3f} gone {v.gone:.3f}"
            for v in self.visits if class_of(v.address) == name and v.asked < end
            and v.gone + RIGHT > begin)

    def looks(self, looks):
        """The counters, all the time.  Of an end nobody can know while no one looks."""
        judged = 0
        for begin, end, rows in looks:
            blind = any(down.touches(begin - RIGHT, end) for down in self.downs)
            for name in CLASSES:
                least, most = self.bounds(name, begin, end)
                count = rows.get(name)
                if count is None and blind:     # its record is just being made
                    continue
                judged += 1
                if count is None or count < least or (count > most and not blind):
                    self.wrong += 1
                    if self.wrong <= 12:
                        self.test.say(f"{name} at {begin:.3f}: {count} counted, "
                                      f"{least} to {most} inside: "
                                      f"{self.near(name, begin, end)}")
        self.test.check(self.wrong == 0, f"{judged} looks at a class: its counter was right")

    def limits(self):
        """Nobody who was answered by Postern was one too many."""
        peaks, wrong = {}, 0
        for name, (_, limit, _) in CLASSES.items():
            steps = []
            for visit in self.visits:
                if class_of(visit.address) == name and not self.failed_open(visit) \
                        and visit.surely > visit.answered:
                    steps += [(visit.answered, 1), (visit.surely, -1)]
            inside = peak = 0
            for _, change in sorted(steps):
                inside += change
                peak = max(peak, inside)
            peaks[name] = f"{peak} of {limit}"
            wrong += peak > limit
        self.test.check(wrong == 0, f"no class ever held more than its limit: {peaks}")


def is_right(verdict, watcher, carriers):
    look = watcher.look()
    if look is None:
        return False
    begin, end, rows = look
    return rows["carriers"] <= carriers and all(
        least <= rows[name] <= most for name in CLASSES
        for least, most in [verdict.bounds(name, begin, end)])


def one_round(test, clients, strikes, watcher, kinds):
    """Strikes, then quiet, then all leave."""
    clients.come()
    for kind in kinds:
        strikes.strike(*kind)
        time.sleep(test.random.uniform(0.1, 0.7))
    clients.quiet()
    verdict = Verdict(test, clients, strikes.downs)
    inside = [v for v in verdict.visits if v.surely == float("inf")]
    carriers = sum(1 for v in inside if v.way == "xclient" and verdict.failed_open(v))
    if test.within(RIGHT, lambda: is_right(Verdict(test, clients, strikes.downs), watcher,
                                           carriers),
                   f"quiet, {len(inside)} inside: each counter is right") is None:
        test.say(f"{watcher.looks[-1]}, carriers at most {carriers}")
    clients.send_away()
    if test.within(RIGHT, lambda: not any(strikes.postern.open(name)
                                          for name in (*CLASSES, "carriers")),
                   "all have gone: each class holds 0") is None:
        for row in strikes.postern.sessions():
            test.say(f"left over: {row}")


def storm_proxied(test, postfix, postern):
    """Short: each kind of strike once; long: until --rounds sessions were let in."""
    test.deaths_expected = True
    clients, stalls, watcher = Clients(test), Stalls(test), Watcher(postern)
    strikes = ProxiedStrikes(test, postern, SERVING, OUTSIDE, PostfixServer(test, postfix),
                             clients)
    while clients.let_in() < test.rounds or not strikes.done:
        kinds = strikes.all_kinds()
        test.random.shuffle(kinds)
        one_round(test, clients, strikes, watcher, kinds)
    watcher.stop()
    test.say(f"{len(clients.visits)} clients, {clients.let_in()} let in; "
             f"strikes: {strikes.done}")
    if not any(visit.code == 421 for visit in clients.visits):
        raise Failed("nobody was refused: this was no storm")
    downs = strikes.downs + [stood_still(begin, end) for begin, end in stalls.found]
    verdict = Verdict(test, clients, downs)
    for down in downs:
        test.say(f"down {down.what} from {down.begin:.3f} to {down.end:.3f}")
    verdict.limits()
    verdict.looks(watcher.looks)
