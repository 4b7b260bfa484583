#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""posternctl postfix-lanes reads real Postfix sites of many shapes."""
import json
import os

from lib.postern import Postern
from lib.postfix import MASTER, Postfix
from lib.testing import SOURCE, main

SIMPLE = """
mydestination = $myhostname, localhost, .below.example, !not.example
relay_domains = relayed.example
transport_maps =
"""


def mta(test, postfix):
    return (f'mta = ( {{ name = "out"; kind = "postfix"; config_directory = "{postfix.etc}";\n'
            f'  log = "{postfix.log}"; syslog_name = "postfix-{postfix.name}"; '
            f'site = "{test.directory}/site/out"; }} );\n')


class Sites:
    def __init__(self, test):
        self.test = test
        self.postfix = Postfix(test, [])
        self.postern = Postern(test, edit=lambda text: text + mta(test, self.postfix))
        self.file = test.directory / "site/out"

    def shape(self, main_cf, master=MASTER):
        """Another site: settings of main.cf that take the place of the usual ones."""
        seen = {}                       # the last one counts
        for line in main_cf.splitlines():
            if line.startswith(" "):
                seen[name] += "\n" + line
            elif "=" in line:
                name = line.split("=")[0].strip()
                seen[name] = line
        self.postfix.set("\n".join(seen.values()) + "\n")
        (self.postfix.etc / "master.cf").write_text(master)
        # Postfix reads a file that was changed a moment ago again until it was not.
        for name in ("main.cf", "master.cf"):
            os.utime(self.postfix.etc / name, (1e9, 1e9))

    def read(self, main_cf, master=MASTER):
        self.shape(main_cf, master)
        done = self.postern.command("postfix-lanes", "out")
        found = json.loads(done.stdout)
        found["exit"] = done.returncode
        found["masks"] = {row["mask"]: row["setting"] for row in found["excluded"]}
        return found

    def table(self, name, text, kind="hash"):
        path = self.postfix.etc / name
        path.write_text(text)
        if kind in ("hash", "btree", "lmdb", "cdb"):
            self.test.run(["postmap", "-c", self.postfix.etc, f"{kind}:{path}"])
        return f"{kind}:{path}"


def simple(test, sites):
    found = sites.read(SIMPLE)
    test.equal((found["exit"], found["refused"]), (0, None), "a simple site has hints")
    test.equal(found["clone_program"], "postfix-A/smtp", "the clone's name in the log")
    test.equal(found["masks"], {"mx.example.com": "mydestination", "localhost": "mydestination",
                                "*.below.example": "mydestination",
                                "*.relayed.example": "relay_domains"},
               "its domain classes get none; entries below only where Postfix takes them so")
    text = sites.file.read_text()
    test.check(text.startswith("postern-site 1\n") and "\nmta out\n" in text and
               "\nexclude *.relayed.example relay_domains\n" in text and
               "only-listed" not in text, "the site's file tells the same")
    test.equal(sites.file.stat().st_mode & 0o7777, 0o644, "anybody may read it")
    done = sites.postern.command("check")
    test.equal((done.returncode, [row for row in json.loads(done.stdout)
                                  if "site" in row["text"]]), (0, []),
               "the configuration reads the file without a note")


def tables(test, sites):
    routes = sites.table("transport", "one.example smtp:[192.0.2.1]\n.two.example error:no\n"
                         "user@three.example discard:\nKäse.example discard:\n")
    alias = sites.table("virtual", "four.example anything\na@five.example b@six.example\n")
    listed = sites.table("list", "seven.example\n# eight.example\nnine.example\n", "file")
    found = sites.read(
        SIMPLE + f"transport_maps = {routes}, inline:{{ ten.example=discard: }}\n"
        f"virtual_alias_maps = {alias}\nvirtual_mailbox_domains = {listed[5:]}\n")
    test.equal({row["mask"]: row["next_hop"] for row in found["routed"]},
               {"one.example": "[192.0.2.1]"}, "an entry for the clone names a next hop")
    test.check("\nroute one.example [192.0.2.1]\n" in sites.file.read_text(),
               "the site's file tells it")
    for domain, setting in (("*.two.example", "transport_maps"),
                            ("three.example", "transport_maps"),
                            ("ten.example", "transport_maps"),
                            ("four.example", "virtual_alias_domains"),
                            ("seven.example", "virtual_mailbox_domains"),
                            ("nine.example", "virtual_mailbox_domains")):
        test.equal(found["masks"].get(domain), setting, f"{domain} is excluded by {setting}")
    for domain in ("five.example", "six.example", "eight.example"):
        test.check(domain not in found["masks"], f"{domain} is not")
    test.equal((found["exit"], found["refused"], found["only_listed"]), (0, None, False),
               "tables with files leave room for all other destinations")
    for kind in ("texthash", "btree", "lmdb", "cdb"):
        if kind != "texthash" and kind not in test.run(["postconf", "-c", sites.postfix.etc,
                                                        "-m"]).split():
            test.say(f"no {kind} here")
            continue
        table = sites.table(f"of-{kind}", "a.example discard:\n", kind)
        found = sites.read(SIMPLE + f"transport_maps = proxy:{table}\n")
        if found["only_listed"]:
            test.equal(found["refused"], None, f"{kind} is asked")
        else:
            test.equal(found["masks"].get("a.example"), "transport_maps", f"{kind} is listed")


