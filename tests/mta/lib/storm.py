# SPDX-License-Identifier: ISC
"""A storm: clients of 50 addresses come, and end in every way there is, while the
mail server and Postern are killed, stopped, restarted and reloaded; then it is quiet.
What the clients write down is judged in lib/storm_record."""
import json
import os
import random
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

from lib.postern import one_class
from lib.postfix import listening
from lib.smtp import Session
from lib.stalls import Stalls
from lib.storm_record import (ADDRESSES, CLASSES, LONG, NET, SERVER_TIMEOUT, Down, Look, Verdict,
                              Visit, class_of, stood_still)
from lib.tcp_ends import TcpEnds, live_by_ss, live_sessions
from lib.testing import alive, end_process, processes

WORKERS = 26
FAIL_OPEN = 8           # sessions, in each outage
TCP_CLOSE_WAIT = 8


def storm_classes(port, extra=()):
    classes = []
    for name, (numbers, limit, client) in CLASSES.items():
        masks = ", ".join(f'"{NET}{number}"' for number in numbers)
        more = f"client = {{ sessions = {client}; }};" if client else ""
        classes.append(one_class(name, limit, [port], masks, more))
    return classes + list(extra)


TICK = 0.01             # seconds: the longest that a kernel is built with


def finished(one):
    """When did the server's FIN come to this socket?  None: it did not.  The kernel
    frees the server's socket up to 40 ms later (the delayed ACK of the FIN), but from
    the FIN on it is nobody's.  The kernel counts in ticks: it came up to one earlier than
    told."""
    info = one.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
    if info[0] != TCP_CLOSE_WAIT:
        return None
    return time.monotonic() - struct.unpack_from("I", info, 56)[0] / 1000 - TICK


def linger(session, called, seconds):
    """Until it is called, or the server ends it; never silent for too long."""
    end = time.monotonic() + seconds
    while not called.wait(max(0, min(SERVER_TIMEOUT / 4, end - time.monotonic()))):
        if time.monotonic() >= end or finished(session.socket) is not None \
                or session.command("NOOP")[0] != 250:
            break


class Clients:
    """They come until it is quiet, and stay until they are sent away."""

    def __init__(self, test, to, seed):
        self.test, self.to = test, to
        self.seed = seed
        self.visits = []
        self.coming = 0                     # wait for their greeting
        self.lock = threading.Lock()
        self.over = threading.Event()
        self.outage = threading.Event()     # who comes now stays
        self.leave = threading.Event()      # those that stay at the end
        self.threads = [threading.Thread(target=self.run, args=(number,), daemon=True)
                        for number in range(WORKERS)]

    def start(self):
        self.begin = time.monotonic()
        for thread in self.threads:
            thread.start()

    def note(self, visit):
        with self.lock:
            self.visits.append(visit)
        return visit

    def comes(self, change):
        with self.lock:
            self.coming += change

    def let_in(self):
        with self.lock:
            return sum(1 for visit in self.visits if visit.code == 220)

    def run(self, number):
        chance = random.Random(f"{self.seed} {number}")
        while not self.over.is_set():
            if chance.random() < 0.04:
                self.killed(chance)
            else:
                self.visit(chance)
            self.over.wait(chance.uniform(0, 0.25))

    def visit(self, chance):
        visit = self.note(Visit(chance.choice(ADDRESSES), asked=time.monotonic()))
        self.comes(+1)
        session = Session(self.to, visit.address)
        self.comes(-1)
        visit.answered, visit.code = time.monotonic(), session.code
        visit.port = getattr(session, "name", ("", 0))[1]
        if session.code != 220:
            session.ended()
            session.close()
            return
        for _ in range(chance.choice((0, 0, 1, 2))):
            if session.send()[0] == 0:
                break
        visit.way = chance.choice(("quit", "quit", "drop", "reset", "silence"))
        if visit.way == "silence":
            session.socket.settimeout(SERVER_TIMEOUT + 20)
            session.ended()
        else:
            stays = (4.0,) if self.outage.is_set() else (0.01, 0.2, 0.6, 1.2, 3.0, 3.0)
            linger(session, self.over, chance.choice(stays)
                   * chance.uniform(0.5, 1.5))
            if self.over.is_set() and chance.random() < 0.7:
                linger(session, self.leave, 60)
        visit.finished, visit.closing = finished(session.socket), time.monotonic()
        {"quit": session.quit, "reset": session.reset}.get(visit.way, session.drop)()

    def killed(self, chance):
        """A process with a few sessions, killed."""
        sources = [chance.choice(ADDRESSES) for _ in range(3)]
        self.comes(+1)
        with subprocess.Popen([sys.executable, "-B", "-m", "lib.storm", self.to[0],
                               str(self.to[1]), *sources], stdout=subprocess.PIPE,
                              text=True, cwd=sys.path[0]) as process:
            self.test.at_end(lambda: end_process(process))
            visits = []
            for line in process.stdout:
                told = json.loads(line)
                if told is None:
                    break
                visits.append(self.note(Visit(way="killed", **told)))
            self.comes(-1)
            self.over.wait(chance.uniform(0, 0.6))
            now = time.monotonic()
            for visit in visits:
                visit.closing = now
            process.kill()
            for line in process.stdout:
                number, when = json.loads(line)
                visits[number].finished = when

    def quiet(self):
        """No more come; those that are in go on as they are.  A server that was away takes
        its time to greet those that wait."""
        self.over.set()
        self.test.wait_for(lambda: self.coming == 0, "nobody waits for a greeting", 100.0)

    def send_away(self):
        self.leave.set()
        for thread in self.threads:
            thread.join(60)


