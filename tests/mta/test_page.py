#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""The status page in a real browser: the numbers of posternctl --json while traffic runs,
names that are markup stay text, light and dark, as narrow as a phone, nothing from
elsewhere; a cluster, and its Redis that is gone."""
import re
import socket
import threading

from lib import browser, web
from lib.near_redis import NearRedis
from lib.postern import Postern, one_class
from lib.testing import Skipped, main

HOSTILE = "<img/src=x/onerror=alert(1)>"
LIMIT, SHARED = 6, 10
URL = f"http://localhost:{web.PORT}/"
ROW = """(selector, names) => Object.fromEntries([...document.querySelectorAll(selector)].map(
    row => [row.dataset.key, Object.fromEntries(names.map(name => [name,
        row.querySelector(`[data-field="${name}"]`).dataset.value]))]))"""
NAMES = ["open", "open_inbound", "open_outbound", "peak", "admitted", "refused", "observed"]


def edit(root, redis):
    def change(text):
        text = web.listening()(text)
        text = text.replace('policy = [ "unix:', 'policy = ( { session_proof = "owner"; address = "unix:')
        text = text.replace('private/postern" ];', 'private/postern"; } );')
        return text.replace("\tcontrol =", f'\tevents = "unix:{root}/events";\n\tcontrol =') + \
            'mta = ( { name = "out"; kind = "postfix"; } );\n' + redis.block()
    return change


class Traffic:
    """Clients of the policy socket that come and go, and deliveries that are told of."""

    def __init__(self, postern):
        self.postern, self.going, self.held = postern, True, []
        self.events = socket.socket(socket.AF_UNIX)
        self.events.connect(str(postern.root / "events"))
        self.threads = [threading.Thread(target=self.run, args=(number,), daemon=True)
                        for number in range(3)]
        for thread in self.threads:
            thread.start()

    def ask(self, client, port, name, service=2525):
        one = socket.socket(socket.AF_UNIX)
        one.settimeout(10)
        one.connect(str(self.postern.spool / "private/postern"))
        one.sendall(f"request=smtpd_access_policy\nprotocol_state=CONNECT\n"
                    f"client_address={client}\nclient_name={name}\nclient_port={port}\n"
                    f"server_address=192.0.2.25\nserver_port={service}\n\n".encode())
        answer = b""
        while not answer.endswith(b"\n\n"):
            answer += one.recv(4096)
        return one, b"421" not in answer

    def run(self, number):
        port = 1024 + 10000 * number
        while self.going:
            port += 1
            one, _ = self.ask(f"198.51.100.{number + 1}", port, "<b>h</b>.hostile.example")
            self.deliver(f"d{number}.example", "sent", "250%20ok")
            one.close()

    def deliver(self, domain, status, reply):
        self.events.sendall(f"delivery status={status} recipient=u@{domain} mta=out "
                            f"relay=mx.{domain} address=192.0.2.7 reply={reply} connect=0.1 "
                            f"send=0.2\n".encode())

    def stop(self, test):
        """A state that stays as it is: a class full, one refused, a destination that fails."""
        self.going = False
        for thread in self.threads:
            thread.join()
        test.wait_for(lambda: self.postern.open(HOSTILE) == 0, "those that came and went are gone")
        for port in range(50000, 50000 + LIMIT + 2):
            self.held.append(self.ask("198.51.100.9", port, "<b>h</b>.hostile.example")[0])
        for port in range(50000, 50003):
            self.held.append(self.ask("198.51.100.9", port, "h.example", 2626)[0])
        self.deliver("down.example", "deferred", "connect%20to%20mx:%20Connection%20refused")
        for _ in range(60):     # without a reply: of those of one burst each counts
            self.deliver("failing.example", "deferred", "connect%20to%20<script>alert(2)</script>:"
                         "%20Connection%20refused")
        self.events.settimeout(20)
        self.events.sendall(b"sync\n")
        answer = b""
        while not re.search(rb"(?m)^ok .*\n", answer):   # all of it is learned
            answer += self.events.recv(4096) or b"ok hung up\n"


def shown(page, selector, names):
    return page.ask(f"({ROW})({selector!r}, {names!r})")


def as_shown(rows, names):
    def word(value):
        return "" if value is None else str(value)
    return {row["name"]: {name: word(row[name]) for name in names} for row in rows}


def drawn_anew(test, page):
    """Twice: what comes next may have been asked for before."""
    turns = int(page.ask("document.body.dataset.turns ?? '0'"))
    test.check(page.wait(f"Number(document.body.dataset.turns ?? 0) > {turns} + 1"),
               "the page is drawn anew")


def while_it_moves(test, postern, page):
    before = postern.classes()[HOSTILE]
    drawn_anew(test, page)
    row = shown(page, ".class[data-class]", NAMES)[HOSTILE]
    after = postern.classes()[HOSTILE]
    test.check(before["admitted"] < int(row["admitted"]) <= after["admitted"],
               f"admitted: {before['admitted']}, the page {row['admitted']}, {after['admitted']}")


def at_rest(test, postern, page):
    test.wait_for(lambda: any(row["state"] == "dead" for row in postern.ask("destinations")),
                  "a destination is suspended")
    drawn_anew(test, page)
    test.equal(shown(page, ".class[data-class]", NAMES), as_shown(postern.ask("classes"), NAMES),
               "classes show the numbers of posternctl")
    names = ["window", "ceiling", "in_flight", "state"]
    rows = [row for row in postern.ask("destinations") if row["state"] is not None]
    test.equal(shown(page, ".destination", names), as_shown(rows, names),
               f"{len(rows)} destinations show theirs")
    test.equal(page.ask("[...document.querySelectorAll('#roles tr')].map(r => r.dataset.role)"),
               [role["role"] for role in postern.status()["roles"]], "roles")
    refused = postern.status()["counters"]["refused"]
    test.equal(page.ask("document.querySelector('[data-counter=refused] b').dataset.value"),
               str(refused), "counters")
    test.check(postern.status()["counters"]["results_site_failure"] > 0 and not page.ask(
        "[...document.querySelectorAll('#faults li')].filter("
        "li => li.dataset.counter.startsWith('results_')).length"),
        "what remote sites answered is none of the faults")
    ids = page.ask("[...document.querySelectorAll('.decision')].map(d => d.dataset.decision)")
    # of those that are refused at rest: the page has the newest ones
    logged = set(re.findall(r"event=(?:refused .*?|suspended .*?)\bid=(\w+)(?= class=\S+ "
                            r"client=198\.51\.100\.9\[| destination=)", postern.log_text()))
    test.check(len(logged) >= 3 and logged <= set(ids),
               f"{len(ids)} decisions, with the {len(logged)} ids of the log")


def share_of(postern):
    row = postern.classes()["shared"]
    return f"{row['share']}, share of {SHARED}"


def cluster(test, postern, page):
    def same():
        told = postern.ask("cluster")
        wanted = {row["node"]: {name: str(row[name]) for name in ("leased", "open")}
                  for row in told["nodes"]}
        return told["state"] == "joined" and wanted and \
            shown(page, "#nodes tr", ["leased", "open"]) == wanted and \
            page.ask("document.getElementById('cluster-state').textContent") == "joined" and \
            page.ask("document.querySelector('.class[data-class=shared] [data-field=limit]')"
                     ".textContent") == share_of(postern)
    test.within(10, same, "the machines of the cluster and this one's share, as posternctl tells")
    test.equal({name: web.api("cluster")[name] for name in ("node", "server", "nodes_most")},
               {name: postern.ask("cluster")[name] for name in ("node", "server", "nodes_most")},
               "/api/cluster is posternctl cluster")


def without_redis(test, page, redis):
    redis.kill()
    for where, word in (("#modes", "cluster: without"),
                        (".class[data-class=shared] [data-field=modes]", "no lease")):
        test.check(page.wait(f"document.querySelector('{where}').textContent.includes('{word}')"),
                   f"Redis is gone: {word}")
    test.check("connect" in page.ask("document.getElementById('cluster-trouble').textContent"),
               "and why")


def markup(test, page):
    text = page.ask("document.body.innerText")
    for part in (HOSTILE, "<script>alert(2)</script>", "<b>h</b>.hostile.example"):
        test.check(part in text, f"{part} is text")
    test.equal(page.ask("document.querySelectorAll('main img, main script, main b b').length"), 0,
               "and no element")


def looks(test, page):
    colors = []
    for dark in (False, True):
        page.look(1280, 900, dark=dark)
        colors.append(page.ask("getComputedStyle(document.body).backgroundColor"))
    test.check(colors[0] != colors[1], f"light is {colors[0]}, dark is {colors[1]}")
    page.look(360, 740, phone=True)
    test.check(page.wait("document.documentElement.scrollWidth <= 360"),
               "nothing is wider than a phone")


def silence(test, page):
    asked = {(event["params"]["request"]["method"], event["params"]["request"]["url"])
             for event in page.happened("Network.requestWillBeSent")}
    test.equal({one for one in asked if one[0] != "GET" or not one[1].startswith(URL)}, set(),
               f"{len(asked)} addresses are asked for, all of them here, by GET")
    errors = page.happened("Log.entryAdded", "Runtime.exceptionThrown",
                           "Page.javascriptDialogOpening")
    test.equal(errors, [], "no error, no refusal by the policy, no dialog")


def body(test):
    if browser.find() is None:
        raise Skipped("there is no chromium")
    postern, redis = Postern(test), NearRedis(test)
    scope = 'scope = "cluster";' if redis.socket else ""
    postern.configure([one_class(HOSTILE, LIMIT, [2525], '"*.hostile.example"'),
                       one_class("shared", SHARED, [2626], more=scope)],
                      edit(postern.root, redis))
    postern.kinds = postern.kinds | ({"cluster"} if redis.socket else set())
    postern.start()
    traffic = Traffic(postern)
    with browser.Browser() as chromium:
        page = chromium.page()
        page.look(1280, 1700)
        page.open(URL)
        while_it_moves(test, postern, page)
        traffic.stop(test)
        at_rest(test, postern, page)
        if redis.socket:
            cluster(test, postern, page)
        markup(test, page)
        looks(test, page)
        if test.arguments.shots:
            for name, width, dark, phone in (("light", 1280, False, False),
                                             ("dark", 1280, True, False),
                                             ("phone", 390, False, True)):
                page.look(width, 1700, dark=dark, phone=phone)
                page.screenshot(f"{test.arguments.shots}/page-{name}.png")
        if redis.socket:
            page.look(1280, 900)
            without_redis(test, page, redis)
            if test.arguments.shots:
                page.screenshot(f"{test.arguments.shots}/page-without-redis.png")
        silence(test, page)


main(body, options=(("--shots", {"help": "a directory for pictures of it"}),))
