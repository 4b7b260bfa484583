#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""contrib/prometheus-alerts.yml, by promtool: its rules are well-formed, each fires when it
should and not before, and the metrics that they name exist.  And the dashboard of Grafana: each
panel has a title and an explanation, and asks what Prometheus understands."""
import json
import re
import shutil
import subprocess
from pathlib import Path

from lib.testing import main

SOURCE = Path(__file__).resolve().parents[2]
RULES = SOURCE / "contrib/prometheus-alerts.yml"
# Per alert: the series that raise it, minute by minute, and its first minute.
RAISED = {
    "PosternDown": ({"postern_live": "1x4 0x20"}, 6),
    "PosternUnhealthy": ({"postern_healthy": "1x4 0x20", "postern_live": "1x30"}, 6),
    "PosternWorkerDies": ({'postern_role_deaths_total{role="policy.0"}': "0x4 0+2x20"}, 7),
    "PosternGateShut": ({"postern_gate_shut": "0x4 1x20"}, 7),
    "PosternClassRefuses": ({'postern_class_refused_total{class="c"}': "0x4 0+300x30"}, 12),
    "PosternDestinationStopped": ({'postern_destination_stopped{destination="d"}': "0x4 1x60"}, 35),
    "PosternLogBehind": ({'postern_mta_log_unread_bytes{mta="m"}': "0x4 2000000x20"}, 7),
    "PosternLogSilent": ({'postern_mta_log_age_seconds{mta="m"}': "0x4 7200x30"}, 15),
    "PosternSiteChanged": ({"postern_sites_changed": "0x4 1x30"}, 15),
    "PosternQueueAway": ({"postern_queue_driven": "1x4 0x20"}, 7),
    "PosternQueuePaused": ({'postern_queue_paused{mta="m"}': "0x4 1x20"}, 10),
    "PosternNodeAlone": ({"postern_cluster_joined": "1x4 0x20"}, 6),
    "PosternJournalNotWritable": ({'postern_journal_writable{directory="feed"}': "1x4 0x20"}, 6),
    "PosternSessionsFull": ({'postern_table_used{table="sessions"}': "10x4 99x30",
                             'postern_table_size{table="sessions"}': "100x40"}, 15),
    "PosternLoginHeld": ({"postern_accounts_held": "0x4 1x20"}, 5),
    "PosternLoginsEvicted": ({"postern_accounts_evicted_total": "0x4 0+5x20"}, 6)}


def dashboard(test, promtool):
    panels = json.loads((SOURCE / "contrib/grafana-postern.json").read_text())["panels"]
    rows = [panel["title"] for panel in panels if panel["type"] == "row"]
    test.check({"Cluster", "Managed queue of Sendmail", "Alerts", "Accounts"} <= set(rows),
               f"rows: {rows}")
    panels = [panel for panel in panels if panel["type"] != "row"]
    test.equal([panel["title"] for panel in panels if not panel.get("description")], [],
               f"each of the {len(panels)} panels is explained")
    titles = [panel["title"] for panel in panels]
    test.equal(len(set(titles)), len(titles), "no title stands there twice")
    rules = []
    for panel in panels:
        for target in panel["targets"]:
            asked = re.sub(r"\$__(rate_)?interval", "5m", target["expr"])
            rules.append({"record": f"panel:{panel['id']}:{target['refId']}",
                          "expr": re.sub(r"\$\w+", ".*", asked)})
    trial = test.directory / "board.yml"
    trial.write_text(json.dumps({"groups": [{"name": "board", "rules": rules}]}))
    done = subprocess.run([promtool, "check", "rules", trial], capture_output=True, text=True)
    test.check(done.returncode == 0, f"Prometheus understands all {len(rules)} of the dashboard"
               if done.returncode == 0 else done.stdout + done.stderr)


def firing(alert, minute, count):
    return {"expr": f'count(ALERTS{{alertname="{alert}",alertstate="firing"}}) or vector(0)',
            "eval_time": f"{minute}m", "exp_samples": [{"labels": "{}", "value": count}]}


def case(series, *expected):
    return {"interval": "1m", "promql_expr_test": list(expected),
            "input_series": [{"series": name, "values": values} for name, values in series.items()]}


def body(test):
    text = RULES.read_text()
    alerts = re.findall(r"- alert: (\w+)", text)
    test.equal(sorted(alerts), sorted(RAISED), "each alert is tried here")
    known = set(re.findall(r'"(postern_\w+)"', (SOURCE / "src/defs/metrics.def").read_text()))
    known |= {f"postern_{name}_total" for name in re.findall(
        r'^COUNTER\(\w+,\s*"(\w+)"', (SOURCE / "src/defs/counters.def").read_text(), re.M)}
    used = set(re.findall(r"\bpostern_\w+", " ".join(re.findall(r"expr: (.*)", text))))
    test.equal(used - known, set(), f"{len(used)} metrics of the rules exist")
    for command in re.findall(r'command: "(.*)"', text):
        test.check(re.match(r"(posternctl|postern-postfix-setup|journalctl|curl) ", command),
                   f"a command to go on: {command}")
    test.need("promtool")
    promtool = shutil.which("promtool")
    done = subprocess.run([promtool, "check", "rules", RULES], capture_output=True, text=True)
    test.equal((done.returncode, f"{len(alerts)} rules found" in done.stdout), (0, True),
               "promtool check rules")
    dashboard(test, promtool)
    cases = [case(series, firing(alert, minute - 1, 0), firing(alert, minute + 1, 1))
             for alert, (series, minute) in RAISED.items()]
    trial = test.directory / "trial.yml"        # JSON is YAML
    trial.write_text(json.dumps({"rule_files": [str(RULES)], "evaluation_interval": "1m",
                                 "tests": cases}))
    done = subprocess.run([promtool, "test", "rules", trial], capture_output=True, text=True)
    test.check(done.returncode == 0, f"each fires in its time: {done.stdout}{done.stderr}"
               if done.returncode else "each fires in its time, and not before")


main(body)
