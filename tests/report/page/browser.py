"""A real browser without a window, told what to do over a pipe.

Chromium's DevTools protocol: JSON messages that end with a zero byte, written to its
file descriptor 3 and read from 4. That needs no package.
"""

import base64
import contextlib
import json
import os
import select
import shutil
import subprocess
import sys
import time

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
_FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run "
    "--disable-background-networking --disable-component-update --disable-sync "
    "--disable-dev-shm-usage --hide-scrollbars --remote-debugging-pipe"
).split()
_LAUNCHER = """
import fcntl, os, sys
given = [fcntl.fcntl(int(fd), fcntl.F_DUPFD, 10) for fd in sys.argv[1:3]]
for fd, place in zip(given, (3, 4)):
    os.dup2(fd, place)
os.execv(sys.argv[3], sys.argv[3:])
"""
_TIMEOUT = 60


class Browser:
    """One tab; keeps the events that the browser reports."""

    def __init__(self, to_browser, from_browser):
        self._to, self._from, self._rest = to_browser, from_browser, b""
        self._number, self._session, self.events = 0, None, []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method, **params):
        """Sends a command and waits for its answer."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return answer["result"]

    def _receive(self):
        end = time.monotonic() + _TIMEOUT
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._from], [], [], end - time.monotonic())
            assert ready, "the browser does not answer"
            data = os.read(self._from, 1 << 20)
            assert data, "the browser has ended"
            self._rest += data
        first, self._rest = self._rest.split(b"\0", 1)
        message = json.loads(first)
        if "method" in message:
            self.events.append(message)
        return message

    def open(self, path, *, width, height=800, dark=False):
        """Shows a file in a window of that size, and waits until all is there."""
        self.events.clear()
        size = dict(width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setDeviceMetricsOverride", **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call("Page.navigate", url=path.resolve().as_uri())
        while not any(e["method"] == "Page.loadEventFired" for e in self.events):
            self._receive()

    def evaluate(self, script):
        """The value of a JavaScript expression, also of a promise."""
        settings = dict(returnByValue=True, awaitPromise=True)
        answer = self.call("Runtime.evaluate", expression=script, **settings)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def press(self, key):
        """A key of the keyboard, by its name in JavaScript."""
        code = {"Tab": 9, "Enter": 13, "Escape": 27, "ArrowLeft": 37, "ArrowRight": 39}
        text = {"Enter": "\r"}.get(key)
        common = dict(key=key, code=key, windowsVirtualKeyCode=code[key])
        down = common | ({"text": text} if text else {})
        self.call("Input.dispatchKeyEvent", type="keyDown", **down)
        self.call("Input.dispatchKeyEvent", type="keyUp", **common)

    def complaints(self):
        """What the console shows, and exceptions of scripts."""
        kinds = (
            "Log.entryAdded",
            "Runtime.exceptionThrown",
            "Runtime.consoleAPICalled",
        )
        return [e["params"] for e in self.events if e["method"] in kinds]

    def requests(self):
        """Addresses that were asked for, data in the file itself left out."""
        sent = [e for e in self.events if e["method"] == "Network.requestWillBeSent"]
        urls = [event["params"]["request"]["url"] for event in sent]
        return [url for url in urls if not url.startswith("data:")]

    def screenshot(self, path):
        """A picture of the whole page."""
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(shot["data"]))


@contextlib.contextmanager
def browser(folder):
    """Starts Chromium with a profile of its own in a folder, and ends it."""
    (read_in, write_in), (read_out, write_out) = os.pipe(), os.pipe()

    # The launcher puts the pipes where Chromium looks for them. A function to call
    # before the program starts would make Python fork, of which JAX warns.
    launcher = [sys.executable, "-c", _LAUNCHER, str(read_in), str(write_out)]
    process = subprocess.Popen(
        [*launcher, CHROMIUM, *_FLAGS, f"--user-data-dir={folder}"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=(read_in, write_out),
    )
    os.close(read_in)
    os.close(write_out)
    try:
        yield Browser(write_in, read_out)
    finally:
        process.terminate()
        process.wait(_TIMEOUT)
        os.close(write_in)
        os.close(read_out)
