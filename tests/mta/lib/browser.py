# SPDX-License-Identifier: ISC
"""A real Chromium without a display, spoken to over its pipe (the DevTools protocol:
objects of JSON, each ended by a NUL).  It gets a home of its own and reaches nothing but
what it is told to open."""
import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
         "--disable-background-networking", "--disable-component-update", "--disable-sync",
         "--disable-dev-shm-usage", "--disable-extensions", "--disable-default-apps",
         "--disable-breakpad", "--no-default-browser-check", "--mute-audio",
         "--hide-scrollbars", "--remote-debugging-pipe",
         "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE localhost , EXCLUDE 127.0.0.1")
PATIENCE = 30


def find():
    """The program, or None."""
    for name in NAMES:
        path = shutil.which(name)
        if path:
            return path
    return None


class Browser:
    """with Browser() as browser: page = browser.page(); page.open(url); page.ask("1 + 1")"""

    def __init__(self):
        self.home = tempfile.mkdtemp(prefix="postern-browser.")
        self.number = 0
        self.buffer = b""
        self.answers = {}
        self.events = []
        to_read, self.to_browser = os.pipe()
        self.from_browser, to_write = os.pipe()
        ends = fcntl.fcntl(to_read, fcntl.F_DUPFD, 10), fcntl.fcntl(to_write, fcntl.F_DUPFD, 10)

        def place():                # the browser's ends are 3 and 4 there
            os.dup2(ends[0], 3)
            os.dup2(ends[1], 4)
        with open(os.path.join(self.home, "log"), "wb") as log:
            self.process = subprocess.Popen(
                [find(), *FLAGS, f"--user-data-dir={self.home}", "about:blank"],
                pass_fds=(3, 4), preexec_fn=place, stdin=subprocess.DEVNULL,
                stdout=log, stderr=log, env={**os.environ, "HOME": self.home})
        for end in ends:
            os.close(end)
        os.close(to_read)
        os.close(to_write)

    def __enter__(self):
        return self

    def __exit__(self, *ignored):
        try:
            self.call("Browser.close")
        except (OSError, RuntimeError):
            pass
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.to_browser)
        os.close(self.from_browser)
        shutil.rmtree(self.home, ignore_errors=True)

    def log(self):
        with open(os.path.join(self.home, "log"), errors="replace") as log:
            return log.read()[-2000:]

    def _read(self, until):
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.from_browser], [], [],
                                        max(0, until - time.monotonic()))
            data = os.read(self.from_browser, 1 << 20) if ready else b""
            if not data:
                raise RuntimeError("the browser " + ("is gone: " + self.log() if ready else
                                                     "does not answer"))
            self.buffer += data
        one, _, self.buffer = self.buffer.partition(b"\0")
        message = json.loads(one)
        if "id" in message:
            self.answers[message["id"]] = message
        else:
            self.events.append(message)

    def call(self, method, session=None, **parameters):
        self.number += 1
        number = self.number
        message = {"id": number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        data = json.dumps(message).encode() + b"\0"
        try:
            while data:
                data = data[os.write(self.to_browser, data):]
        except BrokenPipeError:
            raise RuntimeError("the browser is gone: " + self.log()) from None
        until = time.monotonic() + PATIENCE
        while number not in self.answers:
            self._read(until)
        answer = self.answers.pop(number)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error'].get('message')}")
        return answer.get("result", {})

    def page(self):
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        return Page(self, self.call("Target.attachToTarget", targetId=target,
                                    flatten=True)["sessionId"])


class Page:
    def __init__(self, browser, session):
        self.browser, self.session = browser, session
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method, **parameters):
        return self.browser.call(method, self.session, **parameters)

    def look(self, width, height, dark=False, phone=False):
        """As a window of this size, of somebody who likes it dark."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=2 if phone else 1, mobile=phone)
        self.call("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def open(self, url):
        answer = self.call("Page.navigate", url=url)
        if answer.get("errorText"):
            raise RuntimeError(f"{url}: {answer['errorText']}")
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            try:
                if self.ask("location.href !== 'about:blank' && "
                            "document.readyState === 'complete' && document.body !== null"):
                    return
            except RuntimeError:    # between two pages
                pass
            time.sleep(0.05)
        raise RuntimeError(f"{url}: is not loaded")

    def ask(self, expression):
        """The value of JavaScript's expression, as JSON has it."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True,
                           awaitPromise=True)
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            raise RuntimeError(details.get("exception", {}).get("description") or
                               details.get("text"))
        return answer["result"].get("value")

    def press(self, key):
        code = {"Enter": 13, "Escape": 27, "Tab": 9}[key]
        for what in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=what, key=key, code=key,
                      windowsVirtualKeyCode=code, text="\r" if key == "Enter" and
                      what == "keyDown" else "")

    def wait(self, expression, patience=20):
        """Waits until it is true; its value."""
        until = time.monotonic() + patience
        while True:
            value = self.ask(expression)
            if value or time.monotonic() > until:
                return value
            time.sleep(0.1)

    def screenshot(self, path):
        data = self.call("Page.captureScreenshot", format="png")["data"]
        with open(path, "wb") as out:
            out.write(base64.b64decode(data))

    def happened(self, *methods):
        """What the page told since it was opened: events of these methods."""
        self.ask("0")
        return [event for event in self.browser.events
                if event.get("sessionId") == self.session and event["method"] in methods]