def hold(host, port, sources):
    """The killed process: tells of each session, then waits for its death."""
    sessions = []
    for source in sources:
        asked = time.monotonic()
        session = Session((host, port), source)
        print(json.dumps({"address": source, "port": getattr(session, "name", ("", 0))[1],
                          "asked": asked, "answered": time.monotonic(),
                          "code": session.code}), flush=True)
        sessions.append(session)
    print("null", flush=True)
    waiting = select.poll()
    numbers = {}
    for number, session in enumerate(sessions):
        if session.code == 220:
            numbers[session.socket.fileno()] = number
            waiting.register(session.socket, select.POLLRDHUP)
    while True:
        for descriptor, _ in waiting.poll():
            print(json.dumps((numbers[descriptor], time.monotonic())), flush=True)
            waiting.unregister(descriptor)


class Watcher:
    """Looks at Postern's table again and again."""

    def __init__(self, postern, port):
        self.postern, self.port = postern, port
        self.looks = []
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while not self.over.wait(0.3):
            begin = time.monotonic()
            done = self.postern.command("sessions")
            end = time.monotonic()
            if done.returncode == 0:
                self.looks.append(Look(begin, end, {
                    (row["client"], row["client_port"]) for row in json.loads(done.stdout)
                    if row["class"] is not None}))

    def stop(self):
        self.over.set()
        self.thread.join(30)


class Strikes:
    """What is done to both, and when who was down."""

    def __init__(self, test, postern, serving, port, mta, clients):
        self.test, self.postern, self.serving = test, postern, serving
        self.clients = clients
        self.port, self.mta = port, mta
        self.downs, self.done = [], {}
        self.reloads = 0

    def one_of_each(self):
        """A role of each kind that the sessions hang on, chosen anew each time."""
        return [self.test.random.choice([role for role in self.serving if role.startswith(kind)])
                for kind in sorted({role.split(".")[0] for role in self.serving})] + ["keeper.0"]

    def all_kinds(self):
        killed, stopped = self.one_of_each(), self.one_of_each()
        if not self.test.rounds:
            # a stopped one takes 3 s to be missed
            stopped = self.test.random.sample(stopped, 2)
        kinds = [(self.kill, role) for role in killed] + [(self.stop, role) for role in stopped]
        kinds += [(self.kill_serving, ""), (self.restart, ""), (self.kill_supervisor, ""),
                  (self.reload, ""), (self.kill_child, ""),
                  (self.mta.reload, ""), (self.mta.restart, "")]
        return kinds

    def strike(self, call, what):
        name = getattr(call, "__name__")
        name = f"{'mta ' if call in (self.mta.reload, self.mta.restart) else ''}{name}"
        self.done[name] = self.done.get(name, 0) + 1
        call(*([what] if what else []))

    def down(self, what, serves=True, sees=True):
        down = Down(what, time.monotonic(), serves, sees)
        self.downs.append(down)
        return down

    def returned(self, old):
        """Has each of these roles a successor that has shown a sign of life?"""
        rows = {row["role"]: row for row in self.postern.status()["roles"]}
        return all(rows[role]["pid"] not in (None, pid)
                   and None not in (rows[role]["heartbeat_age"], rows[role]["uptime"])
                   and rows[role]["heartbeat_age"] < rows[role]["uptime"]
                   for role, pid in old.items())

    def away(self, roles, how, limit):
        old = {role: pid for role, pid in self.postern.roles().items() if role in roles}
        downs = [self.down(f"{role} {how.name}", role in self.serving, role.startswith("keeper"))
                 for role in old]
        for pid in old.values():
            os.kill(pid, how)
        self.test.wait_for(lambda: self.returned(old), f"{', '.join(old)} is back", limit)
        for down in downs:
            down.end = time.monotonic()

    def kill(self, role):
        self.away([role], signal.SIGKILL, 10.0)

    def stop(self, role):
        self.away([role], signal.SIGSTOP, 15.0)

    def kill_serving(self):
        self.away(self.serving, signal.SIGKILL, 10.0)

    def restart(self):
        """Away until some have failed open; then nothing for as long as their adoption
        may take."""
        down = self.down("restart")
        self.postern.stop()
        self.clients.outage.set()
        before = self.clients.let_in()
        self.test.poll(lambda: self.clients.let_in() >= before + FAIL_OPEN, 3.0)
        self.clients.outage.clear()
        self.postern.start()
        down.end = time.monotonic()
        # LINT-SLEEP: a pause between strikes; whether they were adopted is judged at the end
        time.sleep(1.5 * LONG)

    def kill_supervisor(self):
        down = self.down("supervisor SIGKILL")
        self.postern.kill()
        self.postern.start()
        down.end = time.monotonic()

    def reload(self):
        """Another class comes, or goes."""
        self.reloads += 1
        extra = [one_class("extra", 5, [self.port], '"10.0.0.0/8"')] if self.reloads % 2 else []
        self.postern.configure(storm_classes(self.port, extra))
        self.postern.ask("reload")

    def kill_child(self):
        pids = self.mta.children()
        for pid in self.test.random.sample(pids, min(3, len(pids))):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass


