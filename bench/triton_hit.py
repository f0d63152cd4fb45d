#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the Triton plug-in costs where everything is cached: a compile that hits, and a launch of a tuned kernel,
through Triton's own file cache and through the plug-in, in turns, in processes of their own. Prints both sides
and the ratio.

    bench/triton_hit.py [--rounds N] [--triton DIR] [--stub DIR]

Needs Triton, and a GPU or --stub: a folder with the stub libcuda.so.1 that the tests build (launches then do nothing).
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
TESTS = ROOT / "tests/python/triton"

MEASURE = """
import json, os, time
import torch, kernels, triton
from triton.runtime import driver
x = torch.Tensor() if hasattr(torch.Tensor, "_address") or not hasattr(torch, "zeros") else torch.zeros(4096, device="cuda")
def once(call, quantiles=None, **_):
    call()
    return [1.0] * 3
kernels.tuned.do_bench = once
launch = kernels.tuned[(4,)]
launch(x, 4096)
kernel = kernels.scale[(4,)](x, 1.5, 16, KIND=triton.language.float32, BLOCK=64)
target = driver.active.get_current_target()
def best(call, batches, size):
    least = float("inf")
    for _ in range(batches):
        start = time.thread_time()
        for _ in range(size):
            call()
        least = min(least, (time.thread_time() - start) / size)
    return least * 1e6
print(json.dumps({"hit": best(lambda: triton.compile(kernel.src, target=target, options={}), 300, 2),
                  "launch": best(lambda: launch(x, 4096), 1000, 30)}))
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--triton", help="folder of an unpacked Triton wheel (default: the installed one)")
    parser.add_argument("--stub", help="folder with a stub libcuda.so.1")
    options = parser.parse_args()
    sys.path.insert(0, str(TESTS))
    import layout

    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        path = [options.triton, TESTS / "fake" if options.stub else None, TESTS / "programs"]
        base = os.environ | (
            {"LD_LIBRARY_PATH": options.stub, "TRITON_LIBCUDA_PATH": options.stub} if options.stub else {}
        )

        def run(site, **environment):
            plugin = [ROOT / "python/cubinary/triton/site", ROOT / "python"] if site else []
            python_path = ":".join(str(part) for part in plugin + path if part)
            done = subprocess.run(
                [sys.executable, "-c", MEASURE],
                text=True,
                capture_output=True,
                env=base | {"PYTHONPATH": python_path} | environment,
            )
            if done.returncode != 0:
                sys.exit(done.stderr)
            return json.loads(done.stdout)

        run(
            True,
            TRITON_CACHE_MANAGER="cubinary.triton:CaptureManager",
            CUBINARY_TRITON_CAPTURE=str(work / "capture"),
        )
        layout.lay_down(work / "capture", work / "cache")
        sides = {
            "own": lambda: run(False, TRITON_CACHE_DIR=str(work / "own")),
            "plugin": lambda: run(
                True,
                TRITON_CACHE_MANAGER="cubinary.triton:CacheManager",
                CUBINARY_TRITON_STRICT="1",
                CUBINARY_TRITON_CACHE=str(work / "cache"),
                TRITON_CACHE_DIR=str(work / "never"),
            ),
        }
        sides["own"]()  # fills Triton's own cache
        rounds = [{name: side() for name, side in sides.items()} for _ in range(options.rounds)]
        for what, said in (("hit", "compile that hits"), ("launch", "launch of a tuned kernel")):
            own, plugin = (min(round_[name][what] for round_ in rounds) for name in ("own", "plugin"))
            print(f"{said:<26} Triton's own {own:8.1f} us   plug-in {plugin:8.1f} us   {plugin / own:.2f}x")


if __name__ == "__main__":
    main()
