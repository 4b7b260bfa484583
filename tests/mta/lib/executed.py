# SPDX-License-Identifier: ISC
"""Which programs a process executes: each exec below the directories waits until it was
written down (fanotify), so that none is missed, however short."""
import ctypes
import os
import struct

CLASS_CONTENT, CLOEXEC = 0x4, 0x1
MARK_ADD, MARK_MOUNT, OPEN_EXEC_PERM = 0x1, 0x10, 0x40000
ALLOW = 1
EVENT = struct.Struct("=IBBHQii")
LIBC = ctypes.CDLL(None, use_errno=True)


def mount_points():
    """All of this namespace that programs may lie on."""
    with open("/proc/self/mountinfo") as mounts:
        found = [line.split()[4].encode().decode("unicode_escape") for line in mounts]
    return [path for path in found if not path.startswith(("/proc", "/sys", "/dev"))]


def parent_and_user(pid):
    with open(f"/proc/{pid}/status") as status:
        facts = dict(line.rstrip("\n").split(":\t", 1) for line in status if ":\t" in line)
    return int(facts["PPid"]), int(facts["Uid"].split()[1])


def serve(group, parent, out):
    """Of children of `parent`; all others go on unseen."""
    while True:
        data = os.read(group, 4096)
        while data:
            length, _, _, _, _, fd, pid = EVENT.unpack_from(data)
            try:
                its_parent, user = parent_and_user(pid)
                if its_parent == parent:
                    os.write(out, f"{user} {os.readlink(f'/proc/self/fd/{fd}')}\n".encode())
            except OSError:
                pass                            # it has died meanwhile
            os.write(group, struct.pack("=iI", fd, ALLOW))
            os.close(fd)
            data = data[length:]


class Executed:
    """From now on.  `possible` is false where the kernel cannot do it."""

    def __init__(self, test, parent):
        self.path = test.logs / "executed"
        out = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        group = LIBC.fanotify_init(CLASS_CONTENT | CLOEXEC, os.O_RDONLY | os.O_CLOEXEC)
        marked = [LIBC.fanotify_mark(group, MARK_ADD | MARK_MOUNT, ctypes.c_uint64(OPEN_EXEC_PERM),
                                     -100, path.encode()) == 0 for path in mount_points()]
        self.possible = group >= 0 and any(marked)
        if self.possible:
            # a process of its own: this one waits for what it executes
            child = os.fork()
            if child == 0:
                try:
                    serve(group, parent, out)
                finally:
                    os._exit(1)
            test.at_end(lambda: os.kill(child, 9))
        if group >= 0:
            os.close(group)
        os.close(out)

    def all(self):
        """{(user, path)}"""
        return {(int(line.split(" ", 1)[0]), line.split(" ", 1)[1])
                for line in self.path.read_text().splitlines()}
