#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""postern-sendmail-setup on files that were edited, built again or half made, and on sites that
are otherwise: what it refuses, what it takes up, and that undo leaves byte-identical files."""
import os
import re
import shutil
from pathlib import Path

from lib.leaving import PORT
from lib.sendmail import Sendmail, find_root
from lib.sendmail_site import SERVERS, Site, bare
from lib.testing import main, mount
from lib.tree import tree


def built_anew(test, site):
    """Somebody goes on working in sendmail.mc after make, and builds sendmail.cf."""
    mc, original = site.etc / "sendmail.mc", (site.etc / "sendmail.mc").read_bytes()
    test.equal(site.setup("make", "--no-reload")[0], 0, "make, once more")
    mc.write_bytes(mc.read_bytes().replace(b"OSTYPE", b"define(`confMAX_HOP', `7')dnl\nOSTYPE", 1))
    edited = mc.read_bytes()
    done = site.plain("undo", "--only-ours")
    test.check(done.returncode == 65 and "build it first" in done.stderr,
               "undo --only-ours: not while sendmail.cf is older than sendmail.mc")
    macros = site.sendmail.unpacked / "usr/share/sendmail/cf"
    site.sendmail.cf.write_text(test.run(
        ["m4", f"-D_CF_DIR_={macros}/", macros / "m4/cf.m4", mc], cwd=macros / "cf"))
    done = site.plain("undo", "--no-reload")
    test.check(done.returncode == 65 and "was edited since" in done.stdout and
               mc.read_bytes() == edited, "undo after an edit: refused")
    code, told = site.setup("undo", "--only-ours", "--no-reload")
    test.check(code == 0 and "confMAX_HOP" in mc.read_text() and
               "ostern" not in mc.read_text() and "ostern" not in bare(site.sendmail.cf)
               and "O MaxHopCount=7" in site.sendmail.cf.read_text(),
               "undo --only-ours: the edit stays, in sendmail.cf, too")
    mc.write_bytes(original)


def by_hand(test, site):
    """sendmail.cf is not what sendmail.mc makes."""
    site.sendmail.cf.write_text(site.sendmail.cf.read_text() + "O Own=by hand\n")
    before = tree(site.etc)
    code, told = site.setup("make")
    test.check(code == 69 and [row["word"] for row in told["findings"]
                               if row["kind"] == "obstacle"] == ["rebuilt"]
               and "it was edited" in told["findings"][0]["text"] and tree(site.etc) == before,
               "a sendmail.cf that was edited by hand is left alone")


def runs_as_another(test, site):
    """Sendmail that gives up root: our sockets are not for everybody, and it is not asked."""
    own = site.sendmail, site.etc
    site.sendmail = Sendmail(test, PORT, name="runs-as",
                             before="define(`confRUN_AS_USER', `nobody')dnl\n")
    site.etc = site.sendmail.root / "etc"
    code, told = site.setup("look")
    found = [row for row in told["findings"] if row["word"] == "socket-access"]
    test.check(code == 69 and {Path(row["where"]).name for row in found} == {"milter", "map"} and
               all("nobody" in row["text"] and "group" in row["text"] for row in found),
               f"look: a RunAsUser that cannot open our sockets: {found[:1]}")
    site.sendmail, site.etc = own


def driven(test, site):
    """--queue: only where the queue lies ready, and undone only when it is empty."""
    mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", "/var/spool")
    queue = Path("/var/spool/mqueue")
    queue.mkdir(mode=0o700)
    sendmail = Sendmail(test, PORT, name="driven", before=f"define(`QUEUE_DIR', `{queue}')dnl\n")
    site.sendmail, site.etc = sendmail, sendmail.root / "etc"
    before = tree(site.etc)

    def obstacles(*words):
        code, told = site.setup(*words)
        return [row["word"] for row in told["findings"] if row["kind"] == "obstacle"]
    (queue / "qf1").touch()
    test.equal(obstacles("look", "--queue"), ["queue-directories", "queue-files"],
               "look --queue: no directories, and mail in the old place")
    (queue / "q0").mkdir(mode=0o700)
    (queue / "qf1").rename(queue / "q0/qf1")
    test.equal(obstacles("look", "--queue"), ["queue-groups"], "look --queue: no directories of "
               "queue groups")
    for name in (*(f"d{n:02}" for n in range(1, 41)), "local"):
        (queue / name).mkdir(mode=0o700)
    confined = test.directory / "confined"      # as the unit that is shipped has it
    confined.write_text('#!/bin/sh\ncase $* in *status) echo \'{ "confined": "read-only /home" '
                        f'}}\' ;; *) exec {site.postern.build}/posternctl "$@" ;; esac\n')
    confined.chmod(0o755)
    code, told = site.setup("make", "--queue", "--no-milter", "--posternctl", confined)
    test.check(code == 69 and [row["word"] for row in told["findings"]
                               if row["kind"] == "obstacle"] == ["queue-service"] and
               any("posternd-sendmail.conf" in row["text"] for row in told["findings"]) and
               tree(site.etc) == before, "make --queue: not while posternd's service would have "
               "mail bounce, and how to change that")
    code, told = site.setup("make", "--queue", "--no-milter", "--no-reload")
    test.check(code == 0 and f"O QueueDirectory={queue}/q*" in sendmail.cf.read_text() and
               f"Qpostern40, P={queue}/d40" in sendmail.cf.read_text() and "SPosternTurn" in sendmail.cf.read_text() and "Xpostern" not in
               sendmail.cf.read_text(), "make --queue --no-milter")
    made = tree(site.etc)
    test.equal((obstacles("undo", "--no-reload"), tree(site.etc)), (["queue-files"], made),
               "undo: not while mail waits where it would be out of sight")
    store, aside = test.directory / "store", test.directory / "store.aside"
    store.rename(aside)                         # as after a purge of the package
    test.equal((obstacles("undo", "--only-ours", "--no-reload"), tree(site.etc)),
               (["queue-files"], made), "undo --only-ours: neither, where make is not remembered")
    if store.exists():
        shutil.rmtree(store)
    aside.rename(store)
    (queue / "q0/qf1").rename(queue / "d07/qf1")
    test.equal((obstacles("undo", "--no-reload"), tree(site.etc)), (["queue-files"], made),
               "undo: nor in the directory of a queue group")
    (queue / "d07/qf1").unlink()
    test.equal((site.setup("undo", "--no-reload")[0], tree(site.etc)), (0, before),
               "undo: byte-identical")


def spelled_out(test, site):
    """Lists of the site's own, in its own words."""
    site.sendmail = Sendmail(test, PORT, name="spelled", before=(
        "MAIL_FILTER(`a', `S=unix:/run/a')dnl\nMAIL_FILTER(`b', `S=unix:/run/b')dnl\n"
        "define(`confINPUT_MAIL_FILTERS', `b, a')dnl\n"
        "define(`confMILTER_MACROS_CONNECT', `j, {if_name}')dnl\n"))
    site.etc = site.sendmail.root / "etc"
    before = tree(site.etc)
    code, told = site.setup("make", "--no-reload")
    cf = site.sendmail.cf.read_text()
    test.check(code == 0 and "O InputMailFilters=postern, b, a\n" in cf and
               re.search(r"O Milter.macros.connect=j, \{if_name\}, \{daemon_port\}", cf),
               "lists that are spelled out: ours come to them" if code == 0 else f"make: {told}")
    test.equal((site.setup("undo", "--no-reload")[0], tree(site.etc)), (0, before),
               "undo: byte-identical")


