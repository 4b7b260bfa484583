#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""The status page of a large site: 1,000 classes and 100,000 destinations.  Each turn of the page
is answered at once, the numbers are those of posternctl --json, and the role that answers stays
small; in a real browser (where there is one) the page shows one page of each."""
import re
import socket
import statistics
import time
from pathlib import Path
from urllib.parse import quote

from lib import browser, web
from lib.postern import Postern, one_class
from lib.testing import main

CLASSES, DESTINATIONS = 1000, 100_000
ROUNDS = 21
ANSWER_S = 0.1          # of one question, alone; the limit here is for a busy machine
BUSY = 5
RESIDENT_KB = 64 << 10
# What one turn of the page asks (page.js).
TURN = ("status", "classes?limit=25&offset=0&sort=trouble&find=",
        "destinations?limit=25&offset=0&sort=trouble&find=&show=all",
        "decisions?limit=40&kind=all&find=", "cluster", "accounts")
MORE = ("destinations?limit=25&offset=90000&sort=name&find=&show=all",
        f"destinations?limit=25&offset=0&sort=load&find={quote('d777')}&show=all",
        "sparks?kind=destinations", "history?minutes=60&step=1", "destination?name=d77777.example",
        "class?name=c777")


def edit(root):
    def change(text):
        text = web.listening()(text)
        text = text.replace("\tcontrol =", f'\tevents = "unix:{root}/events";\n\tcontrol =')
        text = text.replace('sessions = "64k";', 'sessions = "64k"; destinations = "256k";')
        return text + 'mta = ( { name = "out"; kind = "postfix"; } );\n'
    return change


def deliver(test, postern):
    """One delivery to each destination; every hundredth fails for good."""
    events = socket.socket(socket.AF_UNIX)
    events.settimeout(120)
    events.connect(str(postern.root / "events"))
    lines = []
    for number in range(DESTINATIONS):
        status, reply = ("sent", "250%20ok") if number % 100 else (
            "deferred", "connect%20to%20mx:%20Connection%20refused")
        lines.append(f"delivery status={status} recipient=u@d{number}.example mta=out "
                     f"relay=mx{number}.example address=192.0.2.{number % 250} reply={reply} "
                     f"connect=0.1 send=0.2\n")
    events.sendall("".join(lines).encode() + b"sync\n")
    answer = b""
    while not re.search(rb"(?m)^ok .*\n", answer):
        answer += events.recv(4096) or b"ok hung up\n"


def own_kb(pid):
    """What is resident, without the state that all roles share."""
    sizes = dict(re.findall(r"^(Rss\w+):\s+(\d+)", Path(f"/proc/{pid}/status").read_text(), re.M))
    return int(sizes["RssAnon"]) + int(sizes["RssFile"])


def answered(test, postern):
    for question in TURN + MORE:
        times = []
        for _ in range(ROUNDS):
            began = time.monotonic()
            answer = web.get(f"/api/{question}")
            times.append(time.monotonic() - began)
        median = statistics.median(times)
        test.say(f"{question}: {1000 * median:.1f} ms, {len(answer.body)} bytes")
        test.check(answer.code in (200, 404) and median < BUSY * ANSWER_S,
                   f"{question} is answered in {1000 * ANSWER_S:.0f} ms")
    pid = postern.roles()["metrics.0"]
    test.say(f"role metrics.0: {own_kb(pid)} kB of its own")
    test.check(own_kb(pid) < RESIDENT_KB, "the role that answers stays below 64 MB")


def numbers(test, postern):
    status = postern.status()
    table = next(table for table in status["tables"] if table["table"] == "destinations")
    listed = web.api("destinations?limit=25&offset=0&sort=trouble&find=&show=all")
    test.check(table["used"] >= DESTINATIONS, f"{table['used']} destinations are known")
    test.equal(listed["total"], len(postern.ask("destinations")), "the page counts as posternctl does")
    test.equal(web.api("classes?limit=25&offset=0&sort=trouble&find=")["total"],
               len(postern.ask("classes")), "also classes")
    found = web.api(f"destinations?limit=25&offset=0&sort=name&find={quote('d77777.example')}&show=all")
    test.check("d77777.example" in str(found["rows"]), "one of them is found by its name")


def seen(test, shots):
    with browser.Browser() as chromium:
        page = chromium.page()
        page.look(1280, 1700)
        page.open(f"http://localhost:{web.PORT}/")
        test.check(page.wait("Number(document.body.dataset.turns) >= 2"), "the page is drawn")
        rows = page.ask("document.querySelectorAll('#classes [data-key]').length")
        test.check(0 < rows <= 100, f"{rows} rows of classes at once")
        height = page.ask("document.documentElement.scrollHeight")
        test.check(height < 8000, f"{height} pixels high")
        if shots:
            for name, width, dark, phone in (("light", 1280, False, False),
                                             ("dark", 1280, True, False), ("phone", 390, False, True)):
                page.look(width, 1700, dark=dark, phone=phone)
                page.screenshot(f"{shots}/large-{name}.png")


def body(test):
    postern = Postern(test)
    postern.configure([one_class(f"c{number}", 100, match=f'"*.c{number}.example"') for number in range(CLASSES)],
                      edit(postern.root))
    postern.start()
    deliver(test, postern)
    answered(test, postern)
    numbers(test, postern)
    if browser.find() is not None:
        seen(test, test.arguments.shots)


main(body, options=(("--shots", {"help": "a directory for pictures of it"}),))
