#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tunes the whole catalogue on this machine's GPU within a time, and keeps what came of it.

    catalogue.py [BIN] [--out DIR] [--seconds 470] [--kernel GLOB] [--first bf16] [--measure-with PROGRAM]

BIN is the folder of `cubinary` (build/release/bin). Builds the kernels for the device's target, tunes every job with
the `--first` dtype and then the others, as far as the seconds go. Prints the winners' table and what tuning gained
over what an untuned release runs, by kernel. DIR gets `winners.json`, `winners.csv`, `gains.txt`, `tune.jsonl` and the
store itself, packed. `--measure-with` is for a rehearsal without a GPU: a program that answers like a measuring process.

Exit status: 0 done, 1 something failed, 125 no GPU. CUBINARY_TOOLKIT is the toolkit (/usr/local/cuda).
"""
import argparse
import collections
import fnmatch
import glob
import json
import lzma
import math
import os
import subprocess
import sys
import time

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
    parser.add_argument("--measure-with", default="")
    return parser.parse_args()


def geometric_mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def assignments(pairs):
    return " ".join(f"{name}={value}" for name, value in sorted(pairs.items()))


def gains(winners):
    """Lines: by kernel, then the shapes that gained most and least."""
    by_kernel = collections.defaultdict(list)
    for winner in winners:
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


class Run:
    def __init__(self, options):
        self.options = options
        self.cubinary = os.path.join(os.path.abspath(options.bin), "cubinary")
        self.end = time.monotonic() + options.seconds
        self.failed = 0
        os.makedirs(options.out, exist_ok=True)
        self.store = os.path.join(options.out, "catalogue.cubinary")

    def path(self, name):
        return os.path.join(self.options.out, name)

    def call(self, *words, to=None):
        """Standard output, or nothing when it goes to the file `to`."""
        begin = time.monotonic()
        out = open(self.path(to), "a") if to else subprocess.PIPE
        done = subprocess.run([self.cubinary, *words], stdout=out, stderr=subprocess.PIPE, text=True)
        if to:
            out.close()
        print(f"-- cubinary {' '.join(words)}: {time.monotonic() - begin:.1f} s, status {done.returncode}", flush=True)
        if done.stderr:
            print(done.stderr.rstrip()[-2000:], flush=True)
        return done

    def tune(self, kernel, seconds, *more):
        if seconds < 2:
            print("-- no time is left to tune", kernel, " ".join(more))
            return
        words = ["tune", "--store", self.store, "--kernel", kernel, "--budget", f"{int(seconds)}s", "--json", *more]
        if self.options.measure_with:
            words += ["--measure-with", self.options.measure_with]
        done = self.call(*words, to="tune.jsonl")
        with open(self.path("tune.jsonl")) as lines:
            last = json.loads(lines.readlines()[-1])
        counts = {name: last.get(name) for name in ("jobs", "tuned", "complete", "known", "left", "failed", "measured")}
        print("  ", counts, last.get("statuses"), flush=True)
        self.failed += 1 if done.returncode not in (0, 1) else 0

    def left(self):
        return self.end - time.monotonic()

    def run(self):
        for name in ("tune.jsonl", "catalogue.cubinary", "catalogue.cubinary-wal", "catalogue.cubinary-shm"):
            if os.path.exists(self.path(name)):
                os.remove(self.path(name))
        built = self.call("build", os.path.join(ROOT, "kernels"), "--store", self.store, "--kernel", self.options.kernel,
                          "--target", self.options.target, "--keep-going",
                          "--toolkit", os.environ.get("CUBINARY_TOOLKIT", "/usr/local/cuda"))
        if built.returncode not in (0, 1):
            return 1
        # Three quarters for one dtype of every kernel in turn, so that none is left out; then whatever the time is good
        # for. What one does not need goes to those after it.
        kernels = sorted(os.path.basename(os.path.dirname(path))
                         for path in glob.glob(os.path.join(ROOT, "kernels", "*", "kernel.toml"))
                         if fnmatch.fnmatchcase(os.path.basename(os.path.dirname(path)), self.options.kernel))
        first_end = self.left() * 0.25
        for place, kernel in enumerate(kernels):
            self.tune(kernel, (self.left() - first_end) / (len(kernels) - place),
                      "--shape", f"T={self.options.first}")
        self.tune(self.options.kernel, self.left() - 10)
        table = self.call("audit", "winners", "--store", self.store)
        print(table.stdout)
        winners = self.call("audit", "winners", "--store", self.store, "--json").stdout
        csv = self.call("audit", "winners", "--store", self.store, "--csv").stdout
        for name, text in (("winners.txt", table.stdout), ("winners.json", winners), ("winners.csv", csv)):
            with open(self.path(name), "w") as out:
                out.write(text)
        rows = json.loads(winners) if winners else []
        rows = rows.get("winners", rows) if isinstance(rows, dict) else rows
        lines = gains(rows)
        print("\n".join(lines))
        with open(self.path("gains.txt"), "w") as out:
            out.write("\n".join(lines) + "\n")
        with open(self.store, "rb") as store, lzma.open(self.store + ".xz", "wb", preset=3) as packed:
            packed.write(store.read())
        for name in ("", "-wal", "-shm", ".lock"):
            if os.path.exists(self.store + name):
                os.remove(self.store + name)
        print(f"{len(rows)} winners, {os.path.getsize(self.store + '.xz')} bytes of store in {self.options.out}")
        return 1 if self.failed or not rows else 0


def main():
    options = arguments()
    if not options.measure_with and not glob.glob("/dev/nvidia[0-9]*"):
        print("SKIP tests/gpu/tune/catalogue.py: this machine has no NVIDIA GPU (no /dev/nvidia0)")
        return 125
    return Run(options).run()


if __name__ == "__main__":
    sys.exit(main())
