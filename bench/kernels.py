# SPDX-License-Identifier: Apache-2.0
"""One table: every kernel of the catalogue against PyTorch, torch.compile and flash-linear-attention.

    python3 bench/kernels.py [--kernel GLOB] [--source SOURCE --key FILE] [--json FILE]

Cold L2, random data, medians of device time, all sides of a line in turn. With --source the client chooses and
launches from that release, as an application does; without, the manifest's first valid `prefer` runs. `roof` is
the time that the bytes of [measure] need at the rate of a device-to-device copy measured in the same run, or its
flops at the rate of --peak. Lines come from bench/catalogue/*.py: ROWS. Each kernel has a process: all compile
together, then each times alone."""

import argparse
import fcntl
import fnmatch
import importlib
import json
import os
import pathlib
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / "catalogue"), str(HERE.parent / "tests/gpu/catalogue"), str(HERE.parent / "python")]


def rows(pattern):
    found = []
    for path in sorted((HERE / "catalogue").glob("*.py")):
        found += getattr(importlib.import_module(path.stem), "ROWS", [])
    return [row for row in found if fnmatch.fnmatch(row.kernel, pattern)]


def flat(tensor):
    """Rows that lie apart as the memory they lie in, from the first element to the last: the kernel knows their stride."""
    if tensor is None or tensor.is_contiguous():
        return tensor
    reach = 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride()))
    return tensor.as_strided((reach,), (1,))


class Ours:
    """Launches a row's kernel: through the client when there is a release, else straight from its source."""

    def __init__(self, options):
        import check
        self.check = check
        self.options = options
        self.info = check.device()
        self.libraries = {}
        self.release = None
        if options.source:
            import cubinary
            self.release = cubinary.open(options.source, keys=[options.key] if options.key else None)

    def work(self, row, operands):
        """(callable, config as text)"""
        from driver import Launch, Library
        from manifest import Manifest
        from operands import alignment
        manifest = Manifest(self.check.KERNELS / row.kernel)
        if self.release is not None:
            kernel = self.release.kernel(row.kernel, **row.types, **row.shape)
            named = {n: flat(t) for n, t in operands.items()} | row.scalars
            kernel(**named)
            return lambda: kernel(**named), kernel.info.config
        axes = {a: row.shape[a] for a in manifest.compiled}
        key = self.check.key(row.kernel, row.types, axes)
        if key not in self.libraries:
            library = Library(manifest, row.types, axes, f"sm_{self.info['target.cc']}", self.options.cache)
            library.load()
            self.libraries[key] = library
        library = self.libraries[key]
        aligned = {n: alignment(t) for n, t in operands.items() if t is not None}
        fixed = manifest.fixed(row.types, row.shape, aligned, self.info)
        config = manifest.preferred(fixed)
        launch = Launch(library, row.types, row.shape, config, fixed, {**operands, **row.scalars})
        return launch, " ".join(f"{k}={v}" for k, v in config.items())

    def roof(self, row, copy, peak):
        """Microseconds that the work needs at the least."""
        from manifest import Manifest
        manifest = Manifest(self.check.KERNELS / row.kernel)
        measure = manifest.data.get("measure", {})
        scope = manifest.scope({}, manifest.fixed(row.types, row.shape, {}, self.info))
        moved = row.bytes or manifest.evaluate(measure["bytes"], scope)
        flops = row.flops or manifest.evaluate(measure.get("flops", 0), scope)
        return max(moved / copy / 1e3, flops / peak / 1e6 if peak else 0)


def rivals(row, operands):
    found = {}
    if row.eager is not None:
        found["eager"] = lambda: row.eager(operands)
        if row.compiled:
            found["compile"] = lambda: row.compile()(operands)
    found.update(row.others(operands))
    return found


def first_calls(row, operands, quick):
    """The rivals that work on a row, each called once: what compiles and tunes itself has done so."""
    found = []
    for name, work in rivals(row, operands).items():
        if quick and name != "eager":
            continue
        try:
            work()
            found.append(name)
        except Exception as error:  # a rival that cannot do a shape is no rival there
            print(f"{row.kernel} {row.name()}: {name}: {type(error).__name__}: {error}"[:300], file=sys.stderr)
    return found


