# SPDX-License-Identifier: Apache-2.0
"""Checks every config of the catalogue's kernels against float64, on the GPU of this machine.

    python3 tests/gpu/catalogue/check.py [--kernel GLOB] [--quick] [--cache DIR]

Every dtype; every shape of cases.py; pointers aligned, all one element off, and one off at a time; NaN and
infinities; bytes beside the outputs must stay. Exit status: 0 all right, 1 not, 125 no GPU."""

import argparse
import fnmatch
import itertools
import math
import os
import pathlib
import sys
import time
from concurrent.futures import ProcessPoolExecutor

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from cases import CASES
from driver import Launch, Library, build
from manifest import Manifest

KERNELS = pathlib.Path(__file__).resolve().parents[3] / "kernels"


def combinations(manifest):
    """(types, compiled axes) of every library a kernel needs."""
    for types in itertools.product(*manifest.types.values()):
        for axes in itertools.product(*(manifest.axes[a]["tune"] for a in manifest.compiled)):
            yield dict(zip(manifest.types, types)), dict(zip(manifest.compiled, axes))


def libraries(pattern, target, cache, jobs):
    """{(kernel, types, compiled axes): Library}, compiled in parallel."""
    found = {}
    for name in sorted(CASES):
        if fnmatch.fnmatch(name, pattern):
            manifest = Manifest(KERNELS / name)
            for types, axes in combinations(manifest):
                found[key(name, types, axes)] = Library(manifest, types, axes, target, cache)
    missing = [library.job() for library in found.values() if not library.path.exists()]
    if missing:
        with ProcessPoolExecutor(jobs) as pool:
            list(pool.map(build, missing))
    return found


def key(name, types, axes):
    return name, tuple(types.items()), tuple(axes.items())


def device():
    import torch
    p = torch.cuda.get_device_properties(0)
    return {"device.sm_count": p.multi_processor_count, "target.smem_optin": 227 * 1024,
            "target.max_threads": 1024, "target.max_threads_per_sm": p.max_threads_per_multi_processor,
            "target.regs": 65536, "target.cc": p.major * 10 + p.minor}


def chosen(manifest, fixed):
    """The preferred config first; then the first and the last launch of each code."""
    preferred = manifest.preferred(fixed)
    yield preferred
    first, last = {}, {}
    for config in manifest.configs(fixed):
        code = tuple(config[n] for n in manifest.code)
        first.setdefault(code, config)
        last[code] = config
    for code, config in first.items():
        for some in [config] if last[code] == config else [config, last[code]]:
            if some != preferred:
                yield some


class Report:
    def __init__(self):
        self.runs = 0
        self.failures = []
        self.worst = {}

    def add(self, name, dtype, value, what):
        self.runs += 1
        where = (name, dtype)
        self.worst[where] = max(self.worst.get(where, 0.0), value)
        if value > 1:
            self.failures.append(f"{what}: {value:.3g} of the tolerance")


def placements(names):
    yield {}
    yield {name: 1 for name in names}
    yield {name: 4 for name in names}
    for odd in names:
        yield {odd: 1}


def check(report, library, name, types, case, special, quick, info):
    import problems
    import torch
    from operands import Placed, alignment, deviation

    manifest = library.manifest
    problems.SPECIAL = special
    torch.manual_seed(7)
    shape = {a: case[a] for a in manifest.axes}
    problem = getattr(problems, name)(types, **case)
    pointers = [n for n, t in problem.operands.items() if t is not None]
    for at, offsets in enumerate(placements(pointers)):
        if (quick or special) and at > 1:
            break
        outputs = [a["name"] for a in manifest.arguments if "out" in a]
        alignments = None
        # Each config on fresh operands: none can pass on what another left.
        configs = None
        while configs is None or configs:
            placed = {n: None if t is None else Placed(t, offsets.get(n, 0), n in outputs)
                      for n, t in problem.operands.items()}
            if configs is None:
                alignments = {n: alignment(p.view) for n, p in placed.items()
                              if p is not None and offsets.get(n, 0)}
                fixed = manifest.fixed(types, shape, alignments, info)
                configs = list(chosen(manifest, fixed))
                if special or at > 1 or quick:
                    configs = configs[:2]
            config = configs.pop(0)
            tensors = {n: None if p is None else p.view for n, p in placed.items()}
            launch = Launch(library, types, shape, config, fixed, tensors | problem.scalars)
            launch()
            torch.cuda.synchronize()
            what = f"{name} {types} {case} offsets {offsets} {config}{' special' if special else ''}"
            for out, expected in problem.expected.items():
                argument = next(a for a in manifest.arguments if a["name"] == out)
                dtype = argument.get("out") or argument["inout"]
                dtype = types.get(dtype, dtype)
                tolerance = manifest.data["check"]["tolerance"][dtype]
                value = deviation(tensors[out], expected, *tolerance)
                report.add(name, types["T"], value, f"{what}: {out}")
            for n, p in placed.items():
                if p is not None and p.strayed():
                    report.failures.append(f"{what}: wrote beside {n}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kernel", default="*")
    parser.add_argument("--quick", action="store_true", help="two placements, two configs")
    parser.add_argument("--small", action="store_true", help="only shapes of less than 2^18 elements")
    parser.add_argument("--dtype", help="only this one")
    parser.add_argument("--cache", default="/tmp/cubinary-catalogue")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--only-compile", metavar="TARGET")
    options = parser.parse_args()
    os.makedirs(options.cache, exist_ok=True)
    if options.only_compile:
        libraries(options.kernel, options.only_compile, options.cache, options.jobs)
        return 0
    try:
        import torch
        available = torch.cuda.is_available()
    except ImportError:
        available = False
    if not available:
        print("skipped: this needs PyTorch and a CUDA GPU")
        return 125
    info = device()
    started = time.monotonic()
    found = libraries(options.kernel, f"sm_{info['target.cc']}", options.cache, options.jobs)
    print(f"{len(found)} libraries in {time.monotonic() - started:.1f} s")
    report = Report()
    for name in sorted({k[0] for k in found}):
        started, runs = time.monotonic(), report.runs
        manifest = Manifest(KERNELS / name)
        for types, axes in combinations(manifest):
            if options.dtype not in (None, types["T"]):
                continue
            library = found[key(name, types, axes)]
            library.load()
            for case in CASES[name]:
                if options.small and math.prod(case[a] for a in manifest.axes) >= 1 << 18:
                    continue
                if all(case[a] == v for a, v in axes.items()):
                    check(report, library, name, types, case, False, options.quick, info)
                    check(report, library, name, types, case, True, options.quick, info)
        worst = ", ".join(f"{d} {v:.2f}" for (n, d), v in report.worst.items() if n == name)
        print(f"{name:22} {report.runs - runs:6} results, {time.monotonic() - started:5.1f} s; "
              f"largest error / tolerance: {worst}", flush=True)
    for failure in report.failures[:40]:
        print("FAILED", failure)
    print(f"{report.runs} results, {len(report.failures)} failures")
    return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(main())
