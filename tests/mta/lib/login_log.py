# SPDX-License-Identifier: ISC
"""Logs of submission, made by chance, and what each login sent in them: for analyze --accounts.
Written from the manual, without a look at the C."""
import math
from datetime import datetime, timedelta, timezone

WINDOWS = [("recipients", "1h", 3600), ("recipients", "1d", 86400), ("messages", "1h", 3600),
           ("KiB", "1d", 86400)]
BEGIN = datetime(2026, 11, 1, tzinfo=timezone.utc)


class LoginLog:
    def __init__(self, random, logins=30, days=4):
        self.random, self.number = random, 0
        self.lines, self.sent = [], {}
        events = sorted((random.random() * days * 86400, random.choice(range(logins)))
                        for _ in range(logins * days * 12))
        events += [(day * 86400 + i * 3 + 7, logins) for day in range(days) for i in range(300)]
        for second, number in sorted(events):
            if number % 3 == 2:
                self.sendmail(int(second), f"user{number}@example.org", number)
            else:
                self.postfix(int(second), f"user{number}@example.org")

    def line(self, second, text):
        stamp = (BEGIN + timedelta(seconds=second)).strftime("%Y-%m-%dT%H:%M:%S+00:00")
        self.lines.append((second, f"{stamp} mx {text}"))

    def note(self, second, login, recipients, size):
        self.sent.setdefault(login, []).append((second, recipients, max(1, math.ceil(size / 1024))))

    def postfix(self, second, login):
        random = self.random
        self.number += 1
        queue_id = f"4{self.number:010X}"
        recipients, size = random.choice([1, 1, 1, 2, 5, 40]), random.randrange(300, 3000000)
        forged = random.choice(["", "", ", sasl_sender=x, sasl_username=user0@example.org"])
        shown = login.upper() if random.random() < 0.1 else login
        self.line(second, f"postfix/submission/smtpd[77]: {queue_id}: client=pc[192.0.2.1], "
                  f"sasl_method=PLAIN, sasl_username={shown}{forged}")
        active = (f"postfix/qmgr[78]: {queue_id}: from=<a@example.org>, size={size}, "
                  f"nrcpt={recipients} (queue active)")
        if random.random() < 0.05:              # refused at its end
            return
        self.line(second, active)
        self.note(second, login, recipients, size)
        if random.random() < 0.3:               # tried again
            self.line(second + 400, active)
        if random.random() < 0.2:               # and mail of strangers, of the same id
            self.line(second + 1000, f"postfix/smtpd[79]: {queue_id}: client=a], sasl_username=user0"
                      "@example.org.example[192.0.2.9]")
            self.line(second + 1000, active)

    def sendmail(self, second, login, pid):
        size, recipients = self.random.randrange(100, 200000), self.random.randrange(1, 9)
        self.number += 1
        queue_id = f"6AR{self.number:011d}"
        self.line(second, f"sendmail[{pid}]: AUTH=server, relay=pc [192.0.2.1], authid={login}, "
                  "mech=PLAIN, bits=0")
        for proto in ("ESMTPA", "ESMTP"):
            self.line(second, f"sendmail[{pid}]: {queue_id}: from=<a@b>, size={size}, class=0, "
                      f"nrcpts={recipients}, msgid=<1@x>, proto={proto}, daemon=MTA, relay=pc [192.0.2.1]")
        self.note(second, login, recipients, size)

    def text(self):
        self.lines.sort(key=lambda line: line[0])
        return "".join(f"{text}\n" for _, text in self.lines)

    def uses(self):
        """(login, what, window) => (p50, p99, max, messages)"""
        found = {}
        for login, sent in self.sent.items():
            sent.sort(key=lambda one: one[0])
            for what, name, seconds in WINDOWS:
                index = {"recipients": 1, "KiB": 2}.get(what)
                values = sorted(
                    sum(1 if index is None else other[index] for other in sent[:number + 1]
                        if other[0] > one[0] - seconds)
                    for number, one in enumerate(sent))
                rank = [values[math.ceil(len(values) * part / 100) - 1] for part in (50, 99, 100)]
                found[login, what, name] = (*rank, len(sent))
        return found