def asked(test, sites):
    """A table that can only be asked; no destination is known here."""
    pattern = sites.table("pattern", "/^a\\.example$/ yes\n", "regexp")
    found = sites.read(SIMPLE + f"virtual_alias_domains = {pattern}\n")
    test.equal((found["exit"], found["only_listed"], found["listed"]), (0, True, 0),
               "patterns of a domain class are asked about what is known: nothing here")
    test.check("\nonly-listed\n" in sites.file.read_text(), "the site's file says so")
    for name in ("mydestination", "virtual_alias_domains", "virtual_mailbox_domains"):
        short = sites.table(f"short-{name}", "/^[^.]+$/ yes\n", "regexp")
        found = sites.read(SIMPLE + f"{name} = {short}\n")
        test.equal((found["exit"], found["refused"], found["only_listed"]), (0, None, True),
                   f"a pattern of {name} that matches \"*\" is no route for all mail")


def refused(test, sites):
    everything = sites.table("everything", "* smtp:[192.0.2.1]\n")
    pattern = sites.table("pattern2", "/./ discard:\n", "regexp")
    no_retry = "".join(line for line in MASTER.splitlines(True) if not line.startswith("retry"))
    for more, word, master in (
            ("relayhost = [192.0.2.1], [192.0.2.2]", "relayhost", MASTER),
            ("default_transport = relay", "default-transport", MASTER),
            ("default_transport = smtp:[192.0.2.1]", "default-transport", MASTER),
            ("sender_dependent_relayhost_maps = inline:{ a@b=c }", "sender-dependent", MASTER),
            ("sender_dependent_default_transport_maps = inline:{ a@b=c }", "sender-dependent",
             MASTER),
            (f"transport_maps = {everything}", "all-mail", MASTER),
            (f"transport_maps = {pattern}", "table", MASTER),
            ("transport_maps = static:discard:", "table", MASTER),
            ("virtual_alias_domains = static:yes", "table", MASTER),
            ("transport_maps = hash:/nonexistent/table", "table", MASTER),
            ("virtual_mailbox_domains = /nonexistent/list", "file", MASTER),
            ("default_transport = smtp", "no-service", no_retry),
            ("default_transport = smtp", "relayhost", MASTER.replace(
                "trivial-rewrite\n",
                "trivial-rewrite\n  -o { relayhost = [192.0.2.9] [192.0.2.8] }\n"))):
        found = sites.read(SIMPLE + more + "\n", master)
        test.equal((found["exit"], found["refused"], found["lines"]), (69, word, None),
                   f"{more.splitlines()[0][:60]}: refused ({found['text']})")
        test.check(f"\nrefuse {word} " in sites.file.read_text(), "and the file says so")


