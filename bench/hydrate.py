#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Laying down a Triton cache of 500 kernel entries from a local layout, against copying the same files.

Prints, wall clock and processor time each, the median of the rounds for: the first hydrate, the second (which checks
every byte and writes nothing), and `cp -r` of the finished folder, which verifies nothing; and the ratio of the first
and the last. They run in turns. Processor time is what holds on a machine that does other work too.
Needs the C compiler (for one host module) and the tests' cubins.
"""

import argparse
import os
import pathlib
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent


def find(name, *places):
    for place in places:
        if place and (pathlib.Path(place) / name).exists():
            return pathlib.Path(place)
    raise SystemExit(f"bench hydrate: {name} is in none of {', '.join(str(place) for place in places if place)}")


BIN = find("cubinary", os.environ.get("CUBINARY_BIN"), HERE.parent / "bin")
ROOT = find("tests/blackbox/triton_folder.py", os.environ.get("CUBINARY_ROOT"), HERE.parent, HERE.parent.parent,
            HERE.parent.parent.parent)
os.environ["CUBINARY_BIN"] = str(BIN)
os.environ["CUBINARY_ROOT"] = str(ROOT)
sys.path.insert(0, str(ROOT / "tests" / "blackbox"))
import triton_folder  # noqa: E402


WORDS = ["tt.load", "arith.addf", "tensor<128xf32>", "%arg0", "mov.b32", "ld.global.v4.b32", "cf.br", "ttg.local_alloc"]
LINES = [f"{word} %{number}, %{7 * number % 1000} {{\n" for word in WORDS for number in range(0, 1000, 9)]


def text(rng, size):
    """Something that compresses as intermediate code does."""
    return "".join(rng.choices(LINES, k=size // 24)).encode()


def fill(capture, entries, rng):
    """Entries of the size real ones have: 8 files, about 110 KB."""
    for number in range(entries):
        name = f"kernel_{number % 50}"
        digest = triton_folder.sha256(f"{number}".encode())
        files = triton_folder.kernel_files(name, digest, variant=str(number).encode())
        for ending, size in (("ttir", 6000), ("ttgir", 12000), ("llir", 40000), ("ptx", 30000), ("source", 4000)):
            files[f"{name}.{ending}"] = text(rng, size)
        folder = capture.root / "entries" / triton_folder.folder_name(digest)
        triton_folder.write_kernel(folder, name, files)
        said = {"capture": 1, "kind": "kernel", "name": name, "target": "sm_90", "key_parts": {}, **capture.origin}
        (folder / "cubinary.json").write_text(triton_folder.json.dumps(said))
    capture.host("cuda_utils", "int utils;")


def run(*command):
    subprocess.run([str(part) for part in command], check=True, stdout=subprocess.DEVNULL)


def seconds(*command):
    """(wall clock, processor time) of a program."""

    def spent():
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime

    begin, before = time.perf_counter(), spent()
    run(*command)
    return time.perf_counter() - begin, spent() - before


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--entries", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", help="lay the caches down in here (default: a temporary folder)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="cubinary-bench-", dir=options.folder) as temporary:
        folder = pathlib.Path(temporary)
        capture = triton_folder.Capture(folder / "capture", triton_folder.compile_module(folder))
        fill(capture, options.entries, random.Random(1))
        store, key = folder / "kernels.db", folder / "release.key"
        ingest, _ = seconds(BIN / "cubinary", "triton", "capture", "--store", store, "--from", capture.root)
        run(BIN / "cubinary", "keygen", key)
        create, _ = seconds(BIN / "cubinary", "release", "create", "r1", "--store", store)
        run(BIN / "cubinary", "release", "sign", "r1", "--key", key, "--store", store)
        run(BIN / "cubinary", "export", folder / "layout", "--store", store, "--release", "r1")
        hydrate = [BIN / "cubinary-fetch", "hydrate", f"{folder / 'layout'}:r1", "--key", f"{key}.pub", "--cache"]
        times = {"first": [], "again": [], "copy": []}
        # A folder of its own for each: a file system that passes over what was just deleted, as ext4 does with inodes,
        # would count the cleaning up of one round into the next.
        for number in range(options.rounds):
            cache, copy = folder / f"cache{number}", folder / f"copy{number}"
            times["first"].append(seconds(*hydrate, cache))
            times["again"].append(seconds(*hydrate, cache))
            times["copy"].append(seconds("cp", "-r", cache, copy))
            files = [path for path in cache.rglob("*") if path.is_file()]
            size = sum(path.stat().st_size for path in files)
        median = {name: [statistics.median(part) for part in zip(*values)] for name, values in times.items()}
        packed = sum(path.stat().st_size for path in (folder / "layout" / "blobs").rglob("*") if path.is_file())
        print(f"{options.entries} entries, {len(files)} files, {size / 1e6:.1f} MB; {packed / 1e6:.1f} MB as a release; "
              f"ingest {ingest:.2f} s, release create {create:.2f} s; {os.cpu_count()} cores, median of "
              f"{options.rounds}")
        print(f"{'':<24}{'wall':>10}{'processor':>14}")
        for said, name in (("hydrate", "first"), ("hydrate again", "again"), ("cp -r, unverified", "copy")):
            print(f"{said:<24}{median[name][0]:>8.3f} s{median[name][1]:>12.3f} s")
        ratio = [first / copy for first, copy in zip(median["first"], median["copy"])]
        print(f"{'hydrate / cp -r':<24}{ratio[0]:>8.2f}x{ratio[1]:>12.2f}x")


if __name__ == "__main__":
    main()
