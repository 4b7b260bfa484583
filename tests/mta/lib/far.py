# SPDX-License-Identifier: ISC
"""Mail servers of far sites in a process of their own: many addresses, each with its
delays and faults, and a record of every message that was taken."""
import asyncio
import json
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

# What a site does: takes mail, but for users whose name begins with "unknown"; accepts
# and never greets; never answers the final dot; answers each recipient with 451.
GOOD, SILENT, AT_DOT, REFUSING = "good", "silent", "at-dot", "refusing"


class Sites:
    """`addresses` listen on `port`.  Times are those of time.monotonic()."""

    def __init__(self, test, addresses, port, name="far"):
        self.record = test.logs / f"{name}.record"
        self.record.touch()
        self.process = subprocess.Popen(
            [sys.executable, "-B", __file__, str(self.record), str(port), *addresses],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        test.at_end(self.end)
        self.read_to, self.rest, self.lines = 0, "", []
        self.state()

    def end(self):
        self.process.kill()
        self.process.wait()

    def ask(self, **words):
        self.process.stdin.write(json.dumps(words) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def tell(self, addresses=(), **settings):
        """`delay`: seconds for each recipient; `does`: see above; `limit`: sessions at a
        time, others read 421 (0: any number); of these addresses, or of all."""
        self.ask(do="set", addresses=list(addresses), settings=settings)

    def close(self, address):
        """Nobody listens there any more; what is connected stays."""
        self.ask(do="close", addresses=[address])

    def open(self, address):
        self.ask(do="open", addresses=[address])

    def state(self):
        """address -> open, most: connections now, and at one time; connections: in all;
        busy: messages between MAIL and the end of the answer."""
        return self.ask(do="state")

    def forget(self):
        """The most is what is open now; deliveries() begins anew."""
        self.ask(do="forget")
        self.deliveries()
        self.lines = []

    def deliveries(self):
        """[(time, address, [recipients])], since forget()."""
        with open(self.record) as file:
            file.seek(self.read_to)
            text = self.rest + file.read()
            self.read_to = file.tell()
        lines = text.split("\n")
        self.rest = lines.pop()
        for line in lines:
            when, address, *recipients = line.split()
            self.lines.append((float(when), address, recipients))
        return self.lines

    def delivered(self):
        """Every recipient, as often as it was taken."""
        return Counter(recipient for _, _, recipients in self.deliveries()
                       for recipient in recipients)

    def count(self):
        return sum(len(recipients) for _, _, recipients in self.deliveries())

    def when(self):
        """recipient -> when it was taken first."""
        first = {}
        for when, _, recipients in self.deliveries():
            for recipient in recipients:
                first.setdefault(recipient, when)
        return first


class Site:
    def __init__(self):
        self.delay, self.does, self.limit = 0.0, GOOD, 0
        self.refused = 0                    # of those that are open
        self.open = self.most = self.connections = self.busy = 0
        self.server = None


class Connection(asyncio.Protocol):
    def __init__(self, site, address, record):
        self.site, self.address, self.record = site, address, record
        self.data, self.in_body, self.recipients, self.waits = b"", False, [], False
        self.transport = None
        self.busy = self.refused = False

    def connection_made(self, transport):
        self.transport = transport
        self.site.open += 1
        self.site.connections += 1
        self.site.most = max(self.site.most, self.site.open)
        self.refused = 0 < self.site.limit < self.site.open - self.site.refused
        self.site.refused += self.refused
        if self.refused:
            self.say("421 4.7.0 too many sessions")
            transport.close()
        elif self.site.does != SILENT:
            self.say("220 far.example ESMTP")

    def connection_lost(self, _):
        self.site.open -= 1
        self.site.refused -= self.refused
        self.set_busy(False)

    def set_busy(self, busy):
        self.site.busy += busy - self.busy
        self.busy = busy

    def say(self, text):
        self.transport.write(text.encode() + b"\r\n")

    def data_received(self, data):
        self.data += data
        self.go_on()

    def go_on(self):
        while not self.waits and self.site.does != SILENT:
            if self.in_body:
                end = self.data.find(b"\r\n.\r\n")
                if end < 0:
                    return
                self.data, self.in_body = self.data[end + 5:], False
                self.dot()
            else:
                line, newline, rest = self.data.partition(b"\r\n")
                if not newline:
                    return
                self.data = rest
                self.command(line.decode(errors="replace"))

    def command(self, line):
        verb = line[:4].upper()
        if verb == "QUIT":
            self.say("221 bye")
            self.transport.close()
            return
        if verb == "DATA":
            self.in_body = True
            self.data = b"\r\n" + self.data         # a body may be empty
            self.say("354 go on")
            return
        if verb == "RCPT":
            if self.site.does == REFUSING:
                self.say("451 4.3.0 not now")
                return
            recipient = line.partition(":")[2].strip().strip("<>")
            if recipient.startswith("unknown"):
                self.say("550 5.1.1 no such user")
                return
            self.recipients.append(recipient)
        elif verb in ("MAIL", "RSET"):
            self.recipients = []
            self.set_busy(verb == "MAIL")
        self.say("250 ok")

    def dot(self):
        self.waits = True
        if self.site.does != AT_DOT:
            asyncio.get_running_loop().call_later(
                self.site.delay * len(self.recipients), self.taken)

    def taken(self):
        if self.transport.is_closing():             # it was not there any more
            return
        self.record.write(f"{time.monotonic():.4f} {self.address} "
                          f"{' '.join(self.recipients)}\n")
        self.set_busy(False)
        self.waits, self.recipients = False, []
        self.say("250 taken")
        self.go_on()


class Process:
    """The other side of Sites."""

    def __init__(self, record, port, addresses):
        self.record = open(record, "a", buffering=1)
        self.port = int(port)
        self.sites = {address: Site() for address in addresses}

    async def listen(self, address):
        site = self.sites[address]
        site.server = await asyncio.get_running_loop().create_server(
            lambda: Connection(site, address, self.record), address, self.port, backlog=256)

    async def do(self, words):
        of = words.get("addresses") or list(self.sites)
        if words["do"] == "set":
            for address in of:
                vars(self.sites[address]).update(words["settings"])
        elif words["do"] == "close":
            for address in of:
                self.sites[address].server.close()
        elif words["do"] == "open":
            for address in of:
                await self.listen(address)
        elif words["do"] == "forget":
            for site in self.sites.values():
                site.most, site.connections = site.open, 0
        return {address: {"open": site.open, "most": site.most, "busy": site.busy,
                          "connections": site.connections}
                for address, site in self.sites.items()} if words["do"] == "state" else {}

    async def main(self):
        loop = asyncio.get_running_loop()
        for address in self.sites:
            await self.listen(address)
        reader = asyncio.StreamReader()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        while line := await reader.readline():
            print(json.dumps(await self.do(json.loads(line))), flush=True)


if __name__ == "__main__":
    asyncio.run(Process(Path(sys.argv[1]), sys.argv[2], sys.argv[3:]).main())