def routed(test, sites):
    """Next hops that the site names for the cloned transport."""
    routes = sites.table("routes", "a.example smtp:[mx.example]:587\n.b.example :mx.b.example\n"
                         "x.b.example smtp:[x.example]\nc.example smtp:\nd.example relay:[d]\n"
                         "e.example smtp:[e1], [e2]\nu@a2.example smtp:[u]\n")
    other = sites.table("routes2", "a.example smtp:[mx.example]:587\nx.b.example smtp:[y]\n")
    found = sites.read(SIMPLE + f"transport_maps = {routes}, {other}\n"
                       "relayhost = [Smart.example]:587\n")
    test.equal((found["exit"], found["relayhost"]), (0, "[Smart.example]:587"),
               "relayhost is a next hop, spelled as it is")
    told = [sites.postern.command("postfix-lanes", json_output=False).stderr,
            sites.postern.command("check").stdout]
    test.check(all("[Smart.example]:587 uses port 587" in text and
                   "set ports = [ 25, 587 ]; in the mta" in text for text in told),
               f"whose port has to be one of the mta's: {told}")
    test.equal([(row["mask"], row["next_hop"]) for row in found["routed"]],
               [("x.b.example", "[x.example]"), ("a.example", "[mx.example]:587"),
                ("*.b.example", "mx.b.example")], "the ones that count more come first")
    for domain in ("b.example", "c.example", "d.example", "e.example", "a2.example"):
        test.equal(found["masks"].get(domain), "transport_maps", f"{domain} has no hints")
    test.equal(found["masks"].get("x.b.example"), "transport_maps",
               "nor one with two different next hops")
    found = sites.read(SIMPLE + "parent_domain_matches_subdomains = transport_maps\n"
                       "transport_maps = inline:{ f.example=smtp:[f] }\n")
    test.equal([(row["mask"], row["next_hop"]) for row in found["routed"]],
               [("f.example", "[f]"), ("*.f.example", "[f]")],
               "an entry for what is below, too, is one for the domain")
    test.check("f.example" not in found["masks"], "it has hints itself")
    found = sites.read(SIMPLE, MASTER.replace(
        "trivial-rewrite\n", "trivial-rewrite\n  -o relayhost=[192.0.2.9]\n"))
    test.equal(found["relayhost"], "[192.0.2.9]", "as the resolver has it")
    done = sites.postern.command("check")
    test.equal((done.returncode, [row for row in json.loads(done.stdout)
                                  if "site" in row["text"]]), (0, []),
               "the configuration reads the file without a note")


def cloned(test, sites):
    """Lanes have all that the original has."""
    master = MASTER.replace("smtp      unix - - n - - smtp", "smtp      unix - - n - 70 smtp -v\n"
                            "  -o smtp_bind_address=192.0.2.1 -o { smtp_helo_name = a b }\n"
                            "  -o syslog_name=other -o smtp_connection_cache_on_demand=yes")
    settings = SIMPLE + ("smtp_destination_recipient_limit = 30\nsmtp_delivery_slot_cost = 3\n"
                         "smtp_destination_concurrency_limit = 40\n"
                         "smtp_destination_concurrency_failed_cohort_limit = $my_limit\n"
                         "my_limit = 7\nsmtp_helo_timeout = 9s\n")
    found = sites.read(settings, master)
    lines = found["lines"].splitlines()
    test.equal((found["exit"], found["no_lanes"]), (0, None), "lanes of a site of its own")
    for width in (1, 2, 3, 5, 10, 20):
        at = lines.index(f"lane{width} unix - - n - 70 smtp -v")
        test.equal(lines[at + 1:at + 5], [
            "  -o smtp_bind_address=192.0.2.1", "  -o { smtp_helo_name = a b }",
            f"  -o syslog_name=postfix-A/lane{width}",
            "  -o smtp_connection_cache_destinations=static:all"],
                   f"lane{width}: all options, then its own")
        cohorts = "0" if width == 1 else "$my_limit"
        for name, value in (("initial_destination_concurrency", width),
                            ("destination_concurrency_limit", width),
                            ("destination_concurrency_positive_feedback", 0),
                            ("destination_concurrency_negative_feedback", 0),
                            ("destination_concurrency_failed_cohort_limit", cohorts),
                            ("destination_recipient_limit", 30), ("delivery_slot_cost", 3)):
            test.check(f"  -o lane{width}_{name}={value}" in lines, f"lane{width}_{name}={value}")
    at = lines.index("postern-probe unix - - n - 20 smtp -v")
    test.equal(lines[at + 1:at + 5], [
        "  -o smtp_bind_address=192.0.2.1", "  -o { smtp_helo_name = a b }",
        "  -o syslog_name=postfix-A/probe", "  -o smtp_connection_cache_on_demand=no"],
               "the lane of probes: all options, fewer processes, and no idle connections")
    test.check("  -o postern-probe_destination_concurrency_limit=2" in lines and
               "  -o postern-probe_destination_concurrency_failed_cohort_limit=$my_limit" in lines
               and "  -o postern-probe-relay_initial_destination_concurrency=2" in lines,
               "their concurrency")
    test.check("helo_timeout" not in found["lines"], "settings of the program are for all")
    test.check("\nclone-limit 40\n" in sites.file.read_text(), "its own limit is noted")
    found = sites.read(SIMPLE + "smtp_destination_recipient_limit = 1\n")
    test.check("recipient_limit" in found["no_lanes"] and "lane1" not in found["lines"],
               "a queue for each recipient has no lanes")