def worker(options):
    """Times every row of one kernel; prints a JSON line each."""
    import torch
    import torch._dynamo
    torch._dynamo.config.recompile_limit = torch._dynamo.config.cache_size_limit = 256
    from timing import Clock
    torch.set_grad_enabled(False)
    lines = rows(options.worker)
    ours = Ours(options)
    kept = {}
    begun = time.monotonic()
    with open(options.lock, "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)  # compile: together with the others
        for at, row in enumerate(lines):
            operands = row.operands()
            ours.work(row, operands)
            late = options.compile_seconds and time.monotonic() - begun > options.compile_seconds
            kept[at] = first_calls(row, operands, late)
            del operands
            torch.cuda.empty_cache()
        torch.cuda.synchronize()
        fcntl.flock(lock, fcntl.LOCK_UN)
        fcntl.flock(lock, fcntl.LOCK_EX)  # time: alone
        clock = Clock()
        clock.settle(0.3)
        copy = clock.copy_rate()
        for at, row in enumerate(lines):
            operands = row.operands()
            launch, config = ours.work(row, operands)
            works = {"ours": launch}
            works.update({n: w for n, w in rivals(row, operands).items() if n in kept[at]})
            times = dict(zip(works, clock.microseconds(list(works.values()), options.samples, 3)))
            print(json.dumps(dict(kernel=row.kernel, types=row.types, shape=row.name(), times=times,
                                  copy=copy, roof=ours.roof(row, copy, options.peak), config=config)),
                  flush=True)
            del operands, works, launch
            torch.cuda.empty_cache()


def table(results):
    print(f"{'kernel':20} {'dtype':5} {'shape':52} {'ours us':>9} {'best rival':>16} {'us':>9} {'ratio':>6} {'roof':>5}")
    for r in results:
        ours = r["times"]["ours"]
        others = {n: t for n, t in r["times"].items() if n != "ours"}
        best = min(others, key=others.get) if others else "-"
        rival = others.get(best, float("nan"))
        print(f"{r['kernel']:20} {r['types']['T']:5} {r['shape']:52} {ours:9.1f} {best:>16} {rival:9.1f} "
              f"{rival / ours:5.2f}x {100 * r['roof'] / ours:4.0f}%")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kernel", default="*")
    parser.add_argument("--source")
    parser.add_argument("--key")
    parser.add_argument("--samples", type=int, default=15)
    parser.add_argument("--peak", type=float, default=0, help="TFLOP/s of the matrix units")
    parser.add_argument("--json")
    parser.add_argument("--cache", default="/tmp/cubinary-catalogue")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--compile-seconds", type=float, default=0,
                        help="after so long, what must compile is left out of the lines that remain")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--lock", default="/tmp/cubinary-bench.lock", help=argparse.SUPPRESS)
    options = parser.parse_args()
    os.makedirs(options.cache, exist_ok=True)
    try:
        import torch
        if not torch.cuda.is_available():
            raise ImportError("no CUDA device")
    except ImportError as error:
        print(f"skipped: this needs PyTorch and a CUDA GPU ({error})")
        return 125
    if options.worker:
        worker(options)
        return 0
    names = list(dict.fromkeys(row.kernel for row in rows(options.kernel)))
    running = {}
    for name in names:
        arguments = [sys.executable, __file__, *sys.argv[1:], "--worker", name]
        running[name] = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)
    results = []
    for name, process in running.items():
        try:
            out, _ = process.communicate(timeout=options.seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            out, _ = process.communicate()
        results += [json.loads(line) for line in out.splitlines() if line.startswith("{")]
        if process.returncode != 0:
            print(f"{name}: its process ended with {process.returncode}", file=sys.stderr)
    if results:
        print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}; copy {results[0]['copy']:.0f} GB/s")
        table(results)
        met = [r for r in results if len(r["times"]) > 1
               and r["times"]["ours"] <= min(t for n, t in r["times"].items() if n != "ours")]
        print(f"{len(results)} lines, {len(met)} at least as fast as the best rival")
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(results))
    return 0 if results else 1


if __name__ == "__main__":
    sys.exit(main())
