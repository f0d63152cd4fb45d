#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Blob GET: cubinary serve, nginx serving the same bytes as static files, and docker-registry, in one run.

Needs wrk and nginx; docker-registry is left out, aloud, where it is not. Prints, for each size, requests a second of all (the median of
interleaved rounds) and the ratios. All keep connections and write an access log. Run it on a release build
and a machine with nothing else to do.
"""

import argparse
import http.client
import json
import os
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


def find(name):
    return shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/bin:/usr/sbin:/bin:/sbin:/usr/local/bin")


def tool(name):
    path = find(name)
    if path is None:
        print(f"bench serve: this machine lacks {name}", file=sys.stderr)
        sys.exit(3)
    return path


def rate(url, connections, seconds):
    """Requests a second wrk gets; any failure ends the run."""
    done = subprocess.run([tool("wrk"), "-t2", f"-c{connections}", f"-d{seconds}s", url], check=True,
                          capture_output=True, text=True).stdout
    bad = re.search(r"Non-2xx or 3xx responses: (\d+)", done) or re.search(r"Socket errors: (.*)", done)
    if bad:
        raise SystemExit(f"bench serve: {url}: {bad.group(0)}")
    return float(re.search(r"Requests/sec:\s+([\d.]+)", done).group(1))


def start_nginx(folder, blobs):
    www = folder / "www"
    www.mkdir()
    for digest, body in blobs.items():
        (www / digest).write_bytes(body)
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
  server {{ listen 127.0.0.1:18422 backlog=4096; root {www}; }}
}}
""")
    www.chmod(0o755)
    folder.chmod(0o755)
    return subprocess.Popen([tool("nginx"), "-c", str(config), "-p", str(folder)])


def start_registry(folder, blobs):
    """Debian's docker-registry with the blobs pushed into it."""
    config = folder / "registry.yml"
    config.write_text(f"version: 0.1\nlog: {{level: info, accesslog: {{disabled: false}}}}\n"
                      f"storage: {{filesystem: {{rootdirectory: {folder}/registry}}, cache: "
                      "{blobdescriptor: inmemory}}\nhttp: {addr: '127.0.0.1:18423'}\n")
    log = open(folder / "registry.log", "wb")
    process = subprocess.Popen([tool("docker-registry"), "serve", str(config)], stdout=log, stderr=log)
    for _ in range(100):
        time.sleep(0.1)
        try:
            connection = http.client.HTTPConnection("127.0.0.1", 18423, timeout=60)
            connection.request("GET", "/v2/")
            connection.getresponse().read()
            break
        except OSError:
            continue
    for digest, body in blobs.items():
        connection.request("POST", "/v2/cubinary/blobs/uploads/")
        answer = connection.getresponse()
        answer.read()
        where = answer.getheader("Location")
        path = where[where.index("/v2/"):]
        connection.request("PUT", f"{path}{'&' if '?' in path else '?'}digest={digest}", body=body)
        answer = connection.getresponse()
        answer.read()
        if answer.status != 201:
            raise SystemExit(f"bench serve: docker-registry took no blob: {answer.status}")
    return process


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", type=pathlib.Path, default=HERE.parent / "bin")
    parser.add_argument("--tests", type=pathlib.Path, default=HERE.parent / "tests")
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sizes", type=lambda text: [int(one) for one in text.split(",")], default=SIZES)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    tool("wrk"), tool("nginx")
    with_registry = find("docker-registry") is not None
    if not with_registry:
        print("bench serve: no docker-registry here: not compared with", file=sys.stderr)

    folder = pathlib.Path(tempfile.mkdtemp(prefix="cubinary-bench-"))
    running = []
    try:
        store = folder / "store.cubinary"
        sized = [argument for size in options.sizes for argument in ("--blobs", "1", str(size))]
        told = json.loads(subprocess.run([options.tests / "make_test_store", store, *sized], check=True,
                                         capture_output=True, text=True).stdout)
        server = subprocess.Popen([options.bin / "cubinary", "serve", "--store", store, "--listen",
                                   "127.0.0.1:0", "--access-log", folder / "access.log"],
                                  stdout=subprocess.PIPE, text=True)
        running.append(server)
        port = int(server.stdout.readline().rsplit(":", 1)[1])

        blobs = {}
        for digest in told["blobs"]:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            connection.request("GET", f"/v2/cubinary/blobs/{digest}")
            blobs[digest] = connection.getresponse().read()
        running.append(start_nginx(folder, blobs))
        if with_registry:
            running.append(start_registry(folder, blobs))
        time.sleep(1)

        results = []
        for size, digest in zip(options.sizes, told["blobs"]):
            sides = {"cubinary": f"http://127.0.0.1:{port}/v2/cubinary/blobs/{digest}",
                     "nginx": f"http://127.0.0.1:18422/{digest}",
                     "registry": f"http://127.0.0.1:18423/v2/cubinary/blobs/{digest}"}
            if not with_registry:
                del sides["registry"]
            rates = {name: [] for name in sides}
            for _ in range(options.rounds):
                for name, url in sides.items():
                    rates[name].append(rate(url, options.connections, options.seconds))
            row = {"bytes": size, **{name: statistics.median(values) for name, values in rates.items()}}
            row["to_nginx"] = row["cubinary"] / row["nginx"]
            results.append(row)
            text = (f"{size:>8} bytes: cubinary {row['cubinary']:>8.0f}/s   nginx {row['nginx']:>8.0f}/s   "
                    f"{row['to_nginx']:.2f} of it")
            if with_registry:
                row["to_registry"] = row["cubinary"] / row["registry"]
                text += f"   docker-registry {row['registry']:>8.0f}/s   {row['to_registry']:.1f} of it"
            if not options.json:
                print(text, flush=True)
        if options.json:
            print(json.dumps({"serve": results}))
    finally:
        for process in running:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    os.umask(0o022)
    main()
