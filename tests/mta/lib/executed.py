# SPDX-License-Identifier: ISC
"""Which programs a process executes, and which files of a directory it opens: each waits until
it was written down (fanotify), so that none is missed, however short."""
import ctypes
import os
import struct

CLASS_CONTENT, CLOEXEC = 0x4, 0x1
MARK_ADD, MARK_MOUNT, OPEN_EXEC_PERM = 0x1, 0x10, 0x40000
OPEN_PERM, OF_CHILDREN = 0x10000, 0x08000000
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


def user_of_child(parent, pid):
    """None: it is no child of `parent`."""
    its_parent, user = parent_and_user(pid)
    return user if its_parent == parent else None


def serve(group, out, number_of):
    """number_of(pid) goes before the path; None: it goes on unseen."""
    while True:
        data = os.read(group, 4096)
        while data:
            length, _, _, _, _, fd, pid = EVENT.unpack_from(data)
            try:
                number = number_of(pid)
                if number is not None:
                    os.write(out, f"{number} {os.readlink(f'/proc/self/fd/{fd}')}\n".encode())
            except OSError:
                pass                            # it has died meanwhile
            os.write(group, struct.pack("=iI", fd, ALLOW))
            os.close(fd)
            data = data[length:]


class Record:
    """From now on.  `possible` is false where the kernel cannot do it."""

    def __init__(self, test, name, flags, mask, places, number_of):
        self.path = test.logs / name
        out = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        group = LIBC.fanotify_init(CLASS_CONTENT | CLOEXEC, os.O_RDONLY | os.O_CLOEXEC)
        marked = [LIBC.fanotify_mark(group, MARK_ADD | flags, ctypes.c_uint64(mask), -100,
                                     str(path).encode()) == 0 for path in places]
        self.possible = group >= 0 and any(marked)
        if self.possible:
            # a process of its own: this one waits for what it executes
            child = os.fork()
            if child == 0:
                try:
                    serve(group, out, number_of)
                finally:
                    os._exit(1)
            test.at_end(lambda: os.kill(child, 9))
        if group >= 0:
            os.close(group)
        os.close(out)

    def all(self):
        """{(number, path)}"""
        return {(int(line.split(" ", 1)[0]), line.split(" ", 1)[1])
                for line in self.path.read_text().splitlines()}


class Executed(Record):
    """By children of `parent`; the numbers are their users."""

    def __init__(self, test, parent):
        super().__init__(test, "executed", MARK_MOUNT, OPEN_EXEC_PERM, mount_points(),
                         lambda pid: user_of_child(parent, pid))


class Opened(Record):
    """In a directory; the numbers are the processes."""

    def __init__(self, test, directory):
        super().__init__(test, "opened", 0, OPEN_PERM | OF_CHILDREN, [directory], lambda pid: pid)
