#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""A person's walk: from one line of a log, or one reply, to the reason and the command that
undoes it.  Mail of a real Postfix is held as its destination is suspended; posternctl why
tells of the id in the log line, and the command that it prints, run as it stands, has the
mail delivered.  The same for a session that was refused with 421."""
import json
import os
import re
import subprocess
from datetime import datetime

from lib.limiter import Limiter
from lib.outbound import REMOTE, Outbound
from lib.postern import build_directory, one_class
from lib.postfix import conf_service
from lib.smtp import Session
from lib.testing import main

PORT, DOOR = 2025, 2026
HOSTS = {"192.0.2.11": "d.example"}
ID = r"[0-9a-hjkmnp-tv-z]{12}"
WINDOW = 'window = { suspend = "10m";\n  destination_concurrency_failed_cohort_limit = "1"; };\n'


def person(site, command):
    """What somebody types into a shell, and reads."""
    done = subprocess.run(["sh", "-c", command], text=True, capture_output=True, timeout=30,
                          env={**os.environ, "PATH": f"{build_directory()}:{os.environ['PATH']}"})
    return done.returncode, done.stdout, done.stderr


def why(test, site, number, what):
    """The lines of the answer as people read them: name -> value, and the rows of causes."""
    code, out, err = person(site, f"posternctl -c {site.postern.file} why {number}")
    test.equal((code, err), (0, ""), f"{what}: why answers")
    for line in out.splitlines()[:60]:
        test.say(line)
    head, _, rows = out.partition("\nbecause:\n")
    told = dict(line.strip().split(None, 1) for line in head.splitlines() if line.strip())
    return told, rows


def line_of(site, needle):
    """The number of the one line of the configuration that has it."""
    found = [number for number, line in enumerate(site.postern.file.read_text().splitlines(), 1)
             if needle in line]
    assert len(found) == 1, (needle, found)
    return f"{site.postern.file}:{found[0]}"


def log_lines(site, words):
    return [line for line in site.postfix.log_text().splitlines() if words in line]


def suspend(test, site, sink):
    """Suspended by what the sink really says; one more message then is held."""
    site.postfix.send(PORT, "d.example")
    test.wait_for(lambda: site.explain("d.example") == ("lane", "none"), "it was delivered to")
    sink.limit = 0

    def is_down():
        """More mail: where others were accepted a moment ago a failure counts for little, and
        those of one burst count once.  Few: why shows 20 of them."""
        site.postfix.send(PORT, "d.example", 2, user="fails")
        return test.poll(lambda: " is suspended" in site.ask("u@d.example"), 1)
    test.wait_for(is_down, "it is suspended", limit=30)
    site.postfix.send(PORT, "d.example", 1, user="held")
    test.wait_for(lambda: any("to=<held" in line for line in
                              log_lines(site, "status=deferred (Postern: ")), "and mail is held")
    return next(line for line in log_lines(site, "status=deferred (Postern: ")
                if "to=<held" in line)


def from_the_log_line(test, site, sink):
    line = suspend(test, site, sink)
    went = sink.count("d.example")
    test.say(line)
    number = re.search(rf"\(id=({ID})\)", line).group(1)
    test.check(f"event=suspended role=feed.0 id={number} destination=d.example"
               in site.postern.log_text() or f"id={number} destination=d.example"
               in site.postern.log_text(), "Postern's own line has the same id")
    test.equal(site.postern.ask("explain", "destination", "d.example")["why"],
               f"posternctl why {number}", "explain says what to type")
    told, rows = why(test, site, number, "the mail log line alone")
    test.check("d.example" in told["what"] and told["kind"] == "suspended",
               "it is a suspension of this destination")
    test.equal(told["place"], line_of(site, "window = {"), "the rule is named, with its line")
    ends = [datetime.fromisoformat(text[:19]) for text in
            (told["until"], re.search(r"until (\S{19})Z", line).group(1))]
    test.check(abs((ends[0] - ends[1]).total_seconds()) <= 2,
               f"until when, as in the log line: {told['until']}")
    causes = [row for row in rows.splitlines() if "failure" in row]
    refused = {queue_id for queue_id in re.findall(
        r"postfix-A/\S*smtp\[\d+\]: ([0-9A-F]+): to=<\d*fails", site.postfix.log_text())}
    test.check(causes and all("421 4.7.0 sink.example too many connections" in row
                              and re.search(r"\d\d:\d\d:\d\d\.\d{3}Z", row)
                              and "192.0.2.11" in row for row in causes),
               f"the {len(causes)} replies that led to it, with times and relays")
    test.check(all(any(queue_id in row for queue_id in refused) for row in causes),
               "and the queue ids of the mail log")
    undo = told["undo"]
    test.equal(undo, f"posternctl -c {site.postern.file} resume d.example",
               "the command that undoes it")
    later = site.postern.ask("hold", "d.example")["id"]
    over, _ = why(test, site, number, "when somebody holds it besides")
    test.check(over["in_force"] == "false" and f"posternctl why {later}" in over["undo_note"],
               "what stops the mail now is named")
    sink.limit = None
    test.equal(sink.count("d.example"), went, "nothing went meanwhile")
    test.equal(person(site, undo)[0], 0, "run exactly as it was printed")
    test.within(15, lambda: any(name.startswith("held") for name, _ in sink.delivered),
                "the mail is delivered")
    return number


def afterwards(test, site, number):
    """It is over, and can be told of when the ring, the state and the daemon are gone."""
    told, _ = why(test, site, number, "when it is over")
    test.equal(told["in_force"], "false", "it is no longer active")
    test.check("undo" not in told and "no longer active" in told["undo_note"],
               "and nothing is to be undone")
    hand = re.search(rf"event=by-hand role=\S+ id=({ID}) command=resume name=d.example",
                     site.postern.log_text())
    test.check(hand, "what was done by hand has an id, too")
    own, _ = why(test, site, hand.group(1), "by hand")
    test.check("resumed d.example" in own["what"] and (own["uid"], own["user"]) == ("0", "root"),
               "who resumed it")
    listed = site.postern.ask("why", "d.example")
    test.check({number, hand.group(1)} <= {row["id"] for row in listed},
               "both are among the latest of the destination")
    return hand.group(1)


def refused(test, site):
    """The id of a 421 is in the reply."""
    inside = [Session(("127.0.0.1", DOOR), "127.0.7.1") for _ in range(2)]
    late = Session(("127.0.0.1", DOOR), "127.0.7.9")
    test.equal(([one.code for one in inside], late.code), ([220] * 2, 421), "one too many")
    test.say(f"421 {late.text}")
    number = re.search(rf"\(id=({ID})\)", late.text).group(1)
    told, rows = why(test, site, number, "the reply alone")
    test.equal((told["client"], told["class"], told["count"], told["limit"], told["reason"]),
               ("127.0.7.9", "door", "2", "2", "class-inbound"),
               "who, the class, what was counted, the limit")
    test.equal((told["place"], told["limit_place"]),
               (line_of(site, '"127.0.7.0/24"'), line_of(site, "hold_at = 2;")),
               "the rule and the limit, with their lines")
    test.check(f"refuse_at of class door in {told['limit_place']}" in told["undo_before"],
               f"what is to be changed: {told['undo_before']}")
    text = site.postern.file.read_text()
    site.postern.file.write_text(text.replace("refuse_at = 2;", "refuse_at = 3;").replace(
        "hold_at = 2;", "hold_at = 3;"))
    code, out, err = person(site, told["undo"])
    test.equal((code, err), (0, ""), "the command as it was printed")
    test.wait_for(lambda: Session(("127.0.0.1", DOOR), "127.0.7.9").code == 220,
                  "the next one is let in")
    for one in inside:
        one.quit()
    return number


def unknown(test, site):
    for word, code, words in (("00000000001h", 68, "one of them may be wrong"),
                              ("0000000000ww", 68, "unknown here"),
                              ("nobody.example", 68, "no recent decision matches")):
        found, out, err = person(site, f"posternctl -c {site.postern.file} why {word}")
        test.check(found == code and words in err, f"why {word}: {err.strip()}")
        test.equal(out, "", "and not a word on the standard output")
    test.equal(person(site, f"posternctl -c {site.postern.file} --json why nobody.example")[1],
               "[]\n", "for programs an empty list")


def outlives_all(test, site, numbers):
    place = site.postern.journal / "decisions"
    test.wait_for(lambda: all(number in site.postern.command(
        "journal", "dump", place, json_output=False).stdout for number in numbers),
        "the journal has them")
    site.postern.kill()
    for suffix in ("", ".sessions"):
        (site.postern.shared / f"state{suffix}").unlink(missing_ok=True)
    code, out, err = person(site, f"posternctl -c {site.postern.file} --json why {numbers[0]}")
    told = json.loads(out)
    test.equal((code, told["source"], told["kind"]), (69, "journal", "suspended"),
               "without a daemon and its state: why answers from the journal")
    site.postern.start()
    for number in numbers:
        told = site.postern.ask("why", number)
        test.equal((told["id"], told["source"]), (number, "journal"),
                   "and when the daemon is back, with a new state")
    failures = [row for row in site.postern.ask("why", numbers[0])["because"]
                if row["kind"] == "failure"]
    test.check(failures and "421" in failures[0]["text"], "its causes are there, too")
    known = [row["id"] for row in site.postern.ask("why", "d.example")]
    fresh = site.postern.ask("hold", "other.example")["id"]
    again = [row["id"] for row in site.postern.ask("why", "d.example")]
    test.equal(again, known, "why NAME asks the journal also when the state has something new")
    test.check(len(again) == len(set(again)) > 1 and set(again) & set(numbers),
               f"{len(again)} decisions about the destination, each once")
    latest = site.postern.ask("why")
    test.equal(([row["time"] for row in latest], latest[-1]["id"]),
               (sorted(row["time"] for row in latest), fresh), "state and journal by time, in one list")
    test.check(fresh > max(numbers), "no id is given twice")
    test.equal(site.postern.ask("why", fresh)["undo"],
               f"posternctl -c {site.postern.file} resume other.example", "and new ones are found")


def body(test):
    sink = Limiter(test, ["192.0.2.11"], REMOTE)
    site = Outbound(test, PORT, [
        '  { name = "door"; match = [\n    "127.0.7.0/24" ];\n'
        '    hold_at = 2; refuse_at = 2; }', one_class("all", 1000)],
        services=[conf_service("postfix-policy.master.cf", DOOR)], settings=WINDOW)
    number = from_the_log_line(test, site, sink)
    hand = afterwards(test, site, number)
    door = refused(test, site)
    unknown(test, site)
    outlives_all(test, site, [number, hand, door])


main(body, hosts=HOSTS, addresses=["192.0.2.11"], seconds=100)
