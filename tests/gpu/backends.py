#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""NVRTC's and nvcc's kernels compute the same: both are built of one source here, and the tuner compares the configs
of both with the reference on this GPU, within 1e-6 for floats and exactly for integers.

    backends.py [BIN]      BIN: the folder of `cubinary` (build/release/bin)

Prints PASS or FAIL. Exit status: 0 passed, 1 failed, 125 no GPU or no nvcc. CUBINARY_TOOLKIT is the toolkit
(/usr/local/cuda).
"""
import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
CUBINARY = os.path.join(os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "build/release/bin"), "cubinary")
TOOLKIT = os.environ.get("CUBINARY_TOOLKIT", "/usr/local/cuda")


def run(*command):
    done = subprocess.run([CUBINARY, *command], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"FAIL {command[0]} ended with status {done.returncode}: {done.stderr}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def main():
    if not glob.glob("/dev/nvidia[0-9]*") or not os.path.exists(os.path.join(TOOLKIT, "bin/nvcc")):
        print("SKIPPED: no GPU, or no nvcc in " + TOOLKIT)
        return 125
    with tempfile.TemporaryDirectory() as folder:
        for backend in ("nvrtc", "nvcc"):
            kernel = os.path.join(folder, "kernels", backend)
            shutil.copytree(os.path.join(ROOT, "tests/builder/kernels/scale"), kernel)
            manifest = os.path.join(kernel, "kernel.toml")
            with open(manifest, encoding="utf-8") as file:
                text = file.read()
            text = text.replace('"scale"', f'"scale_{backend}"', 1).replace("targets ", f'backend = "{backend}"\ntargets ', 1)
            with open(manifest, "w", encoding="utf-8") as file:
                file.write(text)
        store = os.path.join(folder, "s.cubinary")
        built = run("build", os.path.join(folder, "kernels"), "--store", store, "--toolkit", TOOLKIT, "--json")[-1]
        run("tune", "--store", store, "--budget", "60s", "--json")
        winners = run("audit", "winners", "--store", store, "--json")
        compared = {backend: json.dumps(winners).count(f"scale_{backend}") for backend in ("nvrtc", "nvcc")}
    passed = built["failed"] == 0 and compared["nvrtc"] > 0 and compared["nvrtc"] == compared["nvcc"]
    print("PASS" if passed else "FAIL", "winners, each compared with the reference:", compared)
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
