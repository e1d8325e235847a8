"""A headless chromium on two pipes: enough to open a page, ask it and take its picture."""

import base64
import json
import os
import shutil
import subprocess
import sys

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")

# The browser reads commands from descriptor 3 and answers on 4.
CONNECT = """
import fcntl, os, sys
pipes = [fcntl.fcntl(int(number), fcntl.F_DUPFD, 10) for number in sys.argv[1:3]]
for own, pipe in zip((3, 4), pipes):
    os.dup2(pipe, own)
os.execv(sys.argv[3], sys.argv[3:])
"""


class Browser:
    """One page of one browser; use as a context."""

    def __init__(self, folder):
        to_child, self._write = os.pipe()
        self._read, from_child = os.pipe()

        flags = ("--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe")
        quiet = ("--no-first-run", "--disable-extensions", "--hide-scrollbars", "--disable-sync")
        quiet += ("--disable-background-networking", "--disable-component-update")
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-c", CONNECT, str(to_child), str(from_child)),
                *(CHROMIUM, *flags, *quiet, f"--user-data-dir={folder}", "about:blank"),
            ],
            pass_fds=(to_child, from_child),
            stderr=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
        os.close(to_child)
        os.close(from_child)
        self._buffer, self._last, self.events = b"", 0, []
        pages = [t for t in self._send("Target.getTargets")["targetInfos"] if t["type"] == "page"]
        attach = {"targetId": pages[0]["targetId"], "flatten": True}
        self._session = self._send("Target.attachToTarget", attach)["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.command(f"{domain}.enable")

    def __enter__(self):
        return self

    def __exit__(self, *why):
        os.close(self._write)
        os.close(self._read)
        self._process.terminate()
        self._process.wait(timeout=20)

    def command(self, method, **parameters):
        return self._send(method, parameters, self._session)

    def _send(self, method, parameters=None, session=None):
        self._last += 1
        message = {"id": self._last, "method": method, "params": parameters or {}}
        message |= {"sessionId": session} if session else {}
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._last:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def _receive(self):
        while b"\0" not in self._buffer:
            chunk = os.read(self._read, 1 << 20)
            if not chunk:
                raise RuntimeError("the browser has gone")
            self._buffer += chunk
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)

    def open(self, file, width, height, dark=False):
        """Show a file at this width, as a phone below 500."""
        metrics = {"width": width, "height": height, "mobile": width < 500}
        scale = 2 if width < 500 else 1
        self.command("Emulation.setDeviceMetricsOverride", deviceScaleFactor=scale, **metrics)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.command("Emulation.setEmulatedMedia", features=[scheme])
        self.events.clear()
        self.command("Page.navigate", url=file.resolve().as_uri())
        while not any(e.get("method") == "Page.loadEventFired" for e in self.events):
            self.events.append(self._receive())

    def ask(self, expression):
        """The value of an expression in the page."""
        answer = self.command("Runtime.evaluate", expression=expression, returnByValue=True)
        return answer["result"].get("value")

    def requests(self):
        """Every address the page asked for since it was opened."""
        sent = [e for e in self.events if e.get("method") == "Network.requestWillBeSent"]
        return [e["params"]["request"]["url"] for e in sent]

    def complaints(self):
        """What the browser logged as an error: refused content, broken markup, exceptions."""
        logged = [e for e in self.events if e.get("method") == "Log.entryAdded"]
        thrown = [e for e in self.events if e.get("method") == "Runtime.exceptionThrown"]
        return [*(e["params"]["entry"]["text"] for e in logged), *map(str, thrown)]

    def picture(self, file):
        """All of the page, not only what the window shows."""
        whole = {"format": "png", "captureBeyondViewport": True}
        size = self.command("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        data = self.command("Page.captureScreenshot", clip=clip, **whole)["data"]
        file.write_bytes(base64.b64decode(data))
        return file
