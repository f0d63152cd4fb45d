#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A fleet that starts at once: so many cold clients ask for a release in the same moment.

Each opens a connection of its own and pulls what a client needs, digest checked: index by tag, signature,
manifest, catalogue, a pack. Prints how many failed, how long the slowest and the median client took, and the
most memory the server took; with --edge once more through nginx with docker/nginx.conf (TLS, token, cache), and
how often that asked the origin. With --hold N,M,… so many clients connect and stay, half of them silent and half in
the middle of a request: memory, threads, and what a healthy client waits beside them.
"""

import argparse
import asyncio
import hashlib
import json
import pathlib
import re
import resource
import shutil
import signal
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent


class Client:
    """One cold client: a connection, five pulls."""

    def __init__(self, port, told, context=None, token=None):
        self.port, self.told, self.context = port, told, context
        self.extra = f"Authorization: Bearer {token}\r\n" if token else ""

    async def get(self, reader, writer, target):
        writer.write(f"GET {target} HTTP/1.1\r\nHost: localhost\r\n{self.extra}\r\n".encode())
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        if " 200 " not in head.splitlines()[0]:
            raise OSError(f"{target}: {head.splitlines()[0]}")
        length = int(re.search(r"(?i)content-length: (\d+)", head).group(1))
        return await reader.readexactly(length)

    async def pull(self):
        begin = time.monotonic()
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, ssl=self.context, limit=1 << 20)
        try:
            release = self.told["r1"]
            index = await self.get(reader, writer, "/v2/cubinary/manifests/r1")
            await self.get(reader, writer, f"/v2/cubinary/manifests/{release['index'].replace(':', '-')}")
            manifest = await self.get(reader, writer, f"/v2/cubinary/manifests/{release['manifests'][0]}")
            catalogue = json.loads(manifest)["config"]["digest"]
            bodies = [(release["index"], index), (release["manifests"][0], manifest)]
            for digest in (catalogue, release["packs"][0]):
                bodies.append((digest, await self.get(reader, writer, f"/v2/cubinary/blobs/{digest}")))
            for digest, body in bodies:
                if "sha256:" + hashlib.sha256(body).hexdigest() != digest:
                    raise OSError(f"{digest} came damaged")
        finally:
            writer.close()
        return time.monotonic() - begin


async def start_all(clients):
    return await asyncio.gather(*(client.pull() for client in clients), return_exceptions=True)


def peak_kib(pid):
    return int(re.search(r"VmHWM:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text()).group(1))


def held(server, port, told, count):
    """Memory, threads and a healthy client's wait beside `count` connections that stay."""
    peers = []
    try:
        for i in range(count):
            peer = socket.create_connection(("127.0.0.1", port), timeout=60)
            if i % 2:
                peer.sendall(b"GET /v2/ HTTP/1.1\r\nHost: local")
            peers.append(peer)
        times = sorted(asyncio.run(start_all([Client(port, told)]))[0] for _ in range(30))
        status = pathlib.Path(f"/proc/{server.pid}/status").read_text()
        return {"held": count, "resident_KiB": int(re.search(r"VmRSS:\s+(\d+)", status).group(1)),
                "threads": int(re.search(r"Threads:\s+(\d+)", status).group(1)),
                "healthy_median_ms": round(times[len(times) // 2] * 1e3, 2)}
    finally:
        for peer in peers:
            peer.close()


def metric(port, pattern, token):
    import http.client

    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", "/metrics", headers={"Authorization": f"Bearer {token}"})
    text = connection.getresponse().read().decode()
    return sum(float(value) for value in re.findall(pattern + r"\S* (\S+)", text))


def start_edge(folder, origin_port, port, changes=()):
    """nginx with docker/nginx.conf, its paths, ports and names changed to this folder's, and the `changes`
    (old, new) beside; gives the process and a TLS context that trusts it."""
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
                    "-nodes", "-keyout", folder / "tls.key", "-out", folder / "tls.crt", "-days", "2", "-subj",
                    "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"], check=True,
                   capture_output=True)
    beside = HERE / "nginx.conf"
    text = (beside if beside.exists() else HERE.parent / "docker" / "nginx.conf").read_text()
    for old, new in [("127.0.0.1:8421", f"127.0.0.1:{origin_port}"), ("listen 443", f"listen 127.0.0.1:{port}"),
                     ("server_name build.example", "server_name localhost"),
                     ("/etc/cubinary/", f"{folder}/"), ("/run/nginx.pid", f"{folder}/nginx.pid"),
                     ("/var/log/nginx/", f"{folder}/"), ("/var/cache/nginx/", f"{folder}/"), *changes]:
        if old not in text:
            raise SystemExit(f"fleet: docker/nginx.conf no longer says {old}")
        text = text.replace(old, new)
    temporary = " ".join(f"{kind}_temp_path {folder}/{kind};" for kind in
                         ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"])
    text = text.replace("http {", "http { " + temporary, 1)
    (folder / "edge.conf").write_text("daemon off;\n" + text)
    folder.chmod(0o755)
    nginx = shutil.which("nginx", path="/usr/sbin:/usr/bin:/sbin:/bin")
    process = subprocess.Popen([nginx, "-c", folder / "edge.conf", "-p", folder])
    context = ssl.create_default_context(cafile=folder / "tls.crt")
    context.check_hostname = False
    return process, context


def report(what, results, json_out, **more):
    failed = [one for one in results if isinstance(one, BaseException)]
    times = sorted(one for one in results if not isinstance(one, BaseException))
    row = {"what": what, "clients": len(results), "failed": len(failed),
           "median_s": round(statistics.median(times), 3) if times else None,
           "slowest_s": round(times[-1], 3) if times else None, **more}
    json_out.append(row)
    print("  ".join(f"{key} {value}" for key, value in row.items()), flush=True)
    for one in failed[:3]:
        print(f"  {type(one).__name__}: {one}", flush=True)
    return not failed


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", type=pathlib.Path, default=HERE.parent / "bin")
    parser.add_argument("--tests", type=pathlib.Path, default=HERE.parent / "tests")
    parser.add_argument("--clients", type=int, default=2000)
    parser.add_argument("--edge", action="store_true")
    parser.add_argument("--hold", type=lambda text: [int(one) for one in text.split(",")], default=[])
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    needed = max([2 * options.clients, *options.hold]) + 500
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(max(soft, needed), hard), hard))

    folder = pathlib.Path(tempfile.mkdtemp(prefix="cubinary-fleet-"))
    running, rows, good = [], [], True
    try:
        store = folder / "store.cubinary"
        told = json.loads(subprocess.run([options.tests / "make_test_store", store], check=True,
                                         capture_output=True, text=True).stdout)

        def serve(*more):
            server = subprocess.Popen([options.bin / "cubinary", "serve", "--store", store, "--listen",
                                       "127.0.0.1:0", "--access-log", folder / "access.log", *more],
                                      stdout=subprocess.PIPE, text=True)
            running.append(server)
            return server, int(server.stdout.readline().rsplit(":", 1)[1])

        server, port = serve()
        begin = time.monotonic()
        results = asyncio.run(start_all([Client(port, told) for _ in range(options.clients)]))
        good &= report("direct", results, rows, all_s=round(time.monotonic() - begin, 3),
                       server_peak_MiB=peak_kib(server.pid) >> 10)
        running.pop().send_signal(signal.SIGTERM)
        server.wait(30)
        if options.hold:
            server, port = serve("--head-seconds", "600", "--max-connections", str(2 * max(options.hold) + 100))
            for count in [0, *options.hold]:
                rows.append(held(server, port, told, count))
                print("  ".join(f"{key} {value}" for key, value in rows[-1].items()), flush=True)
            running.pop().send_signal(signal.SIGTERM)
            server.wait(30)
        if options.edge:
            server, port = serve("--behind-proxy")
            edge_port = port + 1 if port < 65000 else port - 1
            edge, context = start_edge(folder, port, edge_port, [  # here all clients are one address
                ("limit_conn peers 512", "limit_conn peers 65000"), ("rate=200r/s", "rate=100000r/s"),
                ("burst=2000", "burst=100000")])
            running.append(edge)
            time.sleep(1)
            begin = time.monotonic()
            results = asyncio.run(start_all([Client(edge_port, told, context, told["token"])
                                             for _ in range(options.clients)]))
            fetched = metric(port, r'http_requests_total\{route="(?:blob|manifest)"', told["token"])
            good &= report("edge", results, rows, all_s=round(time.monotonic() - begin, 3),
                           server_peak_MiB=peak_kib(server.pid) >> 10, origin_fetches=int(fetched))
        if options.json:
            print(json.dumps({"fleet": rows}))
    finally:
        for process in running:
            process.send_signal(signal.SIGTERM)
            process.wait(30)
        shutil.rmtree(folder, ignore_errors=True)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