def lanes_of(found):
    return {row["attached"] for row in found["lanes"]}, {row["used"] for row in found["lanes"]}


def lanes_attached(test, sites):
    """Only what Postfix serves is used."""
    lines = sites.read(SIMPLE)["lines"]
    kept = "".join(line for line in MASTER.splitlines(True) if not line.startswith("qmgr"))
    found = sites.read(SIMPLE, kept + lines)
    test.equal((found["attached"], lanes_of(found)),
               ("yes", ({"waits for a reload"}, {False})), "Postfix has not read them yet")
    test.check("\nlane " not in sites.file.read_text(), "none is noted")
    sites.postfix.start()
    found = sites.read(SIMPLE, kept + lines)
    test.equal(lanes_of(found), ({"yes"}, {True}), "it has: they are used")
    text = sites.file.read_text()
    test.check(all(f"\nlane {width}\n" in text for width in (1, 2, 3, 5, 10, 20)),
               "and noted")
    test.equal(found["lines"], lines, "read again, the lines are the same")
    found = sites.read(SIMPLE, kept + lines.replace("lane5_initial_destination_concurrency=5",
                                                    "lane5_initial_destination_concurrency=6"))
    test.equal([row["lane"] for row in found["lanes"] if row["attached"] == "outdated"],
               ["lane5"], "one that was changed is not used")
    twin = next(line for line in lines.splitlines(True) if line.startswith("lane5 "))
    found = sites.read(SIMPLE, kept + lines + twin)
    test.equal([row["lane"] for row in found["lanes"] if row["attached"] == "twice"], ["lane5"],
               "one that stands there twice is not used")
    people = sites.postern.command("postfix-lanes", json_output=False)
    test.check("lane5 is not used: master.cf has it more than once" in people.stderr,
               "and people are told so")
    sites.read(SIMPLE, MASTER + lines)
    people = sites.postern.command("postfix-lanes", json_output=False)
    test.check("master.cf has qmgr 2 times" in people.stderr,
               "lines that were added and did not take qmgr's place are told")
    found = sites.read(SIMPLE + "smtp_destination_recipient_limit = 9\n", kept + lines)
    test.equal(lanes_of(found), ({"outdated"}, {False}), "nor any, when the original has changed")
    people = sites.postern.command("postfix-lanes", json_output=False)
    test.check("lane5 is not used: " in people.stderr, "and people are told")


def probes(test, sites):
    """Transports of probes that are the site's own.  Behind lanes_attached: Postfix runs."""
    lines = sites.read(SIMPLE)["lines"]
    kept = "".join(line for line in MASTER.splitlines(True) if not line.startswith("qmgr"))
    found = sites.read(SIMPLE, kept + lines)
    test.equal((found["probes"], found["no_probes"]), ("yes", None), "probes have lanes")
    test.check("\nprobes 2\n" in sites.file.read_text(), "the site's file says so")
    older = "".join(line for line in lines.splitlines(True) if "address_verify_default" not in line)
    for text, state in ((older, "no"), (lines.replace(" 20 smtp", " 30 smtp"), "outdated"),
                        (lines.replace(":probe", ":other"), "outdated")):
        found = sites.read(SIMPLE, kept + text)
        test.equal((found["probes"], "\nprobes" in sites.file.read_text(), lanes_of(found)),
                   (state, False, ({"yes"}, {True})), f"{state}: they have none, mail has")
    notes = [row["text"] for row in json.loads(sites.postern.command("check").stdout)]
    test.check(any("probes have no lane in master.cf" in text for text in notes), "check says so")
    people = sites.postern.command("postfix-lanes", json_output=False)
    test.check("address verification probes have no lane" in people.stderr, "and postfix-lanes")
    found = sites.read(SIMPLE + "address_verify_relay_transport = smtp:[192.0.2.7]:26\n")
    test.check("  -o address_verify_relay_transport=postern-probe:[192.0.2.7]:26"
               in found["lines"].splitlines() and "postern-probe-relay" not in found["lines"],
               "one lane for one transport, with the site's next hop")
    found = sites.read(SIMPLE + "address_verify_default_transport = lmtp:unix:x\n")
    test.equal((found["probes"], found["exit"]), (None, 0), "probes by LMTP have no lane")
    test.check("postern-probe" not in found["lines"] and "not smtp" in found["no_probes"],
               f"it says why: {found['no_probes']}")


