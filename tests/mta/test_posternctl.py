#!/usr/bin/env python3
# SPDX-License-Identifier: ISC
"""posternctl from outside: every command as text and as JSON, the same names in
both, exit codes, a daemon that is away, stale or not ours, and hostile names."""
import json
import os
import re
import socket
import subprocess

from lib.postern import Postern, one_class
from lib.testing import main

LIMIT = 2
CLASS_NAMES = ["name", "open", "open_inbound", "open_outbound", "hold_at", "refuse_at",
               "admitted", "refused", "refusing", "observed"]
SESSION_NAMES = ["class", "direction", "client", "client_port", "port", "mta", "age", "proof"]
XLA = "L/etc/sendmail.la\nL*.insa-lyon.fr\t8\t3\nL*\t15\t16\n"
HOSTILE = b"a\x1b[2J\xff\xc3\xa9\"\\\n\x7f"


def controls(data):
    """Bytes that a terminal would obey, newline apart."""
    return [byte for byte in data if byte != 0x0a and not 0x20 <= byte <= 0x7e]


class Ctl:
    def __init__(self, test, postern):
        self.test, self.postern = test, postern

    def run(self, *words, **more):
        argv = [os.fsencode(str(self.postern.build / "posternctl")), b"-c",
                os.fsencode(str(self.postern.file))]
        argv += [word if isinstance(word, bytes) else str(word).encode() for word in words]
        return subprocess.run(argv, stdout=more.pop("stdout", subprocess.PIPE),
                              stderr=subprocess.PIPE, timeout=30, **more)

    def code(self, wanted, *words, **more):
        done = self.run(*words, **more)
        shown = " ".join(str(word) for word in words)
        self.test.equal(done.returncode, wanted, f"exit code {wanted} of {shown}")
        if done.returncode != wanted:
            self.test.say(done.stderr.decode(errors="replace").strip())
        self.test.equal(controls(done.stderr), [], f"no control bytes in stderr of {shown}")
        return done

    def without_configuration(self, *words):
        argv = [self.postern.build / "posternctl", *map(str, words)]
        return subprocess.run(argv, capture_output=True, text=True, timeout=30)

    def text(self, *words, code=0):
        done = self.code(code, *words)
        self.test.equal(controls(done.stdout), [], f"no control bytes in the text of {words}")
        return done.stdout.decode()

    def json(self, *words, code=0):
        return json.loads(self.code(code, "--json", *words).stdout)


def member_names(text):
    """Names of a text object: the first word of each line; headings without colon."""
    return [line.split()[0].rstrip(":") for line in text.splitlines() if line.strip()]


def ask(postern, client, port, name="unknown"):
    """A CONNECT on a policy connection of its own, which is kept open."""
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(10)
    connection.connect(str(postern.spool / "private/postern"))
    connection.sendall((f"request=smtpd_access_policy\nprotocol_state=CONNECT\n"
                        f"client_address={client}\nclient_name={name}\nclient_port={port}\n"
                        f"server_address=192.0.2.25\nserver_port=25\n\n").encode())
    answer = b""
    while not answer.endswith(b"\n\n"):
        answer += connection.recv(4096)
    return connection, answer.decode()


def owner_proof(text):
    return re.sub(r'policy = \[ ("[^"]*") \];',
                  r'policy = ( { address = \1; session_proof = "owner"; } );', text, count=1)


