# SPDX-License-Identifier: ISC
"""Journals as postern-journal(5) tells of them, written anew from that page: made, read and
spoiled by tests."""
import random
import struct

HEAD, POSITIONS, ENVELOPE, START, DELIVERY, FINISH, REPLACEMENT, DESTINATION = range(1, 9)
LOG_POSITION, MANUAL, HELD_RECIPIENT, CHECKPOINT_BEGIN, CHECKPOINT_END, GROUP = range(9, 15)
KINDS = {"feed": 1, "queue": 2, "keeper": 3, "decisions": 4, "accounts": 5}
HEADER, SLOT = 24, 4096
LIVE, GARBAGE = 0xff, 0x00


def crc_table():
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82f63b78 if byte & 1 else 0)
        table.append(byte)
    return table


TABLE = crc_table()


def crc32c(data, begin=0):
    crc = begin ^ 0xffffffff
    for byte in data:
        crc = crc >> 8 ^ TABLE[(crc ^ byte) & 0xff]
    return crc ^ 0xffffffff


def text(value):
    value = value.encode() if isinstance(value, str) else value
    return struct.pack("<H", len(value)) + value


class File:
    """One file, from its head on; `version`: of that.  `synced`: up to which sequence all is on disk, as records
    say that follow."""

    def __init__(self, kind, number=1, sequence=1, previous=(0, 0), synced=0, journal=7, version=1):
        self.salt = random.getrandbits(32)
        self.number, self.sequence, self.synced = number, sequence - 1, synced
        self.data = b""
        head = (b"postern journal\n" + struct.pack("<III", *[self.salt] * 3) +
                struct.pack("<BxxxQQIII", KINDS[kind], journal, 1_795_348_800 * 10**9, number,
                            *previous))
        self.put(HEAD, head, version, begin=0)

    def put(self, kind, payload, version=1, mark=LIVE, begin=None):
        """Where it stands."""
        self.sequence += 1
        front = struct.pack("<BxBBIQI", 0xd6, kind, version, len(payload), self.sequence,
                            self.sequence - self.synced)
        crc = crc32c(front[:1] + front[2:] + payload, self.salt if begin is None else begin)
        place = len(self.data)
        self.data += front[:1] + bytes([mark]) + front[2:] + struct.pack("<I", crc) + payload
        return place

    def envelope(self, identifier, domains, sender="a@example.org", key=None, mta="out"):
        """`domains`: {domain: recipients}."""
        payload = text(mta) + text("/q/q1") + text(identifier)
        payload += struct.pack("<Q", key or random.getrandbits(64) | 1) + text(sender)
        payload += struct.pack("<IqIqqqBBBQQQII", sum(domains.values()), 10**18, 0, 0, 0, 10**18,
                               0, False, False, 0, 5, 0, 0, 0)
        payload += struct.pack("<I", len(domains))
        for domain, recipients in domains.items():
            payload += text(domain) + struct.pack("<Iq", recipients, 0)
        return self.put(ENVELOPE, payload)

    def finish(self, key):
        return self.put(FINISH, struct.pack("<QQIIqB", key, 0, 0, 0, 10**18, 0))

    def sync(self):
        self.synced = self.sequence

    def write(self, directory, length=None):
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / f"{self.number:010d}.log"
        path.write_bytes(self.data[:length])
        return path
