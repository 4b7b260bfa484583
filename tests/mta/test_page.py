#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""The status page in a real browser: the numbers of posternctl --json while traffic runs,
names that are markup stay text, light and dark, as narrow as a phone, nothing from
elsewhere; the verdict, details and search; contrast and names; a cluster, and its Redis that is
gone; a daemon that is gone."""
import json
import re
import socket
import threading
from pathlib import Path

from lib import browser, web
from lib.near_redis import NearRedis
from lib.postern import Postern, one_class
from lib.testing import Skipped, main

HOSTILE = "<img/src=x/onerror=alert(1)>"
LIMIT, SHARED = 6, 10
SOURCES = """hints = { group = "games"; };
sources = ( { name = "ip2"; transport = "smtp-ip2"; warm = { plan = [ 50, 100 ]; }; } );
"""
ACCOUNTS = """accounts = ( { name = "staff"; match = [ "*" ]; each = { recipients = [ "4/1h" ]; }; } );
"""
URL = f"http://localhost:{web.PORT}/"
AXE = Path(__file__).parent / "axe-core/axe.min.js"
ROW = """(selector, names) => Object.fromEntries([...document.querySelectorAll(selector)].map(
    row => [row.dataset.key, Object.fromEntries(names.map(name => [name,
        row.querySelector(`[data-field="${name}"]`).dataset.value]))]))"""
# How many texts were looked at; those of less than 4.5:1 on what lies behind them; and links,
# buttons, fields, meters and plots without a name.
ACCESS = """() => {
    const parts = color => color.match(/[\\d.]+/g).map(Number);
    const light = ([r, g, b]) => [r, g, b].map(c => c / 255).map(c =>
        c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4).reduce((sum, c, i) =>
        sum + c * [0.2126, 0.7152, 0.0722][i], 0);
    const behind = element => {
        for (let one = element; one !== null; one = one.parentElement) {
            const color = parts(getComputedStyle(one).backgroundColor);
            if (color.length === 3 || color[3] === 1)
                return color;
        }
        return [255, 255, 255];
    };
    const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), faint = [];
    let looked = 0;
    for (let node; (node = walk.nextNode()) !== null;) {
        const element = node.parentElement, box = element.getBoundingClientRect();
        if (node.data.trim() === "" || box.width === 0 || box.right < 0 || element.closest("svg, noscript, option"))
            continue;
        const pair = [light(parts(getComputedStyle(element).color)), light(behind(element))].sort((a, b) => b - a);
        const ratio = (pair[0] + 0.05) / (pair[1] + 0.05);
        looked++;
        if (ratio < 4.5 && !element.disabled)
            faint.push(`${node.data.slice(0, 30)} ${ratio.toFixed(2)}`);
    }
    const nameless = [...document.querySelectorAll("a, button, input, select, [role=meter], [role=img], section")]
        .filter(e => e.getBoundingClientRect().width > 0 && !(e.innerText?.trim() || e.ariaLabel ||
            e.labels?.length || e.getAttribute("aria-labelledby"))).map(e => e.outerHTML.slice(0, 90));
    return [looked, faint, nameless];
}"""
NAMES = ["open", "open_inbound", "open_outbound", "peak", "admitted", "refused", "observed"]


def edit(root, redis, accounts):
    def change(text):
        text = web.listening()(text)
        text = text.replace('policy = [ "unix:', 'policy = ( { session_proof = "owner"; address = "unix:')
        text = text.replace('private/postern" ];', 'private/postern"; } );')
        return text.replace("\tcontrol =", f'\tevents = "unix:{root}/events";\n\tcontrol =') + \
            'mta = ( { name = "out"; kind = "postfix"; } );\n' + SOURCES + accounts + redis.block()
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
    decided(test, postern, page)


def decided(test, postern, page):
    """Those that are alike are one group; a suspension stands apart."""
    logged = set(re.findall(r"event=suspended .*?\bid=(\w+) destination=", postern.log_text()))
    shown_ids = set(page.ask("[...document.querySelectorAll('#changes .decision')].map("
                             "d => d.dataset.decision)"))
    test.check(len(logged) >= 1 and logged <= shown_ids, f"suspensions of the log: {logged}")
    refused = re.findall(r"event=refused .*?\bid=(\w+)(?= class=\S+ client=198\.51\.100\.9\[)",
                         postern.log_text())
    group = page.ask("[...document.querySelectorAll('#decisions .decision')].map(d => [d.dataset"
                     ".decision, d.querySelector('[data-field=said]').textContent]).find(d => "
                     f"{refused!r}.includes(d[0])) ?? null")
    test.check(len(refused) == 2 and group and group[0] == refused[-1] and
               re.match(r"\d+ like this in", group[1]), f"a group of refusals: {group}")


def verdict(test, postern, page):
    """One line for page, title, status and /healthz."""
    status = postern.status()
    said = page.ask("[...document.querySelectorAll('#problems li')].map(li => li.textContent)")
    plain = [re.sub(r"\([\d.]+/(s|min)\)", "", text) for text in said]
    told = [re.sub(r"\([\d.]+/(s|min)\)", "", f"{row['text']} {row['command']}")
            for row in status["problems"]]
    test.equal(plain, told, "the problems are those of posternctl status")
    test.check(any(text.startswith("would suspend") and "(observe mode)" in text
                   for text in told), "what nothing enforces would be done")
    test.check("would suspend" in page.ask("document.title"), "the title has them")
    notes = web.get("/healthz").text()
    test.check(any(row["text"] in notes for row in status["problems"]), "and /healthz")


def details(test, postern, page):
    """By keyboard: Enter on a name, Escape."""
    page.ask("document.querySelector('#classes a').focus()")
    page.press("Enter")
    test.check(page.wait("!document.getElementById('detail').hidden && document.getElementById("
                         f"'detail-title').textContent === 'Class ' + {HOSTILE!r}"),
               "Enter opens the class")
    text = page.ask("document.getElementById('detail').innerText")
    for part in (f"refuse_at: {LIMIT} of {LIMIT} sessions are open", "postern.conf:",
                 "posternctl sessions --class '<img/src=x/onerror=alert(1)>'"):
        test.check(part in text, f"with {part}")
    page.press("Escape")
    test.check(page.wait("document.getElementById('detail').hidden"), "Escape closes it")
    id = page.ask("document.querySelector('#changes .decision').dataset.decision")
    page.ask(f"location.hash = '#decision/{id}'")
    test.check(page.wait("document.getElementById('detail-body').innerText.includes("
                         f"'posternctl why {id}')"), "a decision has its command")
    causes = page.ask("document.querySelectorAll('#detail table tbody tr').length")
    test.check(causes >= 1, f"and {causes} that led to it")
    page.ask("location.hash = ''")


def logins(test, postern, page):
    """Those above half of a limit, and none below it."""
    postern.asking = []
    for login, count in (("<i>eve</i>", 6), ("idle", 1)):
        one = socket.socket(socket.AF_UNIX)
        one.connect(str(postern.spool / "private/postern"))
        for number in range(count):
            one.sendall(f"request=smtpd_access_policy\nprotocol_state=RCPT\nsender=a@b.example\n"
                        f"recipient=r{number}@x.example\nclient_address=192.0.2.9\ninstance={login}\n"
                        f"sasl_username={login}\n\n".encode())
            one.recv(4096)
        postern.asking.append(one)      # what was begun and not ended would be given back
    test.check(page.wait("document.querySelector('#logins tr') !== null"), "a login is shown")
    test.equal(page.ask("[...document.querySelectorAll('#logins tr')].map(r => [r.dataset.login, ...["
                        "'used', 'limit', 'refused'].map(f => r.querySelector(`[data-field=${f}]`)"
                        ".dataset.value)])"), [["<i>eve</i>", "4", "4", "2"]], "the one that is at its limit")
    # a second may pass between the two
    test.within(5, lambda: web.api("accounts") ==
                [row for row in postern.ask("accounts") if row["used"] > 2],
                "as posternctl accounts has it")
    test.check(page.wait("document.getElementById('problems').textContent.includes("
                         "'1 login at a limit')"), "the verdict says so")


def search(test, page):
    page.ask("(e => { e.value = 'down.'; e.dispatchEvent(new Event('input')); })("
             "document.getElementById('find'))")
    test.check(page.wait("[...document.querySelectorAll('.destination')].map(r => r.dataset."
                         "destination).join() === 'down.example'"), "the daemon finds by a name")
    page.ask("(e => { e.value = ''; e.dispatchEvent(new Event('input')); })("
             "document.getElementById('find'))")
    answer = web.api("destinations?limit=1&offset=1&sort=name")
    names = sorted(row["name"] for row in web.api("destinations") if row["state"])
    test.equal((answer["found"], [row["name"] for row in answer["rows"]]), (len(names), names[1:2]),
               "a page of one, by name")
    test.equal([web.get(f"/api/{path}").code for path in (
        "destinations?limit=100000", "classes?sort=what", "destinations?offset=-1", "class?name=x",
        "decision?id=1", "client?name=%zz")], [400, 400, 400, 404, 404, 404], "errors are answers")


def sources(test, postern, page):
    test.equal(shown(page, "#warm-ups tr", ["sent", "number"]),
               {f"{row['source']} {row['provider']}": {name: str(row[name]) for name in ("sent", "number")}
                for row in postern.ask("explain", "source")}, "sources are as explain source has them")


def accessible(test, page):
    """Contrast of each text (WCAG AA: 4.5:1), names of what can be used, and what axe-core
    finds, in both themes and on a phone."""
    page.ask("void (document.getElementById('classes-title').style.color = '#999')")
    test.equal(len(page.ask(f"({ACCESS})()")[1]), 1, "a heading in grey is found")
    page.ask("void (document.getElementById('classes-title').style.color = '')")
    for name, width, dark, phone in (("light", 1280, False, False), ("dark", 1280, True, False),
                                     ("phone", 360, False, True)):
        page.look(width, 1700, dark=dark, phone=phone)
        looked, faint, nameless = page.ask(f"({ACCESS})()")
        test.check(looked > 100 and faint == [], f"{name}: {looked} texts can be read: {faint}")
        test.equal(nameless, [], f"{name}: all that can be used has a name")
        page.ask(AXE.read_text() + "\n;0")
        passed, violations = json.loads(page.ask(
            "axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', "
            "'best-practice'] }).then(r => JSON.stringify([r.passes.length, r.violations.map(v => "
            "[v.id, v.nodes.map(n => n.html.slice(0, 120))])]))"))
        test.check(passed > 30 and violations == [], f"{name}: axe-core: {passed} rules pass: {violations}")


def gone(test, postern, page):
    postern.kill()
    test.check(page.wait("/Connection to posternd lost. Last update \\d+:\\d+:\\d+ /.test(document."
                         "getElementById('trouble').textContent)"), "a daemon that is gone: since when")
    test.check("connection lost" in page.ask("document.title"), "the title says so")
    test.equal(page.ask("getComputedStyle(document.querySelector('main')).opacity"), "1",
               "what is shown can be read")


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
    for where, word in (("#problems", "cluster without Redis"),
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


def has_accounts(postern):
    """Is it a build with them?"""
    return "build has no accounts" not in postern.command("accounts").stderr


def body(test):
    if browser.find() is None:
        raise Skipped("there is no chromium")
    postern, redis = Postern(test), NearRedis(test)
    scope = 'scope = "cluster";' if redis.socket else ""
    postern.configure([one_class(HOSTILE, LIMIT, [2525], '"*.hostile.example"'),
                       one_class("shared", SHARED, [2626], more=scope)],
                      edit(postern.root, redis, ACCOUNTS if has_accounts(postern) else ""))
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
        verdict(test, postern, page)
        markup(test, page)
        details(test, postern, page)
        if ACCOUNTS in postern.file.read_text():
            logins(test, postern, page)
        sources(test, postern, page)
        search(test, page)
        accessible(test, page)
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
        gone(test, postern, page)


main(body, options=(("--shots", {"help": "a directory for pictures of it"}),))