def without_daemon(test, ctl):
    for command in ("status", "classes", "sessions", "reload"):
        done = ctl.code(69, command)
        test.check(b"is posternd running?" in done.stderr, f"{command} says who is away")
    answer = ctl.json("explain", "session", "203.0.113.1", code=69)
    test.equal((answer["source"], answer["class"], answer["rule"], answer["port"],
                answer["count"], answer["verdict"]),
               ("configuration", "everyone", "*", 25, None, None),
               "explain falls back on the configuration")
    test.check(answer["file"].endswith("postern.conf") and answer["line"] > 1,
               "and names the rule's place")
    answer = ctl.json("explain", "session", "203.0.113.1", "--port", "4", code=69)
    test.equal((answer["class"], answer["reason"], answer["verdict"]),
               (None, "no-class", "admit"), "no class serves that port")
    answer = ctl.json("explain", "session", "192.0.2.129", code=69)
    test.equal((answer["class"], answer["hold_at"], answer["refuse_at"],
                answer["client_sessions"]), ("free", None, None, 3), "no limit is no number")
    pipe = test.directory / "pipe"
    os.mkfifo(pipe)
    ctl.code(66, "-c", pipe, "status")
    ctl.code(66, "-c", test.directory, "status")


def words(test, ctl):
    done = ctl.code(0, "--help")
    for command in ("status", "classes", "sessions", "explain", "check", "reload",
                    "import-xla"):
        test.check(command.encode() in done.stdout, f"--help names {command}")
    test.check(len(done.stdout.splitlines()) < 24, "on one screen")
    test.check(ctl.code(0, "-V").stdout.startswith(b"posternctl "), "-V names it")
    test.check(b"--class C" in ctl.code(0, "sessions", "--help").stdout, "help of one command")
    test.check(b'did you mean "status"' in ctl.code(64, "stauts").stderr, "the nearest command")
    for wrong in ((), ("status", "x"), ("classes", "--class", "x"), ("explain", "session"),
                  ("explain",), ("explain", "session", "host.example"), ("import-xla",),
                  ("explain", "session", "192.0.2.1", "--port", "70000"), ("--frob", "status"),
                  (HOSTILE,), ("explain", "session", HOSTILE)):
        ctl.code(64, *wrong)


def status(test, ctl):
    found = ctl.json("status")
    text = ctl.text("status")
    test.equal(found["health"], "live", "the daemon lives")
    test.equal(found["configuration"], str(ctl.postern.file), "status names the configuration")
    test.equal(found["pid"], ctl.postern.process.pid, "status names the supervisor")
    test.equal((found["observe"], found["outbound_observe"]), (False, True), "observe settings")
    test.check("everyone" in found["observe_outbound"] and found["observe_classes"] == ["watched"],
               "classes in observe mode are listed")
    test.equal(found["state_bytes"], (ctl.postern.shared / "state").stat().st_size,
               "bytes of the state file")
    names = member_names(text)
    wanted = [name for name in found if name not in ("problems", "mtas", "tables", "roles", "journal",
                                                     "counters")]
    test.equal(names[:len(wanted)], wanted, "the same names in text and JSON")
    names = member_names(ctl.text("status", "--all"))
    test.equal(names[-len(found["counters"]):], list(found["counters"]), "the same counters")
    lines = [line.split() for line in text.split("\ncounters:\n")[1].splitlines()]
    test.equal([name for name, number in lines if number == "0"], ["others"],
               "without --all those that are 0 are one line")
    test.check(len(lines) > 1 and {name for name, _ in lines[:-1]} <= set(found["counters"]),
               "the others stand there")
    for table in ("tables", "roles", "journal"):
        header = text.split(f"\n{table}:\n")[1].splitlines()[0].split()
        test.equal(header, list(found[table][0]), f"the same columns in {table}")
    test.equal([(row["directory"], row["state"], row["error"], row["lost"])
                for row in found["journal"]],
               [("keeper", "written", None, 0), ("decisions", "written", None, 0)],
               "the journal of a site without logs is the keeper's")
    test.check(all(isinstance(value, int) for value in found["counters"].values()),
               "counters are numbers")
    test.equal({role["role"].split(".")[0] for role in found["roles"]} - {"supervisor"},
               {"policy", "milter", "keeper"}, "the roles are there")
    test.check(all(role["pid"] and role["uptime"] is not None and role["restarts"] == 0
                   for role in found["roles"]), "each with pid, uptime and no restart")


