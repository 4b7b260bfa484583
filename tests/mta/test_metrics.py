#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""Metrics, health and the API by HTTP, with real clients of a real Postfix: true numbers,
all documented, nothing that slow or foreign clients could do with it, and no service that
depends on it."""
import json
import os
import re
import shutil
import signal
import socket
import subprocess

from lib import web
from lib.postern import one_class
from lib.postfix import conf_service
from lib.scenario import sources
from lib.site import site
from lib.smtp import admitted, open_sessions
from lib.testing import SOURCE, main

PORT, LIMIT, OTHER = 2025, 5, 9472


def apart(postern):
    """Counters of which posternctl --json tells another number."""
    moving = {"witness_dumps", "witness_lookups", "witness_events", "journal_records",
              "journal_syncs"}
    got = web.metrics()
    return {name: (got[f"postern_{name}_total"], value)
            for name, value in postern.status()["counters"].items()
            if name not in moving and got[f"postern_{name}_total"] != value}


def numbers(test, postern):
    """Those of posternctl --json."""
    got = web.metrics()
    for name, row in postern.classes().items():
        seen = (got["postern_class_open_sessions", "class", name, "direction", "inbound"],
                got["postern_class_open_sessions", "class", name, "direction", "outbound"],
                got["postern_class_peak_sessions", "class", name],
                got["postern_class_admitted_total", "class", name],
                got["postern_class_refused_total", "class", name],
                got["postern_class_sessions_limit", "class", name],
                got["postern_class_inbound_limit", "class", name])
        test.equal(seen, tuple(row[key] for key in (
            "open_inbound", "open_outbound", "peak", "admitted", "refused", "hold_at",
            "refuse_at")), f"class {name} has the same numbers")
    # the refused ones end in between
    test.wait_for(lambda: apart(postern) == {}, "counters have the same numbers")
    test.equal({role["role"] for role in postern.status()["roles"]},
               {labels[0][1] for (name, labels), up in got.samples.items()
                if name == "postern_role_up" and up == 1}, "all roles are up")
    test.equal(web.api("classes"), postern.ask("classes"), "/api/classes is posternctl classes")
    return got


def histogram(test, got):
    buckets = [(float("inf") if le == "+Inf" else float(le), value)
               for (name, labels), value in got.samples.items()
               if name == "postern_decision_duration_seconds_bucket" and
               ("kind", "policy") in labels for label, le in labels if label == "le"]
    counts = [value for _, value in sorted(buckets)]
    total = got["postern_decision_duration_seconds_count", "kind", "policy"]
    spent = got["postern_decision_duration_seconds_sum", "kind", "policy"]
    test.check(counts == sorted(counts) and counts[-1] == total >= LIMIT and spent > 0,
               f"{total:.0f} policy requests took {1e6 * spent / total:.0f} us each")


def documented(test, got):
    page = subprocess.run(["sh", SOURCE / "src/defs/man-page",
                           SOURCE / "conf/postern-metrics.5.in"], check=True, text=True,
                          capture_output=True, env={**os.environ, "srcdir": str(SOURCE)}).stdout
    tags = set(re.findall(r"^\.TP\n\.B (postern_\w+)$", page, re.M))
    test.equal(tags, set(got.types), f"{len(tags)} metrics are documented, and exist")
    test.equal(got.helps, set(got.types), "each has a HELP and a TYPE")
    board = (SOURCE / "contrib/grafana-postern.json").read_text()
    json.loads(board)
    used = {name if name in got.types else re.sub("_(bucket|sum|count)$", "", name)
            for name in re.findall(r"\bpostern_\w+", board)}
    test.equal(used - set(got.types), set(), f"{len(used)} metrics of the dashboard exist")
    promtool = shutil.which("promtool")
    if promtool is None:
        test.say("no promtool (Debian package prometheus): the format is not checked by it")
        return
    done = subprocess.run([promtool, "check", "metrics"], input=web.get("/metrics").body,
                          capture_output=True)
    test.equal((done.returncode, done.stdout + done.stderr), (0, b""),
               "promtool check metrics has nothing to say")


def requests(test):
    healthy = web.get("/healthz")
    test.check((healthy.code, healthy.text()[:3]) == (200, "ok\n"), "/healthz is 200")
    test.equal(web.get("/api/status", host="rebound.example").code, 421,
               "a name that leads here is not served")
    test.equal(web.get("/api/status", host="localhost:1234").code, 200, "localhost is")
    answer = web.get("/", method="POST", body=b"x")
    test.equal((answer.code, answer.headers.get("Allow")), (405, "GET, HEAD"), "POST is 405")
    head, whole = web.get("/page.js", method="HEAD"), web.get("/page.js")
    test.equal((head.body, head.headers["Content-Length"]), (b"", str(len(whole.body))),
               "HEAD has no body")
    test.check("default-src 'none'" in whole.headers["Content-Security-Policy"],
               "nothing but this page's own is allowed to it")


def slow_clients(test):
    slow = []
    for _ in range(300):
        one = socket.create_connection(("127.0.0.1", web.PORT))
        one.sendall(b"GET /metrics HTTP/1.1\r\nHo")
        slow.append(one)
    test.within(1.0, lambda: web.get("/healthz").code == 200,
                "beside 300 slow clients another one is served")
    for one in slow:
        one.close()


def body(test):
    taken = socket.create_server(("127.0.0.1", OTHER))
    _, postern = site(test, [conf_service("postfix-policy.master.cf", PORT)],
                      [one_class("limited", LIMIT, [PORT])], [PORT],
                      edit=web.listening(f"inet:127.0.0.1:{web.PORT}",
                                         f"inet:127.0.0.1:{OTHER}"))
    test.check(f"127.0.0.1:{OTHER} is disabled" in postern.log_text(),
               "a port that is taken stops nothing, and the log says so")
    taken.close()
    sessions = open_sessions(("127.0.0.1", PORT), sources(LIMIT + 3))
    test.equal(len(admitted(sessions)), LIMIT, f"{LIMIT} are let in")
    got = numbers(test, postern)
    histogram(test, got)
    documented(test, got)
    requests(test)
    slow_clients(test)
    test.deaths_expected = True
    pid = postern.roles()["metrics.0"]
    os.kill(pid, signal.SIGKILL)
    test.wait_for(lambda: postern.roles().get("metrics.0", pid) != pid, "it comes back")
    test.within(5.0, lambda: web.metrics()["postern_role_deaths_total", "role",
                                           "metrics.0"] == 1, "its death is counted")
    test.equal(postern.open("limited"), LIMIT, "no session is lost by that")


main(body)
