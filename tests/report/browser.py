"""A headless Chromium without a network, driven by chromedriver's HTTP on loopback.

    with Browser() as browser:
        browser.open(path, width=390)
        browser.run("return document.title")

All that it starts ends with it, and what it writes is in a folder that goes along. The process that uses it has no other children.
"""
import base64
import ctypes
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

PROGRAMS = ("chromium", "chromedriver")
ARGUMENTS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
             "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--hide-scrollbars", "--disable-lcd-text"]
# Of one command; the driver's own, of loading a page, is five minutes.
PATIENCE = 60
PR_SET_CHILD_SUBREAPER = 36


def missing():
    """Those of its programs that are not installed."""
    return [program for program in PROGRAMS if not shutil.which(program)]


class Browser:
    def __enter__(self):
        self.folder = tempfile.mkdtemp(prefix="report-browser-")
        # A process that the browser leaves behind becomes a child of this process, which ends it. A home of its own: crash reports go there.
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self.driver = subprocess.Popen(["chromedriver", "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                       env=os.environ | {"HOME": self.folder})
        self.opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            self.address = f"http://127.0.0.1:{self._port()}"
            options = {"binary": shutil.which("chromium"), "args": ARGUMENTS + [f"--user-data-dir={self.folder}/profile"]}
            self.session = ""
            self.session = "/session/" + self._call("/session", {"capabilities": {"alwaysMatch": {
                "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}}})["sessionId"]
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_):
        try:
            self._call("", method="DELETE")
        except OSError:
            pass  # it is ended below all the same
        self._end()

    def open(self, path, width, height=844):
        """The file, on a screen of that size, by day; what the console said before is forgotten."""
        self.show(f"file://{path}", width, height)

    def show(self, url, width, height=844, scheme="light"):
        """The same of a URL, by day or by night ("dark")."""
        self._devtools("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self._devtools("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
        self.console()
        self._call("/url", {"url": url})

    def run(self, script, *arguments):
        """What the script returns."""
        return self._call("/execute/sync", {"script": script, "args": arguments})

    def console(self):
        """What the console has said since the last call, a line each."""
        return [f"{one['level']}: {one['message']}" for one in self._call("/se/log", {"type": "browser"})]

    def picture(self, width, height, scale):
        """A PNG of the page's beginning."""
        clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": scale}
        shot = self._devtools("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        return base64.b64decode(shot["data"])

    def _devtools(self, command, **parameters):
        return self._call("/goog/cdp/execute", {"cmd": command, "params": parameters})

    def _port(self):
        for line in self.driver.stdout:
            if started := re.search(r"started successfully on port (\d+)", line):
                return int(started[1])
        raise OSError("chromedriver did not start")

    def _call(self, path, body=None, method="POST"):
        request = urllib.request.Request(self.address + self.session + path, method=method, headers={"Content-Type": "application/json"},
                                         data=None if body is None else json.dumps(body).encode())
        try:
            with self.opener.open(request, timeout=PATIENCE) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise OSError(f"{path}: {error.read().decode(errors='replace')[:600]}") from error

    def _end(self):
        self.driver.stdout.close()
        end_children()
        self.driver.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def end_children():
    """Ends all children of this process, and theirs, which become its own by that."""
    for _ in range(200):
        for pid in pathlib.Path("/proc/thread-self/children").read_text().split():
            os.kill(int(pid), signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.05)
    raise OSError("processes of the browser do not end")
