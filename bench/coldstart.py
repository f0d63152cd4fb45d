#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/coldstart.py [BUILD] [--kernel GLOB] [--rounds N] [--kernels 1,10,100] [--layout DIR --key PUB]

A process's start to loaded kernels, beside its rivals: makes a release of the catalogue, serves it over http and https,
runs bench/coldstart over folder, http and https, and adds what NVRTC takes to compile the same kernels and Triton to
launch one for the first time. Needs a GPU; CUBINARY_LIBCUDA may name a recording driver for a dry run, and --layout a
release that is there already."""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent

TRITON = """
import time, torch, triton, triton.language as tl
@triton.jit
def norm(y, x, w, columns, eps, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    value = tl.load(x + row * columns + at, mask=at < columns, other=0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(value * value) / columns + eps)
    tl.store(y + row * columns + at, value * scale * tl.load(w + at, mask=at < columns), mask=at < columns)
x = torch.ones(64, 1024, device="cuda", dtype=torch.bfloat16)
y, w = torch.empty_like(x), torch.ones(1024, device="cuda", dtype=torch.bfloat16)
torch.cuda.synchronize()
begin = time.perf_counter()
norm[(64,)](y, x, w, 1024, 1e-6, BLOCK=1024)
torch.cuda.synchronize()
print("%.2f" % (1e3 * (time.perf_counter() - begin)), triton.__version__)
"""


def run(*command, **options):
    return subprocess.run([str(word) for word in command], check=True, text=True, capture_output=True, **options).stdout


def serve(program, store, *words):
    server = subprocess.Popen([program, "serve", "--store", store, "--listen", "127.0.0.1:0", *words],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    for line in server.stdout:
        if found := re.search(r"on (https?)://\S+:(\d+)", line):
            # The certificate is for the name.
            return server, "%s://localhost:%s" % found.groups()
    sys.exit("the server did not start")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", nargs="?", default=ROOT / "build/release", type=pathlib.Path)
    parser.add_argument("--kernel", default="rms*,l2*,soft*,swi*,rope*,lay*")
    parser.add_argument("--target", default="sm_90")
    parser.add_argument("--rounds", default="5")
    parser.add_argument("--kernels", default="1,10,100")
    parser.add_argument("--layout", type=pathlib.Path)
    parser.add_argument("--key", type=pathlib.Path)
    options = parser.parse_args()
    program = options.build / "bin/cubinary"
    scratch = pathlib.Path(tempfile.mkdtemp(prefix="cubinary-coldstart-"))
    servers, words, env = [], [], dict(os.environ, CUDA_CACHE_DISABLE="1")
    try:
        layout, key = options.layout, options.key
        if layout is None:
            store, key = scratch / "k.db", scratch / "key.pub"
            layout = scratch / "layout"
            kernels = [word for glob in options.kernel.split(",") for word in ("--kernel", glob)]
            built = run(program, "build", ROOT / "kernels", "--store", store, "--target", options.target, "--jobs", "1",
                        *kernels[:2], env=env)
            for glob in kernels[3::2]:
                built += run(program, "build", ROOT / "kernels", "--store", store, "--target", options.target,
                             "--kernel", glob, env=env)
            # One worker compiled the first of them: its time a kernel is what a program would wait.
            count, seconds = re.search(r"(\d+) ok, .*?; ([\d.]+) s", built).groups()
            words += ["--compile", "%.1f" % (1e3 * float(seconds) / int(count))]
            run(program, "keygen", scratch / "key")
            run(program, "release", "create", "v1", "--store", store)
            run(program, "release", "sign", "v1", "--key", scratch / "key", "--store", store)
            run(program, "export", layout, "--store", store, "--release", "v1")
            shutil.copy(store, scratch / "tls.db")
            run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout",
                scratch / "tls.key", "-out", scratch / "tls.pem", "-subj", "/CN=localhost", "-addext",
                "subjectAltName=DNS:localhost", "-days", "2")
            env["SSL_CERT_FILE"] = str(scratch / "tls.pem")
            for file, tls in ((store, ()), (scratch / "tls.db", ("--tls-cert", scratch / "tls.pem", "--tls-key",
                                                                   scratch / "tls.key"))):
                server, url = serve(program, file, *tls)
                servers.append(server)
                words += ["--source", url]
        status = subprocess.run([options.build / "bench/coldstart", str(layout) + ":v1", key, *words, "--rounds",
                                 options.rounds, "--kernels", options.kernels], env=env, check=False).returncode
        triton = subprocess.run([sys.executable, "-c", TRITON], capture_output=True, text=True, check=False,
                                env=dict(env, TRITON_CACHE_DIR=str(scratch / "triton")))
        if triton.returncode == 0:
            milliseconds, version = triton.stdout.split()
            print("%-22s %4d %8.2f" % ("Triton %s, first call" % version, 1, float(milliseconds)))
        else:
            print("Triton's first call: not measured (%s)" % (triton.stderr.strip().splitlines() or ["?"])[-1])
        return status
    finally:
        for server in servers:
            server.terminate()
            server.wait()
        shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
