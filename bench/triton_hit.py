#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the Triton plug-in costs where everything is cached: a compile that hits, and a launch of a tuned kernel,
through Triton's own file cache and through the plug-in, in turns. Prints both sides and the ratio.

    bench/triton_hit.py [--rounds N] [--triton DIR] [--stub DIR]

Needs Triton, and a GPU or --stub: a folder with the stub libcuda.so.1 that the tests build (launches then do nothing).
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
TESTS = ROOT / "tests/python/triton"

COMMON = """
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
def timed(call):
    start = time.thread_time_ns()
    call()
    return (time.thread_time_ns() - start) / 1000
def many():
    for _ in range(30):
        launch(x, 4096)
"""
# A compile that hits, through both managers in turns: what else the machine does meets both.
HIT = COMMON + """
from triton.runtime.cache import FileCacheManager
from cubinary.triton import CacheManager
times = {FileCacheManager: [], CacheManager: []}
for _ in range(1500):
    for manager, taken in times.items():
        triton.knobs.cache.manager_class = manager
        taken.append(timed(lambda: triton.compile(kernel.src, target=target, options={})))
print(json.dumps([sorted(taken) for taken in times.values()]))
"""
LAUNCH = COMMON + "print(json.dumps(min(timed(many) / 30 for _ in range(1000))))"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--triton", help="folder of an unpacked Triton wheel (default: the installed one)")
    parser.add_argument("--json", action="store_true", help="print one object: [Triton's own, plug-in], microseconds")
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

        def run(program, site, **environment):
            plugin = [ROOT / "python/cubinary/triton/site", ROOT / "python"] if site else []
            python_path = ":".join(str(part) for part in plugin + path if part)
            done = subprocess.run(
                [sys.executable, "-c", program],
                text=True,
                capture_output=True,
                env=base | {"PYTHONPATH": python_path} | environment,
            )
            if done.returncode != 0:
                sys.exit(done.stderr)
            return json.loads(done.stdout)

        run(
            LAUNCH,
            True,
            TRITON_CACHE_MANAGER="cubinary.triton:CaptureManager",
            CUBINARY_TRITON_CAPTURE=str(work / "capture"),
        )
        layout.lay_down(work / "capture", work / "cache")
        own = {"TRITON_CACHE_DIR": str(work / "own")}
        plugin = {
            "TRITON_CACHE_MANAGER": "cubinary.triton:CacheManager",
            "CUBINARY_TRITON_STRICT": "1",
            "CUBINARY_TRITON_CACHE": str(work / "cache"),
        } | own
        run(LAUNCH, False, **own)  # fills Triton's own cache
        rounds = [
            (run(HIT, True, **plugin), run(LAUNCH, False, **own), run(LAUNCH, True, **plugin))
            for _ in range(options.rounds)
        ]
        hits = [statistics.median(taken for round_ in rounds for taken in round_[0][side]) for side in (0, 1)]
        launches = [min(round_[side] for round_ in rounds) for side in (1, 2)]
        if options.json:
            print(json.dumps({"hit": hits, "launch": launches}))
            return
        for said, (own, plugin) in (("compile that hits", hits), ("launch of a tuned kernel", launches)):
            print(f"{said:<26} Triton's own {own:8.1f} us   plug-in {plugin:8.1f} us   {plugin / own:.2f}x")
        print(f"processor time; hits: median of {1500 * options.rounds} in turns, launches: least of {options.rounds} runs")


if __name__ == "__main__":
    main()
