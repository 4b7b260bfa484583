# SPDX-License-Identifier: ISC
"""A directory as it is, to the last byte: what undo must give back."""
import hashlib
import os


def tree(directory):
    """path -> all that there is to know of it but the inode and its times."""
    found = {}
    for place, names, files in os.walk(directory):
        for path in [os.path.join(place, name) for name in names + files]:
            status = os.lstat(path)
            content = (os.readlink(path) if os.path.islink(path) else
                       hashlib.sha256(open(path, "rb").read()).hexdigest()
                       if os.path.isfile(path) else "")
            found[os.path.relpath(path, directory)] = (
                content, status.st_mode, status.st_uid, status.st_gid,
                status.st_mtime_ns if os.path.isfile(path) else None)
    return found
