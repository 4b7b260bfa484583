# SPDX-License-Identifier: ISC
"""Lines as Postfix's smtp(8) logs them, for tests that need no Postfix."""
import time


class SmtpLog:
    def __init__(self, path):
        self.path, self.serial = path, 0
        path.touch()

    def refuse(self, domain, count, text):
        """So many refusals, each of a delivery that began after the one before was told of: those
        of one flight count as one."""
        for number in range(count):
            if number > 0:
                time.sleep(0.6)         # LINT-SLEEP: another flight
            self.tell(domain, 1, f"deferred ({text})")

    def tell(self, domain, count, status, dsn="4.7.0", delay="0.1"):
        """So many deliveries to a domain, each with a queue id of its own."""
        stamp = time.strftime("%b %e %H:%M:%S")
        with open(self.path, "ab") as log:
            for _ in range(count):
                self.serial += 1
                log.write(f"{stamp} mx postfix/smtp[77]: 4A{self.serial:07X}: to=<u@{domain}>, "
                          f"relay=mx.{domain}[192.0.2.1]:25, delay={delay}, "
                          f"delays=0/0/{delay}/0, dsn={dsn}, status={status}\n".encode("latin-1"))
