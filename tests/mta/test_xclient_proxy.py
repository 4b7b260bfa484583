#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""Clients that the kernel does not show: XCLIENT, HAProxy's protocol in both
versions (by us and by the real HAProxy); and IPv6 clients, which it does."""
from lib.postern import one_class
from lib.postfix import conf_service, listening
from lib.scenario import fills, refused_and_disconnected
from lib.site import site
from lib.smtp import Session, admitted, open_sessions, proxy_v1, proxy_v2, xclient
from lib.testing import main

LIMIT = 5
XCLIENT = "smtpd_authorized_xclient_hosts=127.0.0.0/8"
MILTER_LINES = ("smtpd_milters", "milter_connect_macros")
PORTS = {"policy": 2025, "milter": 2026, "both": 2027, "proxy policy": 2028, "proxy both": 2029}
SIX = [f"2001:db8::{number}" for number in range(1, LIMIT + 7)]
HAPROXY = """global
  log /dev/log local0
defaults
  mode tcp
  timeout connect 5s
  timeout client 60s
  timeout server 60s
listen v1
  bind 127.0.0.1:3001
  server a 127.0.0.1:2029 send-proxy
listen v2
  bind 127.0.0.1:3002
  server a 127.0.0.1:2029 send-proxy-v2
"""


def services():
    for way in ("policy", "milter", "both"):
        yield conf_service(f"postfix-{way}.master.cf", PORTS[way], extra=[XCLIENT])
    yield conf_service("postfix-haproxy.master.cf", PORTS["proxy policy"],
                       leave_out=MILTER_LINES)
    yield conf_service("postfix-haproxy.master.cf", PORTS["proxy both"])


def classes():
    """One class for each port and net."""
    yield one_class("ten", LIMIT, match='"10.0.0.0/8"')
    yield one_class("documentation6", LIMIT, match='"2001:db8::/32"')


def by_xclient(test, postern, way):
    to = ("127.0.0.1", PORTS[way])
    sessions = open_sessions(to, ["127.0.0.1"] * (LIMIT + 2))
    test.equal(len(admitted(sessions)), LIMIT + 2, f"XCLIENT, {way}: carriers are let in")
    replies = [xclient(session, f"10.0.0.{number}", 40000 + number)[0]
               for number, session in enumerate(sessions, 1)]
    test.equal(replies, [220] * LIMIT + [421] * 2,
               f"XCLIENT, {way}: the first {LIMIT} clients are let in, the others read 421")
    test.equal(postern.open("ten"), LIMIT, f"XCLIENT, {way}: {LIMIT} counted")
    for session in sessions:
        session.drop()
    test.within(1.0, lambda: postern.open("ten") == 0, f"XCLIENT, {way}: 0 afterwards")
    session = Session(to, "127.0.0.1")
    xclient(session, "10.0.0.1", name="mail.example.org")
    test.equal((session.send()[0], postern.open("ten")), (250, 1),
               f"XCLIENT, {way}: without a port it is counted, too")
    session.drop()
    test.within(1.0, lambda: postern.open("ten") == 0, f"XCLIENT, {way}: until it ends")


def by_proxy(test, postern, header, version, way, limit):
    port = PORTS[f"proxy {way}"]
    to = ("127.0.0.1", port)
    for class_name, net, server in (("ten", "10.0.0.", "127.0.0.1"),
                                    ("documentation6", "2001:db8::", "::1")):
        text = f"PROXY {version}, {way}, {net}"
        sessions = [Session(to, preamble=header(f"{net}{number}", 41000 + number, server, port))
                    for number in range(1, LIMIT + 3)]
        test.equal([session.code for session in sessions], [220] * LIMIT + [421] * 2,
                   f"{text}: the first {LIMIT} are let in, the others read 421")
        test.check(refused_and_disconnected(sessions[LIMIT:]), f"{text}: and are disconnected")
        test.equal(postern.open(class_name), LIMIT, f"{text}: {LIMIT} counted")
        for session in sessions:
            session.drop()
        test.within(limit, lambda: postern.open(class_name) == 0, f"{text}: 0 afterwards")


def by_haproxy(test, postern):
    program = test.need("haproxy")
    (test.directory / "haproxy.cfg").write_text(HAPROXY)
    test.spawn([program, "-db", "-f", test.directory / "haproxy.cfg"], "haproxy")
    for port, version in ((3001, "v1"), (3002, "v2")):
        sources = [f"10.0.0.{number}" for number in range(1, LIMIT + 3)]
        test.wait_for(lambda: listening(port), f"HAProxy listens on port {port}")
        sessions = open_sessions(("127.0.0.1", port), sources)
        test.equal(len(admitted(sessions)), LIMIT, f"HAProxy {version}: {LIMIT} are let in")
        test.equal(postern.open("ten"), LIMIT, f"HAProxy {version}: {LIMIT} counted")
        for session in sessions:
            session.drop()
        test.within(1.0, lambda: postern.open("ten") == 0, f"HAProxy {version}: 0 afterwards")


def body(test):
    ports = PORTS.values()
    _, postern = site(test, services(), classes(), ports)
    for way in ("policy", "milter", "both"):
        fills(test, postern, ("::1", PORTS[way]), "documentation6", LIMIT, clients=SIX)
        by_xclient(test, postern, way)
    for header, version in ((proxy_v1, "v1"), (proxy_v2, "v2")):
        by_proxy(test, postern, header, version, "both", 1.0)
    # Policy alone: until smtpd has gone, max_idle=1s of conf/ later.
    by_proxy(test, postern, proxy_v2, "v2", "policy", 2.0)
    by_haproxy(test, postern)


main(body, addresses=SIX + [f"10.0.0.{number}" for number in range(1, LIMIT + 3)], seconds=60)