def tables(test, ctl):
    held = [ask(ctl.postern, "192.0.2.7", 1000 + number) for number in range(LIMIT + 1)]
    test.check("421" in held[LIMIT][1] and "421" not in held[0][1], "one was refused")
    rows = {row["name"]: row for row in ctl.json("classes")}
    row = rows["little"]
    test.equal(list(row)[:len(CLASS_NAMES)], CLASS_NAMES, "columns of classes")
    test.equal([row[name] for name in CLASS_NAMES if name != "refusing"] + [row["peak"]],
               ["little", LIMIT, LIMIT, 0, LIMIT, LIMIT, LIMIT, 1, 0, LIMIT], "and what is in them")
    test.equal(list(rows), ["free", "little", "watched", "providers", "everyone"],
               "classes stand in file order")
    lines = ctl.text("classes").splitlines()
    test.equal(lines[0].split(), list(row), "the same columns in text")
    test.equal(lines[2].split()[:3], ["little", str(LIMIT), str(LIMIT)], "the same row in text")
    sessions = ctl.json("sessions", "--class", "little")
    test.equal(len(sessions), LIMIT, "open sessions are listed")
    test.equal(list(sessions[0])[:len(SESSION_NAMES)], SESSION_NAMES, "columns of sessions")
    test.equal({(one["client"], one["client_port"], one["port"], one["mta"], one["proof"],
                 one["direction"]) for one in sessions},
               {("192.0.2.7", 1000 + number, 25, "192.0.2.25:25", "owner", "inbound")
                for number in range(LIMIT)}, "and what is in them")
    test.equal(ctl.text("sessions").splitlines()[0].split(), list(sessions[0]),
               "the same columns in text")
    test.equal(len(ctl.json("sessions", "--class", "everyone")), 0, "none of another class")
    test.check(all(one["state"] != "refused" for one in ctl.json("sessions")),
               "refused ones are no sessions")
    ctl.code(65, "sessions", "--class", "nobody")
    ctl.code(65, "sessions", "--class", HOSTILE)
    return held


def explain(test, ctl):
    answer = ctl.json("explain", "session", "192.0.2.7", "a.example")
    test.equal((answer["source"], answer["address"], answer["name"], answer["class"],
                answer["rule"], answer["verdict"], answer["reason"], answer["open"],
                answer["count"], answer["limit"], answer["hold_at"], answer["refuse_at"],
                answer["observed"]),
               ("daemon", "192.0.2.7", "a.example", "little", "192.0.2.0/24", "refuse",
                "class-inbound", LIMIT, LIMIT, LIMIT, LIMIT, LIMIT, False), "a full class")
    test.check(answer["answer"].startswith("421 "), "explain shows the 421")
    text = ctl.postern.file.read_text().splitlines()
    test.check(answer["file"] == str(ctl.postern.file) and
               "little" in text[answer["line"] - 1], "explain names the rule's place")
    test.equal(member_names(ctl.text("explain", "session", "192.0.2.7")), list(answer),
               "the same names in text and JSON")
    answer = ctl.json("explain", "session", "198.51.100.1")
    test.equal((answer["class"], answer["verdict"], answer["reason"], answer["observed"],
                answer["answer"]), ("watched", "admit", "class-inbound", True, None),
               "observe mode admits, and explain tells why")
    answer = ctl.json("explain", "session", "2001:DB8::1")
    test.equal((answer["address"], answer["class"], answer["verdict"]),
               ("2001:db8::1", "everyone", "admit"), "IPv6")
    answer = ctl.json("explain", "session", "192.0.2.9", "--port", "4")
    test.equal((answer["class"], answer["port"]), ("little", 4), "--port is heeded")
    before = ctl.json("classes")
    ctl.json("explain", "session", "203.0.113.1")
    test.equal(ctl.json("classes"), before, "explain counts nothing")
    answer = ctl.json("explain", "session", "203.0.113.1", HOSTILE)
    test.check(HOSTILE.split(b"\x1b")[0].decode() in answer["name"], "a hostile name in JSON")
    ctl.text("explain", "session", "203.0.113.1", HOSTILE)


