# SPDX-License-Identifier: ISC
"""A Sendmail whose outgoing mail Postern counts, slow servers that it leaves for,
and the classes between."""
import signal

from lib import dns
from lib.postern import Postern, substitute
from lib.sendmail import Sendmail
from lib.sink import Sink
from lib.smtp import Session
from lib.testing import PLACE

PORT, OUT = 2025, 2026


def leaving(classes, settings="", observe=False, mta=""):
    """The edit of the shipped configuration: nothing is only observed, Sendmail asks,
    its log is read, and there are no other classes.  `settings`: lines that come to
    it; `observe`: outbound; `mta`: more of the mail server."""
    def edit(text):
        text = substitute(text, r"^outbound *= *\{ *observe *= *true; *\};",
                          f"outbound = {{ observe = {str(observe).lower()}; }};\n"
                          'mta = ( { name = "out"; kind = "sendmail"; '
                          f'ports = [ {OUT} ]; log = "{PLACE}/log/syslog"; {mta} }} );\n{settings}')
        return substitute(text, r"^classes = \(.*\Z",
                          "classes = (\n" + ",\n".join(classes) + " );\n")
    return edit


def outbound_class(name, match, sessions, more=""):
    return f'  {{ name = "{name}"; match = [ {match} ]; hold_at = {sessions}; {more} }}'


class Site:
    """All of it, running.  `exchangers`: MX records; `settings`: of Postern; `sink`: what
    makes the servers; `more`: for Sendmail."""

    def __init__(self, test, classes, addresses, exchangers=None, settings="", sink=Sink,
                 **more):
        self.test, self.class_rows = test, classes
        dns.serve({} if exchangers is None else exchangers)
        self.sink = sink(test, addresses, OUT)
        self.postern = Postern(test, edit=leaving(classes, settings))
        self.postern.kinds = self.postern.kinds | {"feed"}
        self.postern.start()
        self.sendmail = Sendmail(test, PORT, milter=self.postern.root / "milter",
                                 socketmap=self.postern.root / "map", outbound=OUT, **more)
        self.sendmail.start()

    def configure(self, settings="", observe=False):
        """In force at once."""
        self.postern.configure((), leaving(self.class_rows, settings, observe))
        done = self.postern.command("reload")
        self.test.equal(done.returncode, 0, f"reload: {done.stderr}" if done.returncode
                        else "reload")

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

    def keep_running(self, runs, count):
        """Starts queue runs, `count` at a time, as others end.  True: nothing is queued,
        and all have ended."""
        runs[:] = [run for run in runs if run.poll() is None]
        if self.sendmail.queued() > 0:
            runs += self.runs(count - len(runs))
            return False
        return not runs

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
            self.sink.most_processes = 0
            self.sink.note_processes()

    def delivered(self):
        return sorted(self.sink.delivered)

    def open(self, name):
        return self.postern.classes()[name]["open_outbound"]

    def none_open(self, name):
        self.test.within(1.0, lambda: self.open(name) == 0, f"{name}: 0 when all is sent")

    def learn(self):
        """Until Postern knows what Sendmail has logged until now."""
        self.syslog()
        self.test.wait_for(lambda: all(row["log_unread"] == 0
                                       for row in self.postern.status()["mtas"]),
                           "the log of Sendmail is read")

    def syslog(self):
        return self.test.syslog()

    def kill(self, run):
        run.send_signal(signal.SIGKILL)
        run.wait()
