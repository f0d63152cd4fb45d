# SPDX-License-Identifier: Apache-2.0
"""An OCI registry over a layout folder that misbehaves as told."""

import http.server
import json
import os
import re
import socket
import struct
import threading
import time


class Fault:
    """Applies to the next `times` requests whose path contains `part`."""

    def __init__(self, part, kind, times=1, **options):
        self.part, self.kind, self.times, self.options = part, kind, times, options


class FaultServer:
    def __init__(self, layout, repository="cubinary"):
        self.layout = layout
        self.repository = repository
        self.faults = []
        self.requests = []  # (path, headers)
        self.token = None  # Authorization value that is asked for
        self.flip = None  # (random.Random, share): so many answers arrive with one bit flipped
        self.flipped = 0
        self.lock = threading.Lock()
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args):
                pass

            def do_GET(self):
                outer.handle(self)

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128

            def handle_error(self, request, client_address):
                pass  # clients break off on purpose

        self.listen = lambda port: Server(("127.0.0.1", port), Handler)
        self.restarts = []
        self.server = self.listen(0)
        self.url = "http://127.0.0.1:%d" % self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def restart(self, seconds):
        """Nobody listens for that long, then a new server does."""
        port = self.server.server_address[1]
        self.close()
        time.sleep(seconds)
        self.server = self.listen(port)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def tags(self):
        with open(os.path.join(self.layout, "index.json"), encoding="utf-8") as file:
            index = json.load(file)
        return {
            d["annotations"]["org.opencontainers.image.ref.name"]: d["digest"]
            for d in index["manifests"]
            if "annotations" in d
        }

    def blob(self, digest):
        path = os.path.join(self.layout, "blobs", "sha256", digest.removeprefix("sha256:"))
        try:
            with open(path, "rb") as file:
                return file.read()
        except OSError:
            return None

    def find(self, path):
        base = "/v2/%s/" % self.repository
        if not path.startswith(base):
            return None
        rest = path[len(base) :].split("?")[0]
        if rest == "tags/list":
            return json.dumps({"name": self.repository, "tags": sorted(self.tags())}).encode()
        kind, _, name = rest.partition("/")
        if kind == "manifests":
            return self.blob(self.tags().get(name, name))
        if kind == "blobs":
            return self.blob(name)
        return None

    def take_fault(self, path):
        with self.lock:
            for fault in self.faults:
                if fault.times > 0 and fault.part in path:
                    fault.times -= 1
                    return fault
        return None

    def handle(self, request):
        with self.lock:
            self.requests.append((request.path, dict(request.headers)))
        fault = self.take_fault(request.path)
        kind = fault.kind if fault else None
        options = fault.options if fault else {}
        if self.token and request.headers.get("Authorization") != self.token:
            self.send(request, 401, b"{}", {"WWW-Authenticate": options.get("challenge", "Bearer")})
            return
        if kind == "reset":  # before a byte
            self.reset(request)
            return
        if kind == "restart":
            self.restarts.append(threading.Thread(target=self.restart, args=(options.get("seconds", 0.4),)))
            self.restarts[-1].start()
            self.reset(request)
            return
        if kind == "status":
            self.send(request, options["status"], b"sorry", options.get("headers", {}))
            return
        if kind == "redirect":
            self.send(request, options.get("status", 307), b"", {"Location": options["to"]})
            return
        body = self.find(request.path)
        if body is None:
            self.send(request, 404, b'{"errors":[]}', {})
            return
        status, headers, start = 200, {}, 0
        match = re.fullmatch(r"bytes=(\d+)-", request.headers.get("Range", ""))
        if match and kind != "no-range":
            start = int(match.group(1))
            status = 206
            headers["Content-Range"] = "bytes %d-%d/%d" % (start, len(body) - 1, len(body))
            if kind == "wrong-range":
                headers["Content-Range"] = "bytes 0-%d/%d" % (len(body) - 1, len(body))
        whole, body = body, body[start:]
        with self.lock:
            if self.flip and body and self.flip[0].random() < self.flip[1]:
                self.flipped += 1
                at = self.flip[0].randrange(8 * len(body))
                body = body[: at // 8] + bytes([body[at // 8] ^ 1 << at % 8]) + body[at // 8 + 1 :]
        if kind == "wrong-bytes":
            body = bytes([body[0] ^ 1]) + body[1:]
        if kind == "longer":
            body = body + b"x" * options.get("extra", 1)
        if kind == "shorter":
            body = body[:-1]
        if kind in ("truncate", "truncate-reset"):  # the length is right, the bytes stop
            cut = options.get("after", max(1, len(body) // 2))
            self.head(request, status, len(body), headers)
            request.wfile.write(body[:cut])
            request.wfile.flush()
            request.close_connection = True
            if kind == "truncate-reset":
                self.reset(request)
            return
        if kind == "drip":
            self.head(request, status, len(body), headers)
            for i in range(len(body)):
                try:
                    request.wfile.write(body[i : i + 1])
                    request.wfile.flush()
                except OSError:
                    return
                time.sleep(options.get("pause", 0.05))
            return
        if kind == "endless":  # no length, no end
            request.send_response(200)
            request.send_header("Connection", "close")
            request.end_headers()
            request.close_connection = True
            try:
                while True:
                    request.wfile.write(whole)
            except OSError:
                return
        if kind == "silent":
            time.sleep(options.get("seconds", 30))
        self.send(request, status, body, headers)

    @staticmethod
    def reset(request):
        request.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        request.close_connection = True
        request.connection.close()

    @staticmethod
    def head(request, status, length, headers):
        request.send_response(status)
        for name, value in headers.items():
            request.send_header(name, value)
        request.send_header("Content-Length", str(length))
        request.end_headers()

    def send(self, request, status, body, headers):
        self.head(request, status, len(body), headers)
        request.wfile.write(body)
