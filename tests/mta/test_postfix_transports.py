#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""Two further transports of one Postfix with limits of 2 and 5, next to the default one:
postern-postfix-setup --lanes attaches their lanes, the sinks never count more, what is
learned by one transport is not another's, and undo gives back the very files."""
import os

from lib.limiter import Limiter
from lib.outbound import REMOTE
from lib.plain_site import Plain, lookup_in_place
from lib.postern import one_class
from lib.testing import main
from lib.tree import tree

PORT = 2025
HOSTS = {"192.0.2.11": "careful.example", "192.0.2.12": "backend.example",
         "192.0.2.13": "open.example", "192.0.2.14": "a.big.example",
         "192.0.2.15": "b.big.example", "192.0.2.16": "gate.example",
         "192.0.2.17": "gone.example"}
TRANSPORTS = """transports = (
  { name = "relay"; window = { destination_concurrency_limit = 5; }; },
  { name = "slow"; lanes = [ 1, 2 ]; window = { destination_concurrency_limit = 2; }; } );
"""
MAIN = ("relay_domains = backend.example\n"
        "transport_maps = inline:{ careful.example=slow:, { a.big.example = slow: }, "
        "{ via.example = slow:[gate.example] }, { by.example = slow:[gate.example] }, { gone.example = relay:[gone.example] } }\n")
# the first logs as Debian's relay does, the second as the default transport
SERVICES = ("relay unix - - n - - smtp\n  -o syslog_name=postfix-A/$service_name\n",
            "slow unix - - n - - smtp\n")
PROVIDERS = """version = 1;
providers = ( { name = "big"; relays = [ "*.big.example" ]; } );
"""


def attach(test):
    providers = test.directory / "providers.conf"
    providers.write_text(PROVIDERS)
    site = Plain(test, PORT, [one_class("all", 1000)], services=SERVICES, main=MAIN,
                 mta=TRANSPORTS, settings=f'providers = "{providers}";\n')
    lookup_in_place(test, site)
    os.utime(site.postfix.etc / "master.cf", ns=(10**18, 10**18 + 5))
    before = tree(site.postfix.etc)
    code, told = site.setup("look", "--lanes", "--no-inbound")
    test.equal((code, tree(site.postfix.etc)), (0, before), f"look changes nothing: {told['findings']}")
    with site.postfix.renewed():
        code, told = site.setup("make", "--lanes", "--no-inbound")
        found = site.postern.ask("postfix-lanes", "out")
    test.equal((code, told["result"] if code == 0 else told), (0, "made"), "make --lanes")
    test.equal((found["attached"], {row["used"] for row in found["lanes"]}), ("yes", {True}),
               "when it has ended Postfix has all lanes")
    return site, before, found


def told(test, site, found):
    """What postfix-lanes, check, status and explain say."""
    names = [row["lane"] for row in found["lanes"]]
    test.equal(names, [f"lane{n}" for n in (1, 2, 3, 5, 10, 20)] +
               [f"lane{n}-relay" for n in (1, 2, 3, 5, 10, 20)] + ["lane1-slow", "lane2-slow"],
               "a lane for each width of each transport")
    test.equal({(row["mask"], row["next_hop"], row["transport"]) for row in found["routed"]},
               {("backend.example", None, "relay"), ("gone.example", "[gone.example]", "relay"),
                ("careful.example", None, "slow"), ("a.big.example", None, "slow"),
                ("via.example", "[gate.example]", "slow"), ("by.example", "[gate.example]", "slow")} |
               {row for row in {("*.backend.example", None, "relay")}
                if any(r["mask"] == row[0] for r in found["routed"])},
               "and whose mail each is")
    done = site.postern.command("check")
    test.equal((done.returncode, "transport" in done.stdout), (0, False),
               f"check has nothing against it: {done.stdout}")
    rows = {row["mta"]: row["lanes"] for row in site.postern.status()["mtas"]}
    test.equal(rows, {"out": "6/6", "out/relay": "6/6", "out/slow": "2/2"},
               "status has a row for each transport")
    test.wait_for(lambda: site.ask("u@careful.example") == "OK lane2-slow:",
                  "mail for a new domain has the lane of its transport")
    row = site.postern.ask("explain", "destination", "careful.example")
    test.equal((row["hint_mta"], row["hint"], row["doubt"], row["owner"], row["window"]),
               ("out/slow", "lane", "never-seen", "slow:careful.example", 2),
               "explain tells the transport and its window")
    test.equal(row["hint_answer"], "lane2-slow:", "and the lane")


def limits(test, site, sinks):
    """A flood to all of them at once, from the first mail on."""
    test.equal([site.ask(f"u@{name}").removeprefix("OK ") for name in
                ("careful.example", "backend.example", "open.example", "via.example")],
               ["lane2-slow:", "lane5-relay:", "lane5:", "lane2-slow:[gate.example]"],
               "mail for new domains has lanes, also with a next hop that the site names")
    mail = (("careful.example", 30), ("backend.example", 60), ("open.example", 60),
            ("via.example", 15), ("by.example", 15))
    for name, count in mail:
        site.postfix.send(PORT, name, count, user=name[0])
    for name, count in mail:
        sink = sinks.get(name, sinks["gate.example"])
        test.wait_for(lambda: sink.count(name) == count, f"{name}: all is delivered")
    test.equal(sinks["careful.example"].most, 2, "slow: 2 at once, and never more")
    test.equal(sinks["backend.example"].most, 5, "relay: 5 at once, and never more")
    test.equal(sinks["gate.example"].most, 2,
               "slow, by a next hop that two domains share: 2 at once, and never more")


