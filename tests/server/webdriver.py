# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium driven over the WebDriver protocol, as far as the page's tests need it."""

import base64
import json
import socket
import subprocess
import time
import urllib.error
import urllib.request

import harness

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # the protocol's own name of an element reference


class Browser:
    """One browser window. Use as a context; needs chromium and chromedriver on the PATH."""

    def __init__(self, width=1300, height=900, dark=False):
        self._port = harness.free_port()
        self._driver = subprocess.Popen([harness.find_tool("chromedriver"), f"--port={self._port}"],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
        for _ in range(300):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self._port)) == 0:
                    break
            time.sleep(0.1)
        arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                     f"--window-size={width},{height}", "--hide-scrollbars"]  # fmt: skip
        if dark:
            arguments.append("--force-dark-mode")
        options = {"args": arguments, "binary": harness.find_tool("chromium")}
        answer = self._call("POST", "/session", {"capabilities": {"alwaysMatch": {
            "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}}})  # fmt: skip
        self._session = "/session/" + answer["sessionId"]
        if dark:
            self._call("POST", self._session + "/goog/cdp/execute", {
                "cmd": "Emulation.setEmulatedMedia",
                "params": {"features": [{"name": "prefers-color-scheme", "value": "dark"}]}})  # fmt: skip

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self._call("DELETE", self._session)
        finally:
            self._driver.kill()
            self._driver.wait()

    def _call(self, method, path, body=None):
        request = urllib.request.Request(f"http://127.0.0.1:{self._port}{path}", method=method,
                                         data=None if body is None else json.dumps(body).encode(),
                                         headers={"Content-Type": "application/json"})  # fmt: skip
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise AssertionError(error.read().decode()) from None

    def open(self, url):
        self._call("POST", self._session + "/url", {"url": url})

    def run(self, script, *arguments):
        """The value of a function body's `return`."""
        return self._call("POST", self._session + "/execute/sync", {"script": script, "args": list(arguments)})

    def wait(self, script, timeout=60):
        """Waits until the script returns something true, and returns it."""
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            if found := self.run(script):
                return found
            time.sleep(0.1)
        raise AssertionError(f"never true: {script}\n{self.run('return document.body.innerText')[:2000]}")

    def keys(self, text):
        """Types into whatever has the focus."""
        element = self._call("GET", self._session + "/element/active")[ELEMENT]
        self._call("POST", f"{self._session}/element/{element}/value", {"text": text})

    def screenshot(self, path):
        path.write_bytes(base64.b64decode(self._call("GET", self._session + "/screenshot")))

    def problems(self):
        """What the browser's console calls errors: scripts that failed, what the page's policy refused."""
        entries = self._call("POST", self._session + "/se/log", {"type": "browser"})
        return [entry["message"] for entry in entries if entry["level"] == "SEVERE"]