def check(test, ctl):
    place = os.fsencode(str(ctl.postern.root)) + b"/" + HOSTILE
    test.equal(ctl.json("check"), [], "a good file has no messages")
    test.check("no errors" in ctl.text("check"), "and says so")
    with open(place, "wb") as file:
        file.write(b'version = 1;\nno_such = 1;\nclasses = ( { name = "\x1b[2J\xff";\n'
                   b'match = [ "*" ]; hold_at = 1; } );\n')
    found = ctl.json("check", place, code=78)
    test.equal([(one["line"], one["severity"]) for one in found][0], (2, "error"),
               "a bad file: line and severity")
    test.check("no_such" in found[0]["text"], "and what is wrong")
    test.check(":2: error: " in ctl.text("check", place, code=78), "file:line: error: text")
    ctl.code(78, "check", "/nonexistent/postern.conf")
    ctl.code(78, "check", ctl.postern.root)
    noise = ctl.postern.root / "noise"
    noise.write_bytes(test.random.randbytes(5000))
    test.check(ctl.json("check", noise, code=78), "random bytes are no configuration")
    ctl.text("check", noise, code=78)


def check_providers(test, ctl):
    """Mistakes in the file of providers have its name and line, in check and in reload."""
    postern, good = ctl.postern, ctl.postern.file.read_text()
    providers = postern.file.parent / "providers.conf"
    providers.write_text('version = 1;\nproviders = ( { name = "p"; relays = "*.p.example"; } );\n')
    test.check("1 provider, 0 reply rules" in ctl.text("check"), "the file beside it is read")
    providers.write_text('version = 1;\nreplies = (\n  { match = "a(b"; action = "alert"; },\n'
                         '  { match = "b"; action = "stop"; } );\n')
    text = ctl.text("check", code=78)
    test.check(f"{providers}:3: error: replies.match: \"a(b\" is not a valid pattern: missing closing "
               "parenthesis, at character 4" in text, "a bad pattern: " + text)
    test.check(f"{providers}:4: error: replies.action: " in text, "and a bad action")
    found = ctl.json("reload", code=78)
    test.equal([(one["file"], one["line"]) for one in found["messages"]],
               [(str(providers), 3), (str(providers), 4)], "reload refuses it with its places")
    ctl.code(0, "status")
    postern.file.write_text(good + '\nproviders = "/nonexistent/providers.conf";\n')
    test.check("providers: /nonexistent/providers.conf cannot be read: No such file" in
               ctl.text("check", code=78), "a file that is named must be there")
    postern.file.write_text(good)
    providers.unlink()
    ctl.code(0, "reload")


def split_with_a_mistake(test, ctl, good):
    """Where the daemon is stands in an included file, the mistake in the first one."""
    included = ctl.postern.file.parent / "included.conf"
    included.write_text(good)
    ctl.postern.file.write_text('@include "included.conf"\nobsrve = true;\n')
    found = ctl.json("reload", code=78)
    test.equal([(row["file"], row["line"], row["severity"]) for row in found["messages"]],
               [(str(ctl.postern.file), 2, "error")],
               "a mistake beside @include: the daemon is asked, and refuses it")
    done = ctl.run("status")
    test.equal((done.returncode, done.stderr), (0, b""), "and its state is found")
    included.write_text(good.replace(f"{ctl.postern.root}/", f"{ctl.postern.root}/elsewhere/"))
    done = ctl.run("reload")
    test.check(done.returncode == 69 and b"has errors" in done.stderr,
               "in the wrong place the mistake is named: " + done.stderr.decode().strip())
    included.unlink()
    ctl.postern.file.write_text(good)


