#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""Mail goes where it went before: two Postfix sites with routing of all kinds, whose mail
goes by lanes, and an instance without any before them; each recipient has the same final
relay and result with Postern as without.  Mail for a suspended destination is taken."""
import re

from lib.limiter import Limiter
from lib.routing import REMOTE, Routing, Site
from lib.testing import main

MAPS, RELAY, OUTER, VERIFY, OTHER = 2025, 2026, 2027, 2028, 2501
NAMES = ("open.example", "few.example", "held.example", "hop.example", "smart.example",
         "fallback.example", "plain.example", "ext.example", "direct.example", "parent.example",
         "sub.port.example", "relayed.example", "sub.relayed.example", "sender.example",
         "a.open.example")
HOSTS = {f"192.0.2.{n}": name for n, name in enumerate(NAMES, 11)}
NOBODY = {"192.0.2.99": "gone.example"}         # listens there

# --- a site with maps of its own, domain classes, and a fallback relay

ROUTES = """special@plain.example smtp:[hop.example]
box@ext.example smtp:[hop.example]
port.example smtp:[hop.example]:2501
bare.example smtp:hop.example
null.example :[hop.example]
relay-to.example relay:[hop.example]
clone.example slow:[hop.example]:2501
err.example error:5.1.6 moved away
void.example discard:silently
busy.example retry:4.2.1 not today
.parent.example smtp:[hop.example]:2501
own.parent.example smtp:[hop.example]
direct.example smtp:
"""
MAPS_MAIN = """transport_maps = inline:{ inline.example=smtp:[hop.example] }, hash:@ETC@/routes
mydestination = local.example, localhost
myorigin = local.example
recipient_delimiter = +
local_recipient_maps = inline:{ postern=x }
mail_spool_directory = /run/t/boxes
virtual_mailbox_domains = vmail.example
virtual_mailbox_maps = inline:{ u@vmail.example=u }
virtual_mailbox_base = /run/t/boxes
virtual_uid_maps = static:64999
virtual_gid_maps = static:64999
virtual_minimum_uid = 100
virtual_alias_domains = valias.example
virtual_alias_maps = hash:@ETC@/virtual
relay_domains = relayed.example
"""
PROBING = f"""{VERIFY} inet n - n - - smtpd
  -o smtpd_recipient_restrictions=reject_unverified_recipient,permit_mynetworks
  -o address_verify_poll_delay=1s