def half_done(test, site):
    """As a make leaves it that was killed between the two files."""
    before, old = tree(site.etc), (site.etc / "sendmail.cf").read_bytes()
    status = (site.etc / "sendmail.cf").stat()
    site.setup("make", "--no-reload", "--no-outbound")
    made = (site.etc / "sendmail.cf").read_bytes()
    (site.etc / "sendmail.cf").write_bytes(old)
    code, _ = site.setup("make", "--no-reload")
    again = (site.etc / "sendmail.cf").read_text()
    test.check(code == 0 and bytes_of(again) == bytes_of(made.decode()),
               "make after a make that was killed half-way")
    code, _ = site.setup("undo", "--no-reload")
    os.utime(site.etc / "sendmail.cf", ns=(status.st_atime_ns, status.st_mtime_ns))
    test.equal((code, tree(site.etc)), (0, before), "undo: byte-identical")


def bytes_of(text):
    return [line for line in text.splitlines() if line[:1] != "#"]


def whole(test, site):
    """A sendmail.mc that includes cf.m4 itself, as Debian's, and the site's check_compat
    and Local_check_relay from an included file."""
    etc = site.sendmail.root.parent / "whole"
    etc.mkdir()
    macros = site.sendmail.unpacked / "usr/share/sendmail/cf"
    (etc / "rules.m4").write_text("LOCAL_RULESETS\nScheck_compat\nR$* $| x@$*\t$#discard $: discard\n"
                                  "SLocal_check_relay\nR$*\t$@ ours is not reached\n")
    (etc / "sendmail.mc").write_text(
        f"divert(-1)dnl\n# INPUT_MAIL_FILTER(`no')\ndivert(0)dnl\ninclude(`{macros}/m4/cf.m4')dnl\n"
        "OSTYPE(`linux')dnl\ndnl INPUT_MAIL_FILTER(`no')\ninclude(`rules.m4')dnl\n"
        "MAILER(`smtp')dnl\n")
    site.etc = etc
    (etc / "sendmail.cf").write_text(test.run(["m4", "sendmail.mc"], cwd=etc))
    before = tree(etc)
    code, told = site.setup("make", "--no-reload")
    cf = bare(etc / "sendmail.cf")
    test.check(code == 0 and 0 < cf.find("PosternBefore") < cf.find("discard $: discard") and
               0 < cf.find("PosternClient") < cf.find("ours is not reached"),
               "a sendmail.mc that is whole: ours above the rules of an included file"
               if code == 0 else f"make: {told}")
    test.equal((site.setup("undo", "--no-reload")[0], tree(etc)), (0, before),
               "undo: byte-identical")