def reload(test, ctl):
    postern, good = ctl.postern, ctl.postern.file.read_text()
    generation = ctl.json("status")["generation"]
    found = ctl.json("reload")
    test.equal((found["reloaded"], found["generation"], found["messages"], found["needs_restart"],
                found["error"]), (True, generation + 1, [], [], None), "reload")
    for name, bad in (("unknown setting", good + "\nno_such = 1;\n"),
                      ("broken syntax", good.replace("version = 1;", "version = = 1;"))):
        postern.file.write_text(bad)
        found = ctl.json("reload", code=78)
        test.equal((found["reloaded"], found["messages"][0]["severity"]), (False, "error"),
                   f"{name}: refused")
        test.check(found["messages"][0]["line"] and
                   found["messages"][0]["file"] == str(postern.file), f"{name}: with its place")
        test.check(re.search(r":\d+: error: ", ctl.text("reload", code=78)),
                   f"{name}: the same in text")
        ctl.code(0, "status")
    split_with_a_mistake(test, ctl, good)
    postern.file.write_text(good.replace("version = 1;",
                                         'version = 1; policy = { processes = 3; };'))
    found = ctl.json("reload")
    test.equal((found["reloaded"], found["needs_restart"]), (True, ["policy.processes"]),
               "what waits for a restart is named")
    test.check("policy.processes: changed" in ctl.text("reload"), "in text, too")
    postern.file.write_text(good)
    test.check(re.fullmatch(r"reloaded: generation \d+\n", ctl.text("reload")), "and back")
    ctl.code(0, "-s", postern.root / "control", "reload")
    for place in (postern.root / "control", f"unix:{postern.root}/control"):
        done = ctl.without_configuration("--json", "-s", place, "status")
        test.check(done.returncode == 0 and json.loads(done.stdout)["pid"] ==
                   postern.status()["pid"] and done.stderr == "",
                   "-s alone finds the daemon's state: " + (done.stderr or "nothing else said"))
    test.equal(ctl.without_configuration("-s", "unix:/nonexistent", "classes").returncode, 69,
               "-s alone never shows another daemon's state")
    ctl.code(64, "-s", "nonsense", "reload")
    ctl.code(69, "-s", "unix:/nonexistent", "reload")


def strangers(test, ctl):
    os.chmod(ctl.test.directory, 0o755)
    nobody = {"user": 65534, "group": 65534, "extra_groups": []}
    for command in ("status", "classes", "sessions", "reload"):
        ctl.code(77, command, **nobody)
    ctl.code(0, "check", **nobody)
    control = ctl.postern.root / "control"
    os.chmod(control, 0o777)
    ctl.code(77, "reload", **nobody)
    done = ctl.code(0, "--json", "explain", "session", "203.0.113.1", **nobody)
    test.equal(json.loads(done.stdout)["class"], "everyone", "anyone may ask, who can connect")
    os.chmod(control, 0o660)


def import_xla(test, ctl):
    done = ctl.code(0, "import-xla", "-", input=XLA.encode())
    file = ctl.postern.root / "xla.conf"
    file.write_text("version = 1;\n" + done.stdout.decode())
    ctl.code(0, "check", file)
    source = ctl.postern.root / "sendmail.cf"
    source.write_text(XLA)
    rows = ctl.json("import-xla", source)
    test.equal([(row["match"], row["hold_at"], row["refuse_at"]) for row in rows],
               [(["*.insa-lyon.fr"], 8, 3), (["*"], 15, 16)], "import-xla as JSON")
    source.write_text("L*.x\tmany\t3\n")
    test.check(b":1: error: " in ctl.code(65, "import-xla", source).stderr, "a wrong line")
    ctl.code(66, "import-xla", "/nonexistent")


def no_room(ctl):
    with open("/dev/full", "wb") as full:
        ctl.code(74, "status", stdout=full)
        ctl.code(74, "--json", "classes", stdout=full)
        ctl.code(74, "--help", stdout=full)
        ctl.code(74, "-V", stdout=full)
        done = subprocess.run([ctl.postern.build / "posternd", "-V"], stdout=full,
                              stderr=subprocess.PIPE, check=False)
        ctl.test.equal(done.returncode, 74, "posternd notices it, too")


