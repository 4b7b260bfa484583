# SPDX-License-Identifier: ISC
"""A terminal that can be looked at: a program in a window of tmux, its screen as text, keys."""
import os
import subprocess
from pathlib import Path

from lib.testing import mount


def have_terminals():
    """The test's own /dev has none."""
    if not Path("/dev/pts").exists():
        Path("/dev/pts").mkdir()
        mount("-t", "devpts", "-o", "newinstance,ptmxmode=0666,mode=620", "devpts", "/dev/pts")
        Path("/dev/ptmx").symlink_to("pts/ptmx")


class Terminal:
    """Runs `argv`; what it leaves behind on the screen stays there when it ends."""

    def __init__(self, test, argv, columns=100, rows=30, **environment):
        self.test, self.tmux = test, test.need("tmux")
        have_terminals()
        self.socket = test.directory / f"tmux-{id(self)}"
        variables = [f"{name}={value}" for name, value in environment.items()]
        # tmux itself does not always know how it ended
        self.code = Path(f"{self.socket}.code")
        self.run("-f", "/dev/null", "new-session", "-d", "-x", columns, "-y", rows,
                 "sh", "-c", f'"$@"; echo $? >{self.code}.new; mv {self.code}.new {self.code}',
                 "sh", "env", *variables, *argv, ";", "set", "-g", "remain-on-exit", "on",
                 ";", "set", "-g", "status", "off", ";", "set", "-g", "allow-rename", "on")
        test.at_end(lambda: self.run("kill-server", check=False))

    def run(self, *words, check=True):
        done = subprocess.run([self.tmux, "-S", self.socket, *map(str, words)], text=True,
                              capture_output=True, timeout=20,
                              env={**os.environ, "TERM": "screen", "LC_ALL": "C.UTF-8"})
        if check and done.returncode != 0:
            raise RuntimeError(f"tmux {words[0]}: {done.stderr.strip()}")
        return done.stdout

    def keys(self, *keys):
        """Names as of tmux (Enter, Escape, Tab, Down ...), or characters."""
        self.run("send-keys", *keys)

    def type(self, text):
        self.run("send-keys", "-l", text)

    def screen(self, colors=False):
        return self.run("capture-pane", "-p", *(["-e"] if colors else []))

    def all(self, colors=False):
        """With what has left it above."""
        return self.run("capture-pane", "-p", "-S", "-", *(["-e"] if colors else []))

    def shows(self, *texts, limit=5.0):
        """The screen that has all of them; the test fails where it does not come."""
        seen = ""

        def there():
            nonlocal seen
            seen = self.screen()
            return all(text in seen for text in texts)

        self.test.within(limit, there, f"the screen shows {', '.join(map(repr, texts))}")
        if not all(text in seen for text in texts):
            self.test.say("\n" + seen)
        return seen

    def resize(self, columns, rows):
        self.run("resize-window", "-x", columns, "-y", rows)

    def title(self):
        return self.run("display", "-p", "#{pane_title}").strip()

    def ended(self):
        """The exit code, or None."""
        return int(self.code.read_text()) if self.code.exists() else None