def built_as_debian(test, site, date):
    """By the rule of /etc/mail/Makefile: what m4 makes, and behind it sendmail.mc."""
    mc, macros = site.etc / "sendmail.mc", site.sendmail.unpacked / "usr/share/sendmail/cf"
    cf = test.run(["m4", f"-D_CF_DIR_={macros}/", macros / "m4/cf.m4", mc], cwd=macros / "cf")
    cf, count = re.subn("^##### built by .*$", f"##### built by root@mta on {date}", cf, flags=re.M)
    assert count == 1
    (site.etc / "sendmail.cf").write_text(f"{cf}### {mc} ###\n" + "".join(
        f"# {line}" for line in mc.read_text().splitlines(True)))


def sendmailconfig(test, site):
    """Debian's own program builds sendmail.cf again, before make and after."""
    site.sendmail = Sendmail(test, PORT, name="debian")
    site.etc = site.sendmail.root / "etc"
    built_as_debian(test, site, "Monday")
    before, comments = tree(site.etc), (site.etc / "sendmail.cf").read_text().count("\n#")
    removed = [line for line in site.plain("show").stdout.splitlines()
               if line.startswith("-#") and not line.startswith(("-#####", "-#O "))]
    test.equal(removed, [], "show: the comments of sendmail.cf stay")
    test.equal(site.setup("make", "--no-reload")[0], 0, "make, where Debian built sendmail.cf")
    mc, cf = ((site.etc / name).read_text() for name in ("sendmail.mc", "sendmail.cf"))
    test.check(cf.count("\n#") >= comments and cf.endswith("# ".join(
        ["", *mc.splitlines(True)])), "sendmail.cf ends with the new sendmail.mc, as Debian's does")
    built_as_debian(test, site, "Tuesday")
    test.check('"undo" removes' in site.plain("look").stdout,
               "sendmailconfig after make: look says that undo takes it back")
    test.equal((site.setup("undo", "--no-reload")[0], tree(site.etc)), (0, before),
               "and so it does: byte-identical")
    site.setup("make", "--no-reload")
    mc = site.etc / "sendmail.mc"
    mc.write_text(mc.read_text().replace("OSTYPE", "define(`confMAX_HOP', `7')dnl\nOSTYPE", 1))
    built_as_debian(test, site, "Wednesday")
    test.check('"undo --only-ours" removes' in site.plain("look").stdout and
               site.plain("undo", "--no-reload").returncode == 65,
               "where sendmail.mc was edited, look says that undo wants --only-ours")
    test.equal(site.setup("undo", "--only-ours", "--no-reload")[0], 0, "which takes ours out")


def body(test):
    site = Site(test)
    built_anew(test, site)
    by_hand(test, site)
    runs_as_another(test, site)
    driven(test, site)
    spelled_out(test, site)
    half_done(test, site)
    whole(test, site)
    sendmailconfig(test, site)


main(body, hosts=SERVERS, before=find_root)
