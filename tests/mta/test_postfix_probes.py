#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""Address verification probes of a real Postfix have lanes of their own: never more at once
than these are wide, none to a suspended destination, by the routes that the site has."""
import smtplib
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from lib.limiter import Limiter
from lib.outbound import REMOTE
from lib.plain_site import PORT, Plain, lookup_in_place
from lib.postern import one_class
from lib.testing import main
from lib.tree import tree

HOSTS = {"192.0.2.13": "open.example", "192.0.2.14": "relayed.example",
         "192.0.2.15": "elsewhere.example"}
WIDTH, TOTAL, STRANGERS = 2, 3, 30
MAIN = """smtpd_recipient_restrictions = reject_unverified_recipient, permit
relay_domains = relayed.example
transport_maps = inline:{ routed.example=smtp:[elsewhere.example] }
address_verify_map =
address_verify_poll_count = 1
address_verify_poll_delay = 1s
unverified_recipient_tempfail_action = defer
"""


class Slow(Limiter):
    """Takes a moment for each probe."""

    def is_unwelcome(self, sock):
        time.sleep(0.25)                # LINT-SLEEP: how long a probe takes
        return False


def ask(address):
    """What a stranger is told of a recipient."""
    with smtplib.SMTP("127.0.0.1", PORT, timeout=30) as client:
        client.ehlo("client.example")
        client.mail("a@example.net")
        code, text = client.rcpt(address)
        return code, text.decode()


def flood(test, site, domain, user, count=STRANGERS):
    """So many strangers at once name a recipient that nobody knows yet; their replies, when all
    probes have ended."""
    with ThreadPoolExecutor(count) as pool:
        replies = list(pool.map(ask, [f"{user}{number}@{domain}" for number in range(count)]))
    test.wait_for(lambda: len({line.split("to=<")[1].split(">")[0]
                               for line in site.postfix.log_text().splitlines()
                               if f"to=<{user}" in line and "deliverable (" in line}) == count,
                  f"{count} probes to {domain} ended", limit=30)
    return replies


def before(test, site, sink):
    flood(test, site, "open.example", "unbound")
    test.check(sink.most > WIDTH, f"without lanes: {sink.most} probes at once")


def attach(test, site):
    lookup_in_place(test, site)
    old = tree(site.postfix.etc)
    code, told = site.setup("look", "--lanes", "--no-inbound")
    test.equal((code, tree(site.postfix.etc)), (0, old), "look changes nothing")
    with site.postfix.renewed():
        code, told = site.setup("make", "--lanes", "--no-inbound")
    test.equal((code, told["result"] if code == 0 else told), (0, "made"), "make --lanes")
    found = site.postern.ask("postfix-lanes", "out")
    test.equal((found["probes"], found["no_probes"]), ("yes", None), "probes have a lane")
    test.check("\nprobes 2\n" in Path(found["site"]).read_text(), "the site's file says so")
    test.check("probes" not in site.postern.command("check").stdout, "check has no note")
    return old


def bounded(test, site, sink, domain, lane, user):
    sink.clear()
    replies = flood(test, site, domain, user)
    test.equal((sink.most, sink.connections), (WIDTH, STRANGERS),
               f"{STRANGERS} probes to {domain}: {WIDTH} at once, each goes")
    test.equal(site.lines_of(domain, f"postfix-A/{lane}/smtp["), STRANGERS, f"all by {lane}")
    test.check({code for code, _ in replies} <= {250, 450}, "strangers hear what Postfix says")
    test.equal(ask(f"{user}0@{domain}")[0], 250, "and 250 when the answer is known")


def seen(test, site):
    """Neither a doubt nor a lane of mail comes of probes."""
    test.wait_for(lambda: site.explain("open.example") == ("lane", "none"),
                  "mail for it has hints as ever")
    site.postfix.send(PORT, "open.example", user="first0")    # an address that is known
    test.wait_for(lambda: site.lines_of("open.example", "postfix-A/lane"), "it goes by lanes")


def suspended(test, site, sink):
    site.postern.ask("suspend", "open.example", "--for", "1h", "--reason", "a test")
    test.wait_for(lambda: site.is_held("u@open.example"), "the hint says so")
    sink.clear()
    replies = flood(test, site, "open.example", "held")
    test.equal(sink.connections, 0, f"{STRANGERS} probes to a suspended site: no connection")
    code, text = ask("held0@open.example")
    test.check(code == 450 and "Postern: open.example is suspended" in text,
               f"the stranger is told: {code} {text}")
    test.check({code for code, _ in replies} == {450}, "as all were")
    site.postern.ask("resume", "open.example")
    test.wait_for(lambda: not site.is_held("u@open.example"), "resumed")
    test.wait_for(lambda: sink.open == 0, "no connection of mail is kept")
    sink.clear()
    flood(test, site, "open.example", "resumed", 4)
    test.check(sink.connections == 4 and sink.most <= WIDTH, "resumed, probes go again")


def routed(test, site, sink):
    """transport_maps names another host: in the lane, too."""
    sink.clear()
    flood(test, site, "routed.example", "routed", 8)
    test.equal((sink.most, site.lines_of("routed.example", "postfix-A/probe/smtp[")), (WIDTH, 8),
               "probes that transport_maps sends elsewhere go there, by the lane")


def together(test, site, sink):
    """Both destinations at the same moment: a limit for all, too."""
    sink.clear()
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda name: flood(test, site, name, f"all-{name[0]}", 8),
                      ("open.example", "routed.example")))
    test.equal((sink.most, sink.connections), (TOTAL, 16),
               f"probes to two destinations: {TOTAL} at once, as mta[].probes_total says")


def without_postern(test, site, sink):
    site.postern.ask("suspend", "open.example", "--for", "1h")
    test.wait_for(lambda: site.is_held("u@open.example"), "suspended")
    site.postern.kill()
    test.within(7, lambda: not site.is_held("u@open.example"), "Postern is gone")
    sink.clear()
    flood(test, site, "open.example", "alone", 10)
    test.equal((sink.most, sink.connections), (WIDTH, 10), "probes go, by their lane")


def body(test):
    sink, relayed = Slow(test, ["192.0.2.13", "192.0.2.15"], REMOTE), \
        Slow(test, ["192.0.2.14"], REMOTE)
    site = Plain(test, PORT, [one_class("all", 1000)], main=MAIN, mta=f"probes_total = {TOTAL};")
    before(test, site, sink)
    old = attach(test, site)
    bounded(test, site, sink, "open.example", "probe", "first")
    seen(test, site)
    suspended(test, site, sink)
    bounded(test, site, relayed, "relayed.example", "probe-relay", "relayed")
    routed(test, site, sink)
    together(test, site, sink)
    without_postern(test, site, sink)
    with site.postfix.renewed():
        code, told = site.setup("undo")
    test.equal((code, told["result"], tree(site.postfix.etc)), (0, "undone", old),
               "undo: byte-identical")


main(body, hosts=HOSTS, addresses=list(HOSTS))
