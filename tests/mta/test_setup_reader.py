#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""What the Postfix setup makes of odd forms of main.cf and master.cf, with postconf as the
judge."""
import shutil

from lib.setup_directory import REST, SMTP, Directory, obstacles
from lib.testing import main

# name: (master.cf, services that are asked about, words in the way)
MASTERS = {
    "plain": (SMTP + REST, ["smtp/inet"], []),
    "by number": ("25 inet n - n - - smtpd\n" + REST, ["25/inet"], []),
    "by address": ("192.0.2.1:smtp inet n - n - - smtpd\n[2001:db8::1]:25 inet n - n - - smtpd\n"
                   + REST, ["192.0.2.1:smtp/inet", "[2001:db8::1]:25/inet"], []),
    "of this machine alone": ("127.0.0.2:25 inet n - n - - smtpd\n[::1]:smtp inet n - n - - smtpd\n"
                              + SMTP + REST, ["smtp/inet"], []),
    "a whole path": ("smtp inet n - n - - /usr/lib/postfix/sbin/smtpd\n" + REST,
                     ["smtp/inet"], []),
    "CRLF": (SMTP.replace("\n", "\r\n") + "  -o smtpd_helo_restrictions=permit_mynetworks\r\n"
             + REST, ["smtp/inet"], []),
    "no end": (REST + SMTP.strip(), ["smtp/inet"], []),
    "goes on over comments": ("smtp inet n - n - -\n# one\n\n  \n\t smtpd\n#two\n  -o a=b\n"
                              "  # three\n -o smtpd_helo_restrictions=\n\n# four\n" + REST,
                              ["smtp/inet"], []),
    "braces": ("smtp inet n - n - - smtpd -o { smtpd_helo_restrictions =  permit_mynetworks,\n"
               "   reject } -o smtpd_y={a b}c\n" + REST, ["smtp/inet"], []),
    "the same setting twice": (SMTP + " -o smtpd_milters=inet:a:1 -o smtpd_milters=inet:b:2\n"
                               + REST, ["smtp/inet"], []),
    "flags": ("smtp inet n - n - - smtpd -v -v -o smtpd_x=y\n" + REST, ["smtp/inet"], []),
    "two lines": (SMTP + REST + SMTP, ["smtp/inet", "smtp/inet"], ["twice"]),
    "nothing on port 25": ("submission inet n - n - - smtpd\n" + REST, [], ["no-service"]),
    "begins with a blank": ("  " + SMTP + REST, [], ["no-service", "reads-otherwise"]),
    "ours by hand": (SMTP + " -o { smtpd_milters = { unix:private/postern-milter } }\n" + REST,
                     ["smtp/inet"], ["by-hand"]),
    "flags in one": ("smtp inet n - n - - smtpd -vo smtpd_x=y\n" + REST, ["smtp/inet"], []),
    "smtpd and postconf differ": ("smtp inet n - n - - smtpd {-o smtpd_x = y}\n" + REST,
                                  ["smtp/inet"], ["reads-otherwise"]),
}
# name: (main.cf, --by, what the line of ours has, words in the way)
MAINS = {
    "several lines": ("smtpd_milters =\n  inet:a:1,\n# no\n\n  unix:b\n", "milter",
                      "default_action=accept }, inet:a:1, unix:b }", []),
    "a name": ("m = inet:a:1\nsmtpd_milters = $m\n", "milter", "accept }, $m }", []),
    "braces": ("smtpd_milters = { inet:a:1, command_timeout=3s }", "milter",
               "accept }, { inet:a:1, command_timeout=3s } }", []),
    "twice": ("smtpd_milters = inet:a:1\nsmtpd_milters = inet:b:2\n", "milter",
              "accept }, inet:b:2 }", []),
    "macros": ("milter_connect_macros = j {if_name}\n", "milter", "v _ {if_name} }", []),
    "CRLF": ("smtpd_recipient_restrictions = reject_unauth_destination\r\n", "policy",
             "try_limit=1, default_action=DUNNO }, reject_unauth_destination }", []),
    "an early list": ("smtpd_client_restrictions = permit_mynetworks, reject_rbl_client x.y\n",
                      "policy", "DUNNO }, permit_mynetworks, reject_rbl_client x.y }", []),
    "who logged in": ("smtpd_client_restrictions = permit_mynetworks permit_sasl_authenticated\n",
                      "policy", "", ["delay-reject"]),
    "words in capitals": ("smtpd_client_restrictions = Permit_SASL_Authenticated, reject\n",
                          "policy", "", ["delay-reject"]),
    "a class": ("smtpd_restriction_classes = own\nown = check_recipient_access inline:{a=b}\n"
                "smtpd_helo_restrictions = own\n", "both", "", ["delay-reject"]),
    "a policy server": ("smtpd_sender_restrictions = check_policy_service { unix:private/p, "
                        "timeout=3s }, permit\n", "policy", "", ["delay-reject"]),
    "early already": ("smtpd_delay_reject = no\nsmtpd_sender_restrictions = "
                      "check_sender_access inline:{a=b}\n", "policy", "DUNNO } }", []),
    "a proxy": ("smtpd_upstream_proxy_protocol = haproxy\n", "milter", "", ["proxy"]),
}
ON, OFF = " -o smtpd_sasl_auth_enable=yes\n", " -o smtpd_sasl_auth_enable=no\n"
# name: (master.cf, main.cf, services whose logins get quotas, those that are told to have none,
# words in the way), of --accounts --no-inbound
LOGINS = {
    "submission": ("submission inet n - n - - smtpd\n" + ON + SMTP, "", ["submission/inet"], [], []),
    "port 25": (SMTP + ON, "", ["smtp/inet"], [], []),
    "all by main.cf": (SMTP + "587 inet n - n - - smtpd\n2525 inet n - n - - smtpd\n",
                       "smtpd_sasl_auth_enable = yes\n", ["smtp/inet", "587/inet", "2525/inet"], [], []),
    "not on port 25": (SMTP + OFF + "587 inet n - n - - smtpd\n", "smtpd_sasl_auth_enable = yes\n",
                       ["587/inet"], [], []),
    "behind the filter": (SMTP + "127.0.0.1:10025 inet n - n - - smtpd\n192.0.2.1:10026 inet n - n - - "
                          "smtpd\n  -o content_filter=\n", "smtpd_sasl_auth_enable = yes\n",
                          ["smtp/inet"], ["127.0.0.1:10025/inet", "192.0.2.1:10026/inet"], []),
    "no port": ("own unix n - n - - smtpd\n" + ON + "587 inet n - n - - smtpd\n" + ON, "", ["587/inet"],
                ["own/unix"], []),
    "postscreen": ("smtp inet n - n - 1 postscreen\nsmtpd pass - - n - - smtpd\n" + ON, "",
                   ["smtpd/pass"], [], []),
    "nobody": (SMTP, "", [], [], ["no-service"]),
}


def masters(test, directory):
    for name, (text, services, words) in MASTERS.items():
        directory.write(text, "")
        told = directory.show()
        good = ([row["service"] for row in told["services"]] == services
                and obstacles(told) == words)
        ours = sum(line.startswith("+  -o") for line in told["diff"].splitlines())
        test.check(good and (words or ours == 2 * len(services)),
                   f"master.cf: {name}" if good else f"master.cf: {name}: {told}")
        if name == "CRLF":
            test.equal({line.endswith("\\r") or line.endswith("\r") for line in
                        told["diff"].split("\n") if line.startswith("+  -o")}, {True},
                       "master.cf: CRLF: our lines have it, too")


def logins(test, directory):
    for name, (master, text, services, without, words) in LOGINS.items():
        directory.write(master + REST, text)
        told = directory.show("--accounts", "--no-inbound")
        notes = [row["text"] for row in told["findings"] if row["word"] == "no-quotas"]
        ours = sum(line.startswith("+  -o") for line in told["diff"].splitlines())
        good = (told["accounts"] == services and obstacles(told) == words and
                ours == 2 * len(services) and len(notes) == len(without) and
                all(key in note for key, note in zip(without, notes)))
        test.check(good, f"logins: {name}" if good else f"logins: {name}: {told}")


def mains(test, directory):
    for name, (text, way, wanted, words) in MAINS.items():
        directory.write(SMTP + REST, text)
        told = directory.show("--by", way)
        good = obstacles(told) == words and wanted in told["diff"]
        test.check(good, f"main.cf: {name}" if good else f"main.cf: {name}: {told}")
        if name == "twice":
            test.check(any(row["word"] == "main-twice" for row in told["findings"]),
                       "main.cf: a setting that is there twice is told")


def postscreen(test, directory):
    """Behind postscreen, by its name for smtpd; and a proxy before it."""
    directory.write("smtp inet n - n - 1 postscreen -o smtpd_service_name=inner\n"
                    "inner pass - - n - - smtpd\nsmtpd pass - - n - - smtpd\n" + REST,
                    "postscreen_upstream_proxy_protocol = haproxy\n")
    told = directory.show()
    test.equal(([row["service"] for row in told["services"]], told["by"], obstacles(told)),
               (["inner/pass"], "both", []), "postscreen: its smtpd, by both behind a proxy")
    told = directory.show("--service", "smtpd/pass", "--by", "milter")
    test.equal([row["service"] for row in told["services"]], ["smtpd/pass"],
               "--service: another one")
    told = directory.show("--service", "nosuch")
    test.equal(obstacles(told), ["no-service"], "--service: there is none of that name")


def hostile(test, directory):
    """Nothing of a file is run, and nothing of it reaches the terminal raw."""
    directory.write("smtp inet n - n - - smtpd -o smtpd_x=;touch`touch>/run/t/owned`\n"
                    "\x1b[31mred inet n - n - - smtpd -o y=@{[`touch /run/t/owned`]}\n" + REST, "")
    done = directory.run("look")
    test.check("\x1b" not in done.stdout + done.stderr and "\\x1b[31mred" in done.stdout
               and not (test.directory / "owned").exists(), "hostile names are escaped, not run")
    directory.write(b'"\\\xff\xc3\xa4 inet n - n - - smtpd\n' + REST.encode(), "")
    told = directory.show()
    test.check(any('"\\\\xff\xe4/inet' in row["text"] for row in told["findings"]),
               "and in JSON, with bytes that are no UTF-8")


def messages(test, directory):
    test.equal([directory.run(*words).returncode for words in (
        ["--help"], ["nonsense"], ["look", "more"], ["--by", "nothing"], ["--store", "relative"])],
        [0, 64, 64, 64, 64], "--help, and mistakes: exit codes")
    shutil.rmtree(directory.etc)
    test.equal(directory.run("look").returncode, 69, "no such directory: exit code 69")
    directory.etc.mkdir()


def body(test):
    directory = Directory(test)
    masters(test, directory)
    logins(test, directory)
    mains(test, directory)
    postscreen(test, directory)
    hostile(test, directory)
    messages(test, directory)


main(body)
