#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""A Postfix without Postern: what a reload costs clients that come just then
(contrib/guides/what-happens-when.md, "... Postfix is reloaded?").

An idle smtpd that takes a client while master closes the status pipe serves it, but master,
which hears nothing of that, goes on counting it as idle and starts no other: all that come
wait until the session ends.  Here the smtpd is stopped during the reload, so that chance has
no part in it."""
import os
import signal
import socket
import time

from lib.postfix import Postfix
from lib.testing import main, processes

PORT = 2025
WAITS = 3.0             # seconds without a greeting, while nothing else is to be done
TRIES = 10


class Client:
    """Connected, as far as the kernel goes; the greeting is read apart."""

    def __init__(self):
        self.socket = socket.create_connection(("127.0.0.1", PORT))

    def greeted(self, limit=20.0):
        self.socket.settimeout(limit)
        try:
            return self.socket.recv(4096).startswith(b"220 ")
        except TimeoutError:
            return False

    def quit(self):
        self.socket.sendall(b"QUIT\r\n")
        while self.socket.recv(4096):
            pass
        self.socket.close()


def smtpd(postfix):
    return [pid for pid, command in processes(postfix.master()).items()
            if command.startswith("smtpd ")]


def idle(test, postfix):
    """The only smtpd: it has served a client, and waits for the next."""
    client = Client()
    test.wait_for(client.greeted, "a client is greeted")
    client.quit()
    test.wait_for(lambda: len(smtpd(postfix)) == 1, "one smtpd is left")
    return smtpd(postfix)[0]


def reload(test, postfix):
    def reloads():
        return postfix.log_text().count(": reload -- version")
    before = reloads()
    test.run(["postfix", "-c", postfix.etc, "reload"])
    test.wait_for(lambda: reloads() > before, "master has reloaded")


def undisturbed(test, postfix):
    """Without such a reload nobody waits for another's end."""
    idle(test, postfix)
    first, second = Client(), Client()
    test.check(first.greeted() and second.greeted(WAITS),
               "the next client is greeted while the one before is there")
    second.quit()
    reload(test, postfix)
    second = Client()
    test.check(second.greeted(WAITS), "and so it is after a reload during a session")
    second.quit()
    first.quit()


def taken_meanwhile(test, postfix):
    """A client that an idle smtpd takes before it hears of the reload; or None, where it
    ended first."""
    pid = idle(test, postfix)
    os.kill(pid, signal.SIGSTOP)
    client = Client()
    reload(test, postfix)
    os.kill(pid, signal.SIGCONT)
    test.wait_for(client.greeted, "a client that came just before a reload is greeted")
    if smtpd(postfix) == [pid]:
        return client
    client.quit()
    return None


def body(test):
    postfix = Postfix(test, [f"{PORT} inet n - n - - smtpd\n"])
    postfix.start(PORT)
    undisturbed(test, postfix)
    first = next(filter(None, (taken_meanwhile(test, postfix) for _ in range(TRIES))), None)
    if first is None:
        test.say("this Postfix loses nobody at a reload: what-happens-when.md is out of date")
        return
    second = Client()
    test.check(not second.greeted(WAITS), "a client was taken during a reload: the next one "
               f"gets no greeting for {WAITS:g} s, though there is no other smtpd")
    test.equal(len(smtpd(postfix)), 1, "master starts no smtpd for it")
    ended = time.monotonic()
    first.quit()
    test.check(second.greeted(), "when the first leaves, the next one is greeted "
               f"(after {(time.monotonic() - ended) * 1000:.0f} ms)")
    second.quit()


main(body)
