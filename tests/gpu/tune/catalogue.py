#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tunes the whole catalogue on this machine's GPU within a time, and keeps what came of it.

    catalogue.py [BIN] [--out DIR] [--seconds 470] [--kernel GLOB] [--first bf16] [--store FILE] [--layout DIR]
                 [--measure-with PROGRAM]

BIN is the folder of `cubinary` (build/release/bin). Builds the kernels for those of their targets that begin with
`--target`, then tunes as far as the seconds go: first the lines of bench/catalogue (PyTorch is needed to read them),
then the manifests' own shapes with the `--first` dtype, then with the others; each time a shape of every kernel in
turn. Prints the winners' table and what tuning gained over what an untuned release runs, by kernel. DIR gets
`winners.json`, `winners.csv`, `gains.txt`, `covered.txt`, `tune.jsonl` and the store itself, packed. With `--layout` a
signed release of it is put there, for `bench/kernels.py --source`. `--measure-with` is for a rehearsal without a GPU: a
program that answers like a measuring process.

Exit status: 0 done, 1 something failed, 125 no GPU. CUBINARY_TOOLKIT is the toolkit (/usr/local/cuda).
"""
import argparse
import collections
import fnmatch
import glob
import importlib
import itertools
import json
import lzma
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bin", nargs="?", default="build/release/bin")
    parser.add_argument("--out", default="catalogue-tuned")
    parser.add_argument("--seconds", type=float, default=470, help="of everything, building included")
    parser.add_argument("--kernel", default="*")
    parser.add_argument("--first", default="bf16", help="the dtype whose jobs come first")
    parser.add_argument("--target", default="sm_90")
    parser.add_argument("--store", help="begin with a copy of this store")
    parser.add_argument("--layout", help="put a signed release there, its public key beside it: DIR.pub")
    parser.add_argument("--measure-with", default="")
    parser.add_argument("--bench-lines", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def geometric_mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def assignments(pairs):
    return " ".join(f"{name}={value}" for name, value in sorted(pairs.items()))


def gains(winners):
    """Lines: what tuning gained by kernel, least and most."""
    fastest = {}  # of a job's targets
    for winner in sorted(winners, key=lambda winner: -winner["time_us"]):
        fastest[winner["kernel"], assignments({**winner["types"], **winner["shape"]})] = winner
    by_kernel = collections.defaultdict(list)
    for winner in fastest.values():
        if winner.get("speedup"):
            by_kernel[winner["kernel"]].append(winner)
    lines = [f"{'kernel':26} {'jobs':>5} {'gain':>6} {'least':>6} {'most':>6} {'roof':>5}  most at"]
    for kernel, rows in sorted(by_kernel.items()):
        speedups = [row["speedup"] for row in rows]
        roofs = [row["roofline"] for row in rows if row.get("roofline")]
        best = max(rows, key=lambda row: row["speedup"])
        roof = f"{100 * sum(roofs) / len(roofs):.0f}%" if roofs else "-"
        lines.append(f"{kernel:26} {len(rows):5} {geometric_mean(speedups):5.2f}x {min(speedups):5.2f}x "
                     f"{max(speedups):5.2f}x {roof:>5}  {assignments(best['types'])} {assignments(best['shape'])}")
    if by_kernel:
        every = [row["speedup"] for rows in by_kernel.values() for row in rows]
        lines.append(f"{'all':26} {len(every):5} {geometric_mean(every):5.2f}x {min(every):5.2f}x {max(every):5.2f}x")
    return lines


def bench_lines():
    """bench/catalogue as lines of a workload."""
    sys.path[:0] = [os.path.join(ROOT, "bench", "catalogue")]
    lines = []
    for path in sorted(glob.glob(os.path.join(ROOT, "bench", "catalogue", "*.py"))):
        for row in getattr(importlib.import_module(os.path.basename(path)[:-3]), "ROWS", []):
            lines.append(f"{row.kernel} {assignments({**row.types, **row.shape})}")
    return list(dict.fromkeys(lines))


def in_turn(lines):
    """The first line of every kernel, the second of each, and so on."""
    by_kernel = collections.defaultdict(list)
    for line in lines:
        by_kernel[line.split()[0]].append(line)
    return [line for row in itertools.zip_longest(*by_kernel.values()) for line in row if line]


class Kernel:
    def __init__(self, path, target):
        with open(path, "rb") as file:
            manifest = tomllib.load(file)
        self.name = manifest["name"]
        self.targets = sorted(each for each in manifest["targets"] if each.startswith(target))
        self.types = manifest.get("types", {})
        self.axes = {name: axis["tune"] for name, axis in manifest["axes"].items()}

    def tuned_for(self, line):
        """The line, for the most specific of several targets: every device that runs one of them here runs that."""
        return line if len(self.targets) < 2 else f"{line} target={max(self.targets, key=len)}"

    def lines(self, wanted):
        """A line a shape and types, of those whose first type is `wanted`, or is not when it begins with "!"."""
        first = next(iter(self.types), None)
        for types in itertools.product(*self.types.values()):
            named = dict(zip(self.types, types))
            if first and (named[first] == wanted.lstrip("!")) == wanted.startswith("!"):
                continue
            for values in itertools.product(*self.axes.values()):
                yield self.tuned_for(f"{self.name} {assignments({**named, **dict(zip(self.axes, values))})}")


class Run:
    def __init__(self, options):
        self.options = options
        self.cubinary = os.path.join(os.path.abspath(options.bin), "cubinary")
        self.end = time.monotonic() + options.seconds
        self.failed = 0
        self.wanted = []
        os.makedirs(options.out, exist_ok=True)
        # The store makes each result durable before the next candidate runs: milliseconds of a disk each.
        memory = "/dev/shm" if os.path.isdir("/dev/shm") else None
        self.folder = tempfile.TemporaryDirectory(prefix="catalogue-", dir=memory)
        self.store = os.path.join(self.folder.name, "catalogue.cubinary")
        if options.store:
            shutil.copyfile(options.store, self.store)

    def path(self, name):
        return os.path.join(self.options.out, name)

    def left(self):
        return self.end - time.monotonic()

    def call(self, *words, to=None, limit=None):
        """Standard output, or nothing when it goes to the file `to`."""
        begin = time.monotonic()
        out = open(self.path(to), "a") if to else subprocess.PIPE
        try:
            done = subprocess.run([self.cubinary, *words], stdout=out, stderr=subprocess.PIPE, text=True, timeout=limit)
        except subprocess.TimeoutExpired:  # what it measured is in the store
            done = subprocess.CompletedProcess(words, -9, "", f"it did not end within {limit:.0f} s")
        if to:
            out.close()
        print(f"-- cubinary {' '.join(words)}: {time.monotonic() - begin:.1f} s, status {done.returncode}", flush=True)
        if done.stderr:
            print(done.stderr.rstrip()[-2000:], flush=True)
        self.failed += 0 if done.returncode in (0, 1) else 1
        return done

    def build(self, kernels):
        by_targets = collections.defaultdict(list)
        for kernel in kernels:
            by_targets[",".join(kernel.targets)].append(os.path.join(ROOT, "kernels", kernel.name))
        for targets, folders in by_targets.items():
            self.call("build", *folders, "--store", self.store, "--target", targets, "--keep-going",
                      "--toolkit", os.environ.get("CUBINARY_TOOLKIT", "/usr/local/cuda"))

    def tune(self, name, lines, seconds):
        lines = [line for line in lines if line not in set(self.wanted)]
        self.wanted += lines
        if seconds < 5 or not lines:
            print(f"-- {name}: {len(lines)} lines, {seconds:.0f} s left")
            return
        with open(self.path(name), "w") as file:
            file.write("\n".join(lines) + "\n")
        words = ["tune", "--store", self.store, "--workload", self.path(name), "--budget", f"{int(seconds)}s", "--json"]
        if self.options.measure_with:
            words += ["--measure-with", self.options.measure_with]
        self.call(*words, to="tune.jsonl", limit=seconds + 30)
        with open(self.path("tune.jsonl")) as file:
            last = json.loads(file.readlines()[-1])
        counts = {key: last.get(key) for key in ("jobs", "tuned", "complete", "known", "left", "failed", "measured")}
        print("  ", counts, last.get("statuses"), flush=True)

    def report(self, benched):
        table = self.call("audit", "winners", "--store", self.store)
        print(table.stdout)
        winners = self.call("audit", "winners", "--store", self.store, "--json").stdout
        csv = self.call("audit", "winners", "--store", self.store, "--csv").stdout
        for name, text in (("winners.txt", table.stdout), ("winners.json", winners), ("winners.csv", csv)):
            with open(self.path(name), "w") as out:
                out.write(text)
        rows = json.loads(winners)["winners"] if winners else []
        lines = gains(rows)
        print("\n".join(lines))
        with open(self.path("gains.txt"), "w") as out:
            out.write("\n".join(lines) + "\n")
        tuned = {f"{row['kernel']} {assignments({**row['types'], **row['shape']})}" for row in rows}
        done = [line for line in self.wanted if line.split(" target=")[0] in tuned]
        with open(self.path("covered.txt"), "w") as out:
            for line in self.wanted:
                out.write(f"{'tuned' if line in done else 'LEFT '} {'bench' if line in benched else '     '} {line}\n")
        print(f"of bench/catalogue {len(set(done) & set(benched))} of {len(benched)} shapes are tuned, "
              f"of all {len(done)} of {len(self.wanted)}")
        return len(rows)

    def release(self):
        key = os.path.join(self.folder.name, "key")
        self.call("keygen", key)
        self.call("release", "create", "tuned", "--store", self.store, "--keep-going")
        self.call("release", "sign", "tuned", "--key", key, "--store", self.store)
        if self.call("export", self.options.layout, "--store", self.store, "--release", "tuned").returncode == 0:
            shutil.copy(key + ".pub", self.options.layout.rstrip("/") + ".pub")
            print(f"python3 bench/kernels.py --source {self.options.layout}:tuned --key {self.options.layout}.pub")

    def run(self):
        shapes = subprocess.Popen([sys.executable, __file__, "--bench-lines"], stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True)
        for name in ("tune.jsonl", "winners.json", "catalogue.cubinary.xz"):
            if os.path.exists(self.path(name)):
                os.remove(self.path(name))
        kernels = [Kernel(path, self.options.target)
                   for path in sorted(glob.glob(os.path.join(ROOT, "kernels", "*", "kernel.toml")))
                   if fnmatch.fnmatchcase(os.path.basename(os.path.dirname(path)), self.options.kernel)]
        kernels = [kernel for kernel in kernels if kernel.targets]
        self.build(kernels)
        out, error = shapes.communicate()
        if shapes.returncode != 0:
            print("-- the shapes of bench/catalogue are not known:", (error.strip().splitlines() or [""])[-1])
            out = ""
        named = {kernel.name: kernel for kernel in kernels}
        benched = [named[line.split()[0]].tuned_for(line) for line in out.splitlines() if line.split()[0] in named]
        try:
            reserve = 10 + (5 if self.options.layout else 0)
            self.tune("bench.txt", in_turn(benched), (self.left() - reserve) * 0.6)
            rest = in_turn(line for kernel in kernels for line in kernel.lines(self.options.first))
            rest += in_turn(line for kernel in kernels for line in kernel.lines("!" + self.options.first))
            self.tune("manifests.txt", rest, self.left() - reserve)
        finally:
            count = self.report(benched)
            if self.options.layout:
                self.release()
            store = self.path("catalogue.cubinary.xz")
            with open(self.store, "rb") as plain, lzma.open(store, "wb", preset=2) as packed:
                shutil.copyfileobj(plain, packed, 1 << 20)
        print(f"{count} winners, {os.path.getsize(store)} bytes of store in {self.options.out}")
        return 1 if self.failed or not count else 0


def main():
    options = arguments()
    if options.bench_lines:
        print("\n".join(bench_lines()))
        return 0
    if not options.measure_with and not glob.glob("/dev/nvidia[0-9]*"):
        print("SKIP tests/gpu/tune/catalogue.py: this machine has no NVIDIA GPU (no /dev/nvidia0)")
        return 125
    return Run(options).run()


if __name__ == "__main__":
    sys.exit(main())
