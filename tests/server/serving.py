# SPDX-License-Identifier: Apache-2.0
"""What the server's suites share: a store made by hand, a running server, raw and plain HTTP."""

import http.client
import json
import re
import socket
import time
import urllib.parse

import harness


def make_store(path, *arguments):
    """Makes a test store; gives what make_test_store told about it."""
    import subprocess

    told = subprocess.run([harness.test_program("make_test_store"), path, *map(str, arguments)],
                          check=True, capture_output=True, text=True)
    return json.loads(told.stdout)


class Answer:
    """One response: `status`, `headers` (lower-case names, last one wins) and `body` as bytes."""

    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    def json(self):
        return json.loads(self.body)

    def code(self):
        return self.json()["errors"][0]["code"]

    def message(self):
        return self.json()["errors"][0]["message"]

    def __repr__(self):
        return f"{self.status} {self.headers} {self.body[:300]!r}"


class Case(harness.Case):
    """A case with a store (`self.told`) and `serve` to start servers on it."""

    store_arguments = ()

    def setUp(self):
        super().setUp()
        self.store = self.tmp / "store.cubinary"
        self.told = make_store(self.store, *self.store_arguments)

    def eventually(self, holds, seconds=30):
        """Waits until `holds()`: what is counted and logged once an answer has been sent may come after
        the client has read it."""
        end = time.monotonic() + seconds
        while not holds():
            self.assertLess(time.monotonic(), end, "it never came to hold")
            time.sleep(0.02)

    def serve(self, *options, store=None):
        """Starts a server on a free port, in place of one that runs: a store has one owner. Sets self.server
        and self.port."""
        if getattr(self, "server", None) is not None:
            self.server.stop()
        options = [str(option) for option in options]
        if "--listen" not in options:
            options += ["--listen", "127.0.0.1:0"]
        if "--access-log" not in options:
            options += ["--access-log", str(self.tmp / "access.log")]
        self.server = self.background(harness.binary("cubinary"), "serve", "--store",
                                      store or self.store, *options)
        match = self.server.line(r"^serving (\S+) on (https?)://(\S+):(\d+)$")
        self.assertEqual(match.group(1), str(store or self.store))
        self.port = int(match.group(4))
        return self.server

    def connection(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        self.addCleanup(connection.close)
        return connection

    def ask(self, target, method="GET", connection=None, body=None, **headers):
        """One request; header names are written with _ for -."""
        connection = connection or self.connection()
        connection.request(method, target, body=body,
                           headers={name.replace("_", "-"): value for name, value in headers.items()})
        response = connection.getresponse()
        return Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())

    def resolve(self, **parameters):
        return self.ask("/api/v1/resolve?" + urllib.parse.urlencode(parameters, safe=":,"))

    def raw(self, data, source=None, timeout=60):
        """Sends bytes as they are and reads until the server closes; gives everything it sent."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=timeout,
                                      source_address=(source, 0) if source else None) as peer:
            try:
                peer.sendall(data)
            except (BrokenPipeError, ConnectionResetError):
                pass
            received = b""
            while True:
                try:
                    piece = peer.recv(65536)
                except ConnectionResetError:
                    break
                if not piece:
                    break
                received += piece
            return received

    def raw_status(self, data, **options):
        """The status of the only response to raw bytes, after which the server must close."""
        received = self.raw(data, **options)
        self.assertRegex(received, rb"\AHTTP/1\.1 \d{3} ", received[:200])
        self.assertEqual(len(re.findall(rb"HTTP/1\.1 \d{3} ", received)), 1, received[:500])
        return int(received.split()[1])

    def metric(self, name):
        """The value of one sample of /metrics, 0 when it is not there."""
        text = self.ask("/metrics").body.decode()
        match = re.search(rf"^cubinary_{re.escape(name)} (\S+)$", text, re.M)
        return float(match.group(1)) if match else 0.0

    def check_healthy(self):
        self.assertEqual(self.ask("/livez").status, 200)
        self.assertEqual(self.ask("/readyz").status, 200)
