# SPDX-License-Identifier: ISC
"""An SMTP server that keeps the mail it takes, or hands it on, as a content filter."""
import smtplib
import socketserver
import threading


class Taker(socketserver.StreamRequestHandler):
    def say(self, text):
        self.wfile.write(text.encode() + b"\r\n")

    def message(self):
        lines = []
        while (line := self.rfile.readline()) not in (b".\r\n", b""):
            lines.append(line[1:] if line.startswith(b".") else line)
        return b"".join(lines)

    def handle(self):
        sender, recipients = "", []
        self.say("220 box.example ESMTP")
        while line := self.rfile.readline().decode(errors="replace").strip():
            verb = line[:4].upper()
            if verb in ("MAIL", "RCPT"):
                address = line.split("<")[1].split(">")[0]
                sender = address if verb == "MAIL" else sender
                recipients += [address] if verb == "RCPT" else []
            if verb == "DATA":
                self.say("354 go on")
                self.server.take(sender, recipients, self.message())
                recipients = []
            self.say("221 bye" if verb == "QUIT" else "250 ok")
            if verb == "QUIT":
                return


class Mailbox(socketserver.ThreadingTCPServer):
    """`hand_on`: the port that mail goes back to, with a header more."""
    allow_reuse_address = daemon_threads = True

    def __init__(self, test, port, hand_on=None):
        super().__init__(("127.0.0.1", port), Taker)
        self.hand_on = hand_on
        self.mail = []                  # (recipients, text)
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()
        test.at_end(self.server_close)

    def take(self, sender, recipients, text):
        self.mail.append((recipients, text.decode(errors="replace")))
        if self.hand_on:
            with smtplib.SMTP("127.0.0.1", self.hand_on, timeout=20) as back:
                back.sendmail(sender, recipients, b"X-Filter: seen\r\n" + text)

    def to(self, recipient):
        """The text of the mail that came for somebody, or None."""
        return next((text for recipients, text in self.mail if recipient in recipients), None)

    def headers(self, recipient):
        """Their names, in order."""
        text = self.to(recipient) or ""
        return [line.split(":")[0] for line in text.replace("\r", "").split("\n\n")[0].splitlines()
                if line and not line[0].isspace()]
