#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/coldstart.py [BUILD] [--kernel GLOB] [--rounds N] [--kernels 100,1,10] [--layout DIR --key PUB]

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
import time

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
    done = subprocess.run([str(word) for word in command], text=True, capture_output=True, check=False, **options)
    if done.returncode != 0:
        sys.exit("%s: exit status %d\n%s" % (" ".join(map(str, command)), done.returncode, done.stdout + done.stderr))
    return done.stdout


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
    parser.add_argument("--kernels", default="100,1,10")
    parser.add_argument("--compile", default="swiglu", help="the kernel that NVRTC is timed with")
    parser.add_argument("--layout", type=pathlib.Path)
    parser.add_argument("--key", type=pathlib.Path)
    options = parser.parse_args()
    program = options.build / "bin/cubinary"
    begin = time.monotonic()

    def said(what):
        print("%5.1f s: %s" % (time.monotonic() - begin, what), flush=True)
    scratch = pathlib.Path(tempfile.mkdtemp(prefix="cubinary-coldstart-"))
    servers, words, env = [], [], dict(os.environ, CUDA_CACHE_DISABLE="1")
    try:
        layout, key = options.layout, options.key
        if layout is None:
            store, key = scratch / "k.db", scratch / "key.pub"
            layout = scratch / "layout"
            folders = [folder for glob in options.kernel.split(",") for folder in sorted((ROOT / "kernels").glob(glob))]
            run(program, "build", *folders, "--store", store, "--target", options.target, env=env)
            said("compiled the release's kernels, on every core")
            # One worker, one kernel after the other: what a program that compiles its own would wait for each. Light
            # ones, and few: with all of them this takes longer than all else here.
            built = run(program, "build", ROOT / "kernels" / options.compile, "--store", scratch / "one.db", "--target",
                        options.target, "--jobs", "1", env=env)
            count, seconds = re.search(r"(\d+) ok, .*?; ([\d.]+) s", built).groups()
            words += ["--compile", "%.1f" % (1e3 * float(seconds) / int(count))]
            said("compiled %s of %s, one after the other" % (count, options.compile))
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
        said("measured")
        triton = subprocess.run([sys.executable, "-c", TRITON], capture_output=True, text=True, check=False,
                                env=dict(env, TRITON_CACHE_DIR=str(scratch / "triton")))
        if triton.returncode == 0:
            milliseconds, version = triton.stdout.split()
            print("%-22s %4d %8.2f" % ("Triton %s, first call" % version, 1, float(milliseconds)))
        else:
            print("Triton's first call: not measured (%s)" % (triton.stderr.strip().splitlines() or ["?"])[-1])
        said("done")
        return status
    finally:
        for server in servers:
            server.terminate()
            server.wait()
        shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