def nonsense(test, ctl):
    """What no session, destination or file can be is refused, and nothing is answered."""
    for words, code in ((("explain", "session", "192.0.2.1", "a b"), 64),
                        (("explain", "session", "192.0.2.1", "--port", "0"), 64),
                        (("explain", "destination", "a b"), 64),
                        (("analyze", "/nonexistent"), 66), (("analyze", "/"), 66)):
        test.equal(ctl.code(code, *words).stdout, b"", f"{' '.join(words)}: an error alone")
    done = subprocess.run([ctl.postern.build / "posternd", "-t", "-c", ""], text=True,
                          capture_output=True, check=False)
    test.equal((done.returncode, done.stderr), (64, "posternd: -c: the file name is empty\n"),
               "an empty name of a configuration")
    done = ctl.code(78, "check", ctl.postern.build / "posternctl")
    test.check(not done.stdout.endswith(b"\n\n"), "check with errors ends without an empty line")
    answer = ctl.json("explain", "session", "192.0.2.7", "a.example")["answer"]
    test.check("(-)" not in answer, f"explain of a refusal names no empty id: {answer}")


def state_removed(test, ctl):
    """A state file that somebody removed is missed by the daemon, too.  A role can leave a link
    there: root follows none, not even to the same file."""
    state = ctl.postern.shared / "state"
    aside = state.with_name("aside")
    state.rename(aside)
    state.symlink_to(aside)
    test.within(5.0, lambda: "state file was removed" in ctl.postern.log_text(),
                "the daemon logs that its state file is gone")
    state.unlink()
    aside.rename(state)


def away(test, ctl):
    state = ctl.postern.shared / "state"
    ctl.postern.kill()
    found = ctl.json("status", code=69)
    test.equal((found["health"], found["uptime"]), ("stale", None),
               "a daemon that was killed looks healthy no moment longer")
    for words in (("classes",), ("sessions",), ("destinations",), ("destinations", "--relays"),
                  ("why",), ("tail", "--once"), ("explain", "session", "203.0.113.1"),
                  ("explain", "destination", "d.example")):
        done = ctl.code(69, *words)
        test.check(b"posternd" in done.stderr and done.stdout != b"",
                   f"{' '.join(words)}: what is shown of a dead daemon is marked, by exit code too")
    whole = state.read_bytes()
    for name, data in (("truncated", whole[:len(whole) // 2]), ("empty", b""),
                       ("random", test.random.randbytes(1 << 16)),
                       ("of another layout", whole[:16] + b"\0" * 8 + whole[24:])):
        state.write_bytes(data)
        done = ctl.code(65, "status")
        test.check(str(state).encode() in done.stderr, f"a state file that is {name} is named")


def body(test):
    more = ",\n".join(('{ name = "free"; match = "192.0.2.129"; client = { sessions = 3; }; }',
                       one_class("little", LIMIT, match='"192.0.2.0/24"'),
                       one_class("watched", 0, match='"198.51.100.0/24"',
                                 more="observe = true;")))
    postern = Postern(test, [], observe=False, edit=lambda text: owner_proof(
        text.replace("classes = (", "classes = (\n" + more + ",", 1)))
    ctl = Ctl(test, postern)
    without_daemon(test, ctl)
    words(test, ctl)
    postern.start()
    status(test, ctl)
    held = tables(test, ctl)
    explain(test, ctl)
    check(test, ctl)
    check_providers(test, ctl)
    reload(test, ctl)
    strangers(test, ctl)
    import_xla(test, ctl)
    no_room(ctl)
    nonsense(test, ctl)
    state_removed(test, ctl)
    for connection, _ in held:
        connection.close()
    test.within(5.0, lambda: postern.open("little") == 0, "0 after they have left")
    away(test, ctl)


main(body)