"""
VIRTUAL = """a@valias.example u@open.example, u@port.example
b@valias.example postern@local.example
alias@open.example u@few.example
"""
MAPS_SERVICES = ["smtp unix - - n - - smtp\n  -o smtp_fallback_relay=[fallback.example]\n",
                 "slow unix - - n - 1 smtp\n  -o syslog_name=postfix-A/slow\n"]
BY_LANES = ("u@open.example", "U@OPEN.Example", "u+x@open.example", '"a b"@open.example',
            '"u@x"@open.example', "u%far.example@open.example", "far.example!u@open.example",
            "@hop.example,@far.example:u@open.example", "u@open.example.", "u@few.example",
            "u@held.example", "alias@open.example", "a@valias.example", "u@port.example",
            "u+x@Port.EXAMPLE", "u@bare.example", "u@null.example", "u@inline.example",
            "u@x.parent.example", "u@y.x.parent.example", "u@own.parent.example",
            "u%open.example@local.example", "u@a.open.example", "u@gone.example",
            "u@nowhere.example", "u@sub.port.example")
NO_LANES = ("special@plain.example", "special+x@plain.example", "u@plain.example",
            "box@ext.example", "box+x@ext.example", "u+x@ext.example", "u@parent.example",
            "u@relay-to.example", "u@clone.example", "u@err.example",
            "u@void.example", "u@busy.example", "u@direct.example", "postern@local.example",
            "Postern+tag@LOCAL.example", "nobody-there@local.example", "postern", "postern@",
            '"postern"@local.example', "u@vmail.example", "ghost@vmail.example",
            "b@valias.example", "ghost@valias.example", "u@relayed.example",
            "u@sub.relayed.example", "u@[192.0.2.11]", "postern@[127.0.0.1]")

# --- a site whose mail goes to a relayhost, with TLS by the next hop's spelling

RELAY_MAIN = """inet_interfaces = 127.0.0.1
relayhost = [Smart.Example]:2501
default_transport = out
smtp_tls_security_level = encrypt
smtp_tls_policy_maps = hash:@ETC@/tls
transport_maps = hash:@ETC@/routes
mydestination = local2.example
local_recipient_maps = inline:{ postern=x }
mail_spool_directory = /run/t/boxes
parent_domain_matches_subdomains = transport_maps
"""
RELAY_ROUTES = """to.example out:[hop.example]:2501
tls.example out:[hop.example]
direct.example :
relay-to.example relay:[Smart.Example]:2501
"""
TLS = """[Smart.Example]:2501 none
[hop.example]:2501 none
direct.example none
"""
SMART = "[192.0.2.15]:2501"             # how a relayhost is called
RELAY_BY_LANES = ("u@one.example", "u@Two.Example", "u+x@any.example", '"a b"@other.example',
                  "u@to.example", "u@sub.to.example", "u@x.y.to.example")
RELAY_ANYHOW = ("u@tls.example", "u@x.tls.example")     # is deferred: no TLS
RELAY_NO_LANES = ("u@direct.example", "u@relay-to.example",
                  "postern@local2.example", "ghost@local2.example", "u@[192.0.2.11]")
# --- and one that gives all its mail to the first, and has no lanes
OUTER_MAIN = f"""relayhost = [127.0.0.1]:{MAPS}
myhostname = outer.example.com
mydestination = local3.example
"""
OUTER_RECIPIENTS = ("u@open.example", "u@port.example", "u@held.example", "u@relay-to.example",
                    "postern@local.example", "a@valias.example", "u@[192.0.2.11]")


def make(test):
    (test.directory / "boxes").mkdir(mode=0o777)
    (test.directory / "boxes").chmod(0o777)
    maps = Site(test, "A", [MAPS, PROBING], MAPS_MAIN, MAPS_SERVICES,
                tables={"routes": ROUTES, "virtual": VIRTUAL},
                mta=f"ports = [ {REMOTE}, {OTHER} ];")
    relay = Site(test, "B", [RELAY], RELAY_MAIN,
                 ["out unix - - n - - smtp\n  -o syslog_name=postfix-B/out\n"],
                 tables={"routes": RELAY_ROUTES, "tls": TLS}, clone="out",
                 mta=f"ports = [ {REMOTE}, {OTHER} ];")
    outer = Site(test, "C", [OUTER], OUTER_MAIN, mta=f"ports = [ {REMOTE} ];")
    return {maps: BY_LANES + NO_LANES, relay: RELAY_BY_LANES + RELAY_NO_LANES + RELAY_ANYHOW,
            outer: OUTER_RECIPIENTS}


def refused_at_rcpt(test, plain, site):
    for recipient, code in (("nobody-there@local.example", "550 "), ("u@err.example", "550 "),
                            ("ghost@vmail.example", "550 "), ("ghost@valias.example", "550 ")):
        test.check(str(plain[site][recipient][0]).startswith(code),
                   f"refused at RCPT: {recipient}: {plain[site][recipient][0]}")


def learn(test, routing, sites, plain):
    """The first mail that Postern sees: it knows no destination yet."""
    for site, recipients in sites.items():
        routing.same(site, plain[site], routing.round(site, recipients),
                     f"{site.name}, nothing is known")
    maps, relay, _ = sites
    for name, window in (("few.example", 2), ("bare.example", 3)):
        routing.postern.ask("limit", name, "--window", window, "--ceiling", window, "--for", "1h")
    for site, recipients in ((maps, BY_LANES), (relay, RELAY_BY_LANES)):
        for address in recipients:
            if "valias" not in address and "local" not in address:
                test.wait_for(lambda: routing.ask(site, address).startswith("OK lane"),
                              f"{site.name}: {address} has a lane")
    for address, lane in (("u@few.example", "OK lane2:"), ("u@bare.example", "OK lane3:")):
        test.wait_for(lambda: routing.ask(maps, address).startswith(lane),
                      f"{address} has the lane of its window, as the one before has drained")


def lanes(test, routing, sites, plain):
    for site, recipients in sites.items():
        # the resolver remembers the last address that it was asked for
        routing.round(site, recipients[-1:])
        routing.widths.clear()
        routing.same(site, plain[site], routing.round(site, recipients),
                     f"{site.name}, by lanes")
        if site.name == "C":
            continue
        wanted, others = (BY_LANES, NO_LANES) if site.name == "A" else \
            (RELAY_BY_LANES, RELAY_NO_LANES)
        test.equal(sorted(set(wanted) - set(routing.widths)), [], f"{site.name}: those had lanes")
        test.equal(sorted(set(others) & set(routing.widths)), [], f"{site.name}: these had none")
        used = set().union(*routing.widths.values())
        test.check(used >= ({2, 3, 5} if site.name == "A" else {5}),
                   f"{site.name}: lanes of {sorted(used)}")
    own = [line for line in list(sites)[2].postfix.log_text().splitlines() if "/lane" in line]
    test.equal(own, [], "the instance without lanes used none")


def held(test, routing, site, where, recipients):
    """Sent over smtpd to `site`, held at `where`: replies."""
    routing.outcomes(where, where.send(["u@[192.0.2.11]"]))     # no other is remembered
    test.wait_for(lambda: all(routing.ask(where, name).startswith("OK retry:4.7.1 Postern: ")
                              for name in recipients), f"{where.name}: the hint says so")
    replies = site.send(recipients)
    test.equal({code for code, _ in replies.values()}, {250}, f"{site.name}: taken with 250")
    for recipient, (_, results) in routing.outcomes(site, replies).items():
        text = [result[6] for result in results if result[4:6] == ("4.7.1", "deferred")]
        test.check(len(text) == 1 and text[0].startswith("Postern: ") and
                   " is suspended until " in text[0] and text[0].endswith(": a test"),
                   f"{site.name}: {recipient} is deferred ({text})")
    return replies


def suspended(test, routing, sites, plain):
    """250 over smtpd; deferred with our text; where it goes later is the same."""
    maps, relay, outer = sites
    names = ("held.example", "port.example", "to.example", SMART)
    for name in names:
        routing.postern.ask("suspend", name, "--for", "1h", "--reason", "a test")
    waits = {maps: held(test, routing, maps, maps, ["u@held.example", "u@port.example"]),
             relay: held(test, routing, relay, relay, ["u+x@any.example", "u@to.example"]),
             outer: held(test, routing, outer, maps, ["u@held.example"])}
    for site, others in ((maps, ["u@open.example", "u@x.parent.example"]),
                         (relay, ["u@sub.to.example"])):
        found = routing.outcomes(site, site.send(others))
        routing.same(site, {name: plain[site][name] for name in others}, found,
                     f"{site.name}: others go meanwhile, by the same next hop, too")
    replies = maps.send(["probed@held.example", "probed@x.parent.example"], port=VERIFY)
    code, text = replies["probed@held.example"]
    test.check(code == 450 and "Postern: held.example is suspended" in text,
               f"a probe for a suspended destination is held: {code} {text}")
    test.equal(replies["probed@x.parent.example"][0], 250, "one for another destination is not")
    test.check(re.search(r"postfix-A/probe/smtp\[\d+\]: \w+: to=<probed@x.parent.example>, "
                         r"relay=hop.example\[192.0.2.\d+\]:2501, .*status=deliverable",
                         maps.postfix.log_text()), "it goes by the site's route, in its lane")
    for name in names:
        routing.postern.ask("resume", name)
    relay.send(["postern@local2.example"])      # qmgr remembers what it asked for last
    for site, replies in waits.items():
        found = routing.outcomes(site, replies, settled=True)
        routing.same(site, {recipient: plain[site][recipient] for recipient in replies}, found,
                     f"{site.name}, resumed")


def another_table(test, routing, sites, plain):
    """The admin adds an entry for a domain that has lanes, and tells nobody."""
    maps = list(sites)[0]
    lane = routing.ask(maps, "u@open.example")
    test.check(lane.startswith("OK lane"), f"open.example has a lane ({lane})")
    maps.table("routes", ROUTES + "open.example smtp:[hop.example]\n")
    test.within(3, lambda: routing.ask(maps, "u@open.example") == "NOTFOUND",
                "another table: no hint is given any more")
    maps.postfix.reload()               # or Postfix takes ten seconds
    outcome = routing.round(maps, ["u@open.example"])["u@open.example"]
    test.equal((outcome[0], outcome[1][0][3]), (250, "hop.example[192.0.2.14]:2500"),
               "mail goes where the new entry says")
    test.equal(routing.postern.status()["sites_changed"], 1, "status says so")
    notes = routing.postern.ask("check")
    test.check(any("etc/routes.db has changed" in note["text"] for note in notes),
               "and check")
    test.equal(routing.postern.ask("explain", "destination", "held.example")["doubt"],
               "site-changed", "and explain")
    test.check("event=site-changed mta=A file=" in routing.postern.log_text().replace(
        " role=supervisor", ""), "and the log")
    routing.read_site(maps)
    test.wait_for(lambda: routing.ask(maps, "u@held.example").startswith("OK lane") and
                  routing.ask(maps, "u@open.example").endswith(":[hop.example]"),
                  "read again, there are lanes, the new entry's, too")
    test.equal(routing.postern.status()["sites_changed"], 0, "and status is content")


def body(test):
    sinks = [Limiter(test, list(HOSTS), port, seconds=0) for port in (REMOTE, OTHER)]
    sites = make(test)
    routing = Routing(test, list(sites))
    plain = {site: routing.round(site, recipients) for site, recipients in sites.items()}
    maps, relay, _ = sites
    refused_at_rcpt(test, plain, maps)
    routing.postern.start()
    for site in (maps, relay):
        routing.attach(site)
    for site in list(sites)[2:]:
        routing.read_site(site)
    learn(test, routing, sites, plain)
    lanes(test, routing, sites, plain)
    suspended(test, routing, sites, plain)
    another_table(test, routing, sites, plain)
    for site in sites:
        for line in site.postfix.log_text().splitlines():
            if "fatal" in line or "mail transport unavailable" in line:
                test.check(False, line)
    test.say(f"{sum(len(sink.delivered) for sink in sinks)} deliveries")


main(body, hosts={**HOSTS, **NOBODY}, addresses=[*HOSTS, *NOBODY], seconds=80)