def shipped(test, sites):
    """conf/ has what posternctl writes for a site as Debian's."""
    text = [line.split() for line in
            (SOURCE / "conf/postfix-hints.master.cf").read_text().splitlines()
            if line and not line.startswith("#")]
    found = sites.read(SIMPLE, MASTER.replace("- - n - - trivial", "- - y - - trivial").replace(
        "smtp      unix - - n", "smtp      unix - - y").replace(
            "relay     unix - - n", "relay     unix - - y"))
    written = [line.replace("=  }", "= }").replace("postfix-A/", "postfix/").replace(
        f"{sites.test.directory}/postern/shared/state.hints out {sites.file}",
        "/run/postern/shared/state.hints postfix /var/lib/postern/postfix.site")
        .split() for line in found["lines"].splitlines() if not line.startswith("#")]
    test.equal(written, text, "word for word")


def attached(test, sites):
    """The lines go into master.cf, and Postfix takes them."""
    routes = sites.table("transport", "one.example smtp:[192.0.2.1]\n")
    settings = SIMPLE + f"transport_maps =\n  {routes}\n"
    master = MASTER.replace("trivial-rewrite\n", "trivial-rewrite\n  -o syslog_name=odd/rw\n") \
        .replace("unix n - n 300 1 qmgr", "unix n - n 300 1 qmgr -v\n  -o { a_b = c d }")
    found = sites.read(settings, master)
    test.equal((found["exit"], found["attached"]), (0, "no"), "not attached yet")
    lines = found["lines"]
    for line in (f"  -o {{ transport_maps = {routes}, socketmap:unix:private/postern-hint:transport }}",
                 f"  -o {{ address_verify_transport_maps = {routes}, "
                 "socketmap:unix:private/postern-hint:probe }",
                 "  -o syslog_name=odd/rw", "qmgr unix n - n 300 1 qmgr -v", "  -o { a_b = c d }",
                 "rewrite-postern unix - - n - - trivial-rewrite"):
        test.check(line in lines.splitlines(), f"line: {line}")
    kept = "".join(line for line in master.splitlines(True)
                   if not line.startswith("qmgr") and "a_b" not in line)
    found = sites.read(settings, kept + lines)
    test.equal((found["exit"], found["attached"], found["lines"]), (0, "yes", lines),
               "attached; read again, the lines are the same")
    test.run(["postfix", "-c", sites.postfix.etc, "check"])
    found = sites.read(SIMPLE + "transport_maps = inline:{ b.example=discard: }\n", kept + lines)
    test.equal(found["attached"], "outdated", "another main.cf: the lines are outdated")
    test.check("inline:{ b.example=discard: }, socketmap:" in found["lines"], "braces are kept")
    people = sites.postern.command("postfix-lanes", json_output=False)
    test.check(people.stdout.startswith("# Postern's routing hints for mta out") and
               "lines from an earlier run" in people.stderr, "people get the lines alone, notes beside them")


def body(test):
    sites = Sites(test)
    simple(test, sites)
    tables(test, sites)
    asked(test, sites)
    refused(test, sites)
    routed(test, sites)
    cloned(test, sites)
    attached(test, sites)
    lanes_attached(test, sites)
    probes(test, sites)
    shipped(test, sites)
    done = sites.postern.command("postfix-lanes", "nobody")
    test.equal(done.returncode, 78, "an mta that is not there is told")
    sites.file.unlink()
    sites.file.parent.rmdir()
    sites.file.parent.symlink_to("nowhere/nowhere")
    done = sites.postern.command("postfix-lanes", "out")
    test.equal(done.returncode, 73, "a site file that cannot be written is no daemon away")


main(body)
