#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Blob GET: cubinary serve against nginx serving the same bytes as static files, in one run.

Needs wrk and nginx. Prints, for each size, requests a second of both sides (the median of interleaved
rounds) and their ratio. Both keep connections, both write an access log.
"""

import argparse
import http.client
import json
import pathlib
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
SIZES = [4 << 10, 64 << 10, 1 << 20]


def tool(name):
    path = shutil.which(name, path="/usr/bin:/usr/sbin:/bin:/sbin:/usr/local/bin")
    if path is None:
        print(f"bench serve: this machine lacks {name}", file=sys.stderr)
        sys.exit(3)
    return path


def rate(url, connections, seconds):
    """Requests a second wrk gets, and how many of them failed."""
    done = subprocess.run([tool("wrk"), "-t2", f"-c{connections}", f"-d{seconds}s", url], check=True,
                          capture_output=True, text=True).stdout
    bad = re.search(r"Non-2xx or 3xx responses: (\d+)", done) or re.search(r"Socket errors: (.*)", done)
    if bad:
        raise SystemExit(f"bench serve: {url}: {bad.group(0)}")
    return float(re.search(r"Requests/sec:\s+([\d.]+)", done).group(1))


def start_nginx(folder, digests, fetch):
    blobs = folder / "www"
    blobs.mkdir()
    for digest in digests:
        (blobs / digest).write_bytes(fetch(digest))
    (folder / "logs").mkdir()
    config = folder / "nginx.conf"
    config.write_text(f"""
daemon off; worker_processes auto; pid {folder}/nginx.pid; error_log {folder}/logs/error.log;
events {{ worker_connections 4096; }}
http {{
  sendfile on; tcp_nopush on; keepalive_requests 1000000;
  access_log {folder}/logs/access.log; default_type application/octet-stream;
  client_body_temp_path {folder}/t1; proxy_temp_path {folder}/t2; fastcgi_temp_path {folder}/t3;
  uwsgi_temp_path {folder}/t4; scgi_temp_path {folder}/t5;
  server {{ listen 127.0.0.1:18422 backlog=4096; root {blobs}; }}
}}
""")
    blobs.chmod(0o755)
    folder.chmod(0o755)
    return subprocess.Popen([tool("nginx"), "-c", str(config), "-p", str(folder)])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", type=pathlib.Path, default=HERE.parent / "bin")
    parser.add_argument("--tests", type=pathlib.Path, default=HERE.parent / "tests")
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    tool("wrk"), tool("nginx")

    folder = pathlib.Path(tempfile.mkdtemp(prefix="cubinary-bench-"))
    running = []
    try:
        store = folder / "store.cubinary"
        sized = [argument for size in SIZES for argument in ("--blobs", "1", str(size))]
        told = json.loads(subprocess.run([options.tests / "make_test_store", store, *sized], check=True,
                                         capture_output=True, text=True).stdout)
        server = subprocess.Popen([options.bin / "cubinary", "serve", "--store", store, "--listen",
                                   "127.0.0.1:0", "--access-log", folder / "access.log"],
                                  stdout=subprocess.PIPE, text=True)
        running.append(server)
        port = int(server.stdout.readline().rsplit(":", 1)[1])

        def fetch(digest):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            connection.request("GET", f"/v2/cubinary/blobs/{digest}")
            return connection.getresponse().read()

        running.append(start_nginx(folder, told["blobs"], fetch))
        time.sleep(1)

        results = []
        for size, digest in zip(SIZES, told["blobs"]):
            ours, theirs = [], []
            for _ in range(options.rounds):
                ours.append(rate(f"http://127.0.0.1:{port}/v2/cubinary/blobs/{digest}",
                                 options.connections, options.seconds))
                theirs.append(rate(f"http://127.0.0.1:18422/{digest}", options.connections,
                                   options.seconds))
            row = {"bytes": size, "cubinary": statistics.median(ours),
                   "nginx": statistics.median(theirs)}
            row["ratio"] = row["cubinary"] / row["nginx"]
            results.append(row)
            if not options.json:
                print(f"{size:>8} bytes: cubinary {row['cubinary']:>9.0f}/s   nginx {row['nginx']:>9.0f}/s"
                      f"   ratio {row['ratio']:.2f}", flush=True)
        if options.json:
            print(json.dumps({"serve": results}))
    finally:
        for process in running:
            process.send_signal(signal.SIGTERM)
            process.wait(60)
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
