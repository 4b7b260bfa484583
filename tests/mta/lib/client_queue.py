# SPDX-License-Identifier: ISC
"""A Postfix of a customer: it logs in at its provider, and what is put off there waits in its own
queue.  Mail over a limit must come in later by itself: all of it, once."""
import re

from lib.limiter import Limiter
from lib.postfix import Postfix
from lib.smtp import Session

HERE, SINK = "127.0.0.9", "127.0.0.2"       # addresses that main() of the test is to add
CLIENT_PORT, SINK_PORT = 2525, 2599
MESSAGES = 30
RECIPIENTS, ACCEPTED = 25, 12               # limits: of recipients, and of messages
MAIN = """inet_interfaces = {here}
mynetworks = 127.0.0.0/8
relayhost = [127.0.0.1]:{port}
transport_maps =
smtp_sasl_auth_enable = yes
smtp_sasl_password_maps = static:{login}:secret
smtp_sasl_security_options = noanonymous
smtp_sasl_mechanism_filter = plain
queue_run_delay = 1s
minimal_backoff_time = 2s
maximal_backoff_time = {longest}s
"""


def limits(window):
    return f'recipients = "{RECIPIENTS}/{window}"; messages = "{ACCEPTED}/{window}";'


class ClientQueue(Postfix):
    def __init__(self, test, port, login, longest=3):
        super().__init__(test, [f"{CLIENT_PORT} inet n - n - - smtpd\n"], name="client",
                         main=MAIN.format(here=HERE, port=port, login=login, longest=longest))
        self.sink = Limiter(test, [SINK], SINK_PORT, seconds=0)
        self.start(CLIENT_PORT)

    def submit(self):
        """Messages of one, two and three recipients, each with an address of its own."""
        session, wanted = Session((HERE, CLIENT_PORT)), []
        session.command("EHLO customer.example.org")
        for number in range(MESSAGES):
            recipients = [f"m{number}r{i}@[{SINK}]" for i in range(1 + number % 3)]
            session.command("MAIL FROM:<me@example.org>")
            codes = [session.command(f"RCPT TO:<{to}>")[0] for to in recipients]
            session.command("DATA")
            codes.append(session.command(f"Subject: {number}\r\n\r\ntest\r\n.")[0])
            assert set(codes) == {250}, codes
            wanted += recipients
        return wanted

    def came(self):
        with self.sink.lock:
            return [name for name, _ in self.sink.delivered]

    def put_off(self):
        """Recipients that were told to come again, and how often."""
        return len(re.findall(r"status=deferred \(host .* said: 450 4\.7\.1 ", self.log_text()))

    def is_empty(self):
        return "is empty" in self.test.run(["postqueue", "-c", self.etc, "-p"])


def used(postern, login):
    """Recipients and messages that count for it."""
    rows = postern.ask("account", login)["limits"]
    return [next((row["used"] for row in rows if row["what"] == what), 0)
            for what in ("recipients", "messages")]


def make_room(test, client, postern, login, wanted, deliver=lambda: None):
    """Whenever the limit is reached the login is forgotten, as a window lasts a minute at least."""
    counted, times = 0, 0

    def at_the_limit():
        deliver()
        recipients, messages = used(postern, login)
        return (recipients == RECIPIENTS or messages == ACCEPTED) and \
            len(client.came()) == counted + recipients
    while True:
        before = client.put_off()
        test.wait_for(lambda: at_the_limit() or len(client.came()) >= len(wanted),
                      "all that is within the limit has come, or all")
        recipients, messages = used(postern, login)
        test.check(recipients <= RECIPIENTS and messages <= ACCEPTED,
                   f"{recipients} recipients, {messages} messages count")
        counted += recipients
        if len(client.came()) >= len(wanted):
            break
        test.wait_for(lambda: client.put_off() > before, "the rest is put off, and waits")
        test.equal(len(client.came()), counted, "as many as the sink got")
        test.equal(postern.command("forget", "account", login).returncode, 0, "forget account")
        times += 1
    test.equal(len(client.came()), counted, "as many as the sink got")
    test.check(times >= 2, f"there was room again {times} times")


def wait_for_room(test, client, wanted, deliver=lambda: None):
    """A window of a minute: nothing is done but to wait, and in none comes more than the limit."""
    def all_came():
        deliver()
        return len(client.came()) >= len(wanted)
    took = test.wait_for(all_came, "all has come", limit=600)
    test.say(f"after {took:.0f} s; put off {client.put_off()} times")
    with client.sink.lock:
        times = [time for _, time in client.sink.delivered]
    # when it was accepted is known to a second or two
    most = max(sum(1 for other in times if time <= other < time + 57) for time in times)
    test.check(most <= RECIPIENTS, f"{most} recipients came within a minute")
    test.check(took > 60, "and not all in the first")


def all_once(test, client, wanted):
    test.equal(sorted(client.came()), sorted(wanted), f"{len(wanted)} recipients: none lost or doubled")
    test.wait_for(client.is_empty, "the client's queue is empty")
    log = client.log_until_now()
    test.check("status=bounced" not in log and "status=expired" not in log, "nothing bounced")
