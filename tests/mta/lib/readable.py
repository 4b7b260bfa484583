# SPDX-License-Identifier: ISC
"""Other users run the project's scripts and programs, too: the setup program as nobody, alert-mail
as postern, postern-lookup as nobody.  In a clone that they cannot read (below a home of
mode 0700, or made with umask 077) tests use copies that they can."""
import shutil
import stat
from pathlib import Path

PROGRAMS = ("posternd", "posternctl", "postern-lookup")
PARTS = ("README", "conf", "contrib", "policy", "src", "tests/scenarios")
MADE = shutil.ignore_patterns("*.o", "*.a", ".deps", ".dirstamp", "__pycache__")


def open_to_all(path):
    """May any user read that file, or enter that directory?  One that is not there is no matter."""
    path = Path(path).resolve()
    return not path.exists() or bool(path.stat().st_mode & stat.S_IROTH) and all(
        above.stat().st_mode & stat.S_IXOTH for above in path.parents)


def give(path):
    """Of a copy: readable, and runnable where its owner may run it."""
    mode = path.stat().st_mode
    path.chmod(mode | 0o444 | (0o111 if mode & 0o100 else 0))


def copy_sources(source, to):
    for part in PARTS:
        there = to / part
        there.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        if (source / part).is_dir():
            shutil.copytree(source / part, there, ignore=MADE)
        else:
            shutil.copy(source / part, there)
        for path in (there, *there.rglob("*")):
            give(path)
    for path in (to, to / "tests"):
        path.chmod(0o755)


def view_of_build(build, to):
    """A directory that shows all of the build, with copies of the programs."""
    if to.exists():
        return to
    to.mkdir(mode=0o755)
    for entry in build.iterdir():
        if entry.name in PROGRAMS:
            shutil.copy(entry, to / entry.name)
            give(to / entry.name)
        else:
            (to / entry.name).symlink_to(entry)
    return to
