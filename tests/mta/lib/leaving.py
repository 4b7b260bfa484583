# SPDX-License-Identifier: ISC
"""A Sendmail whose outgoing mail Postern counts, slow servers that it leaves for,
and the classes between."""
import signal

from lib import dns
from lib.postern import Postern, substitute
from lib.sendmail import Sendmail
from lib.sink import Sink
from lib.smtp import Session

PORT, OUT = 2025, 2026


def leaving(classes):
    """The edit of the shipped configuration: nothing is only observed, Sendmail asks,
    and there are no other classes."""
    def edit(text):
        text = substitute(text, r"^outbound *= *\{ *observe *= *true; *\};",
                          "outbound = { observe = false; };\n"
                          'mta = ( { name = "out"; kind = "sendmail"; '
                          f"ports = [ {OUT} ]; }} );")
        return substitute(text, r"^classes = \(.*\Z",
                          "classes = (\n" + ",\n".join(classes) + " );\n")
    return edit


def outbound_class(name, match, sessions, more=""):
    return f'  {{ name = "{name}"; match = [ {match} ]; sessions = {sessions}; {more} }}'


class Site:
    """All of it, running.  `exchangers`: MX records; `more`: for Sendmail."""

    def __init__(self, test, classes, addresses, exchangers=None, **more):
        self.test = test
        dns.serve({} if exchangers is None else exchangers)
        self.sink = Sink(test, addresses, OUT)
        self.postern = Postern(test, edit=leaving(classes))
        self.postern.start()
        self.sendmail = Sendmail(test, PORT, milter=self.postern.root / "milter",
                                 socketmap=self.postern.root / "map", outbound=OUT, **more)
        self.sendmail.start()

    def submit(self, *recipients):
        """One message for them all."""
        session = Session(("127.0.0.1", PORT))
        code = session.send(recipients)
        if code[0] != 250:
            self.test.check(False, f"Sendmail takes mail: {code}")
        session.quit()

    def runs(self, count=1):
        return [self.sendmail.queue_run() for _ in range(count)]

    def finish(self, runs):
        """Waits for their ends: one that is held at a server never ends."""
        for run in runs:
            self.test.wait_for(lambda run=run: run.poll() is not None, "a queue run ends")

    def finish_held(self, runs, held):
        """All but `held` of them have ended, the others wait at a server."""
        self.test.wait_for(
            lambda: sum(run.poll() is None for run in runs) == held
            and len(self.sink.waiting()) == held,
            f"{held} of {len(runs)} queue runs deliver, the others have ended")

    def drain(self):
        """Queue runs until nothing is left."""
        self.sink.held = False
        for _ in range(20):
            self.finish(self.runs())
            if self.sendmail.queued() == 0:
                return
        self.test.check(False, f"still queued: {self.sendmail.queue_text()}")

    def forget(self):
        """The records of what was before."""
        with self.sink.lock:
            self.sink.delivered, self.sink.all = [], []
            self.sink.most_processes = len(self.sink.pids())

    def delivered(self):
        return sorted(self.sink.delivered)

    def open(self, name):
        return self.postern.classes()[name]["open_outbound"]

    def none_open(self, name):
        self.test.within(1.0, lambda: self.open(name) == 0, f"{name}: 0 when all is sent")

    def syslog(self):
        return (self.test.logs / "syslog").read_text(errors="replace")

    def kill(self, run):
        run.send_signal(signal.SIGKILL)
        run.wait()