class PostfixServer:
    def __init__(self, test, postfix):
        self.test, self.postfix = test, postfix

    def reload(self):
        self.test.run(["postfix", "-c", self.postfix.etc, "reload"])

    def restart(self):
        """Its children are killed at once, or (stop) when they are done or after 5 s."""
        how = self.test.random.choice(("stop", "abort")) if self.test.rounds else "abort"
        master = self.postfix.master()
        self.test.run(["postfix", "-c", self.postfix.etc, how])
        self.test.wait_for(lambda: not alive(master), "Postfix is down")
        self.postfix.launch()

    def children(self):
        """smtpd processes that have had a session before: were one killed in its
        first, master would start none for a minute."""
        good = set()
        for line in self.postfix.log_text().splitlines():
            if "/smtpd[" in line and ": disconnect from" in line:
                good.add(int(line.split("/smtpd[", 1)[1].split("]", 1)[0]))
        return sorted(pid for pid in processes(self.postfix.master()) if pid in good)


class SendmailServer:
    def __init__(self, test, sendmail):
        self.test, self.sendmail = test, sendmail

    def reload(self):
        def restarts():
            return self.test.syslog().count("starting daemon")
        before = restarts()
        self.sendmail.process.send_signal(signal.SIGHUP)
        self.test.wait_for(lambda: restarts() > before and listening(self.sendmail.port),
                           "Sendmail has executed itself anew")

    def restart(self):
        self.sendmail.process.terminate()
        self.sendmail.process.wait(15)
        self.sendmail.start()

    def children(self):
        return sorted(processes(self.sendmail.process.pid))


def kernel_counts(live):
    counts = dict.fromkeys(CLASSES, 0)
    for address, _, _ in live:
        counts[class_of(address)] += 1
    return counts


def counts_agree(test, postern, port, text):
    """Within a second: each class as the kernel's table says."""
    there = []

    def agree():
        before = live_by_ss({port})
        rows = postern.classes()
        there[:] = before
        return before == live_sessions({port}) and {
            name: rows[name]["open"] for name in CLASSES} == kernel_counts(before)
    waited = test.within(LONG, agree, text)
    test.say(f"{len(there)} sessions by ss, by /proc/net/tcp, and by the counters")
    if waited is None:
        live = live_sessions({port})
        test.say(f"kernel {kernel_counts(live)}, "
                 f"Postern { {name: row['open'] for name, row in postern.classes().items()} }")


def storm(test, postern, mta, port, serving):
    """Short: each kind of strike once; long: until --rounds sessions were let in.
    `serving`: the roles that are asked about the port's sessions."""
    test.deaths_expected = True
    ends = TcpEnds(test, [port])
    clients = Clients(test, ("127.0.0.1", port), test.seed)
    watcher, stalls = Watcher(postern, port), Stalls(test)
    strikes = Strikes(test, postern, serving, port, mta, clients)
    clients.start()
    kinds = []
    while kinds or clients.let_in() < test.rounds or not strikes.done:
        if not kinds:
            kinds = strikes.all_kinds()
            test.random.shuffle(kinds)
        strikes.strike(*kinds.pop())
        time.sleep(test.random.uniform(0.1, 0.7))
    clients.quiet()
    counts_agree(test, postern, port, "quiet: each class's counter is the kernel's own count")
    clients.send_away()
    test.wait_for(lambda: not live_sessions({port}), "the server has let go of all")
    test.within(LONG, lambda: all(postern.open(name) == 0 for name in CLASSES),
                "all have gone: each class holds 0")
    watcher.stop()
    test.say(f"strikes: {strikes.done}")
    strikes.downs += [stood_still(begin, end) for begin, end in stalls.found]
    verdict = Verdict(test, clients, strikes, ends, watcher.looks, port)
    verdict.figures()
    verdict.limits()
    verdict.adopted()
    verdict.counted()
    verdict.refusals()
    verdict.write(test.logs / "record")


if __name__ == "__main__":
    hold(sys.argv[1], int(sys.argv[2]), sys.argv[3:])