def not_mixed(test, site):
    """One provider, reached by two transports: two windows."""
    for name in ("a.big.example", "b.big.example"):
        site.postfix.send(PORT, name, 3, user=name[0])
    windows = {}

    def known():
        windows.update({row["name"]: row["window"] for row in site.postern.ask("destinations")})
        return {"provider:big", "slow:provider:big"} <= windows.keys()
    test.wait_for(known, "a window for each transport")
    test.equal(windows["slow:provider:big"], 2, "with the limit of its transport")
    test.check("careful.example" not in windows or windows["careful.example"] is None,
               "none that is shared")
    test.equal({row["name"] for row in site.postern.ask("destinations", "careful.example")} -
               {"careful.example"}, {"slow:careful.example"}, "a destination's name finds it")
    rows = {row["name"]: row for row in site.postern.ask("destinations", "--relays")}
    row = rows["careful.example"]
    test.equal((row["cloned_by"], row["other_by"], row["ok"]), ("out/slow", None, 30),
               "whose deliveries a domain has")
    site.postern.ask("suspend", "slow:provider:big", "--for", "1h", "--reason", "a test")
    test.wait_for(lambda: site.ask("u@a.big.example").startswith(
        "OK retry:4.7.1 Postern: slow:provider:big is suspended"), "one can be suspended")
    test.check(site.ask("u@b.big.example").startswith("OK lane"), "and the other one goes on")
    site.postern.ask("resume", "slow:provider:big")
    site.postern.ask("suspend", "provider:big", "--for", "1h", "--reason", "a test")
    test.wait_for(lambda: {site.ask(f"u@{name}.big.example").split(" is ")[0] for name in "ab"} ==
                  {"OK retry:4.7.1 Postern: provider:big"}, "suspended for all, both wait")
    site.postern.ask("resume", "provider:big")
    test.wait_for(lambda: all(site.ask(f"u@{name}.big.example").startswith("OK lane")
                              for name in "ab"), "resumed, both go on")
    site.postern.ask("suspend", "careful.example", "--for", "1h", "--reason", "a test")
    test.wait_for(lambda: site.ask("u@careful.example").startswith(
        "OK retry:4.7.1 Postern: careful.example is suspended"),
                  "by its name alone a destination is suspended for all transports")
    site.postern.ask("resume", "careful.example")
    test.wait_for(lambda: site.ask("u@careful.example").startswith("OK lane"), "and resumed")


def comes_back(test, site, sink):
    """Mail that was held for one transport goes when its window is resumed."""
    before = sink.count("careful.example")
    site.postern.ask("suspend", "slow:careful.example", "--for", "1h", "--reason", "a test")
    test.wait_for(lambda: site.ask("u@careful.example").startswith("OK retry:"), "it is held")
    site.postfix.send(PORT, "careful.example", 5, user="held")
    test.wait_for(lambda: site.lines_of("careful.example", "status=deferred (Postern: "
                                        "slow:careful.example is suspended") == 5,
                  "mail waits without a connection")
    site.postern.ask("resume", "slow:careful.example")
    test.wait_for(lambda: sink.count("careful.example") == before + 5, "resumed, all of it goes",
                  limit=40)


def dead(test, site, gone):
    """Failures of one transport suspend its window alone."""
    site.postfix.send(PORT, "gone.example")
    test.wait_for(lambda: site.ask("u@gone.example").startswith("OK lane"), "it is seen")
    test.wait_for(lambda: gone.open == 0, "no connection to it is kept")
    gone.down()
    for n in range(0, 30, 5):
        if "event=suspended" in site.postern.log_text():
            break
        site.postfix.send(PORT, "gone.example", 5, user=f"dead{n}-")
        test.wait_for(lambda: sum("@gone.example>" in line and "status=deferred" in line for line
                                  in site.postfix.log_text().splitlines()) >= n + 5, "deferred")
    test.wait_for(lambda: site.ask("u@gone.example").startswith(
        "OK retry:4.7.1 Postern: relay:gone.example is suspended"), "by failed cohorts")
    row = site.postern.ask("explain", "destination", "gone.example")
    test.equal((row["owner"], row["state"], row["hint_mta"]),
               ("relay:gone.example", "dead", "out/relay"), "as explain tells")


def body(test):
    sinks = {name: Limiter(test, [address], REMOTE, seconds=0.1)
             for address, name in HOSTS.items()}
    site, before, found = attach(test)
    told(test, site, found)
    limits(test, site, sinks)
    not_mixed(test, site)
    comes_back(test, site, sinks["careful.example"])
    dead(test, site, sinks["gone.example"])
    with site.postfix.renewed():
        code, undone = site.setup("undo")
    test.equal((code, undone["result"], tree(site.postfix.etc)), (0, "undone", before),
               "undo: byte-identical")
    for line in site.postfix.log_text().splitlines():
        if "fatal" in line or "mail transport unavailable" in line:
            test.check(False, line)


main(body, hosts=HOSTS, addresses=list(HOSTS))
