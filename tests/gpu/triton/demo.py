# SPDX-License-Identifier: Apache-2.0
"""What the Triton part is for, shown on a real GPU, as one table: how programs fail where there is no compiler,
and that the same programs run there from a release, exec nothing, write nothing, and do not race.

    python demo.py --work DIR [--cubinary PROGRAM] [--fla DIR] [--quick]

A row is BAD when it is not as it must be: a failure that did not happen, something started or written, a first launch
shown to be slower than Triton's own warm cache, a warm hit more than 5 % over Triton's file cache. Exit 0 when none is.
"""

import argparse
import concurrent.futures
import json
import math
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path.insert(0, str(ROOT / "tests/python/triton"))
import layout  # noqa: E402


class Demo:
    def __init__(self, options):
        self.options = options
        self.work = pathlib.Path(options.work)
        shutil.rmtree(self.work, ignore_errors=True)
        self.work.mkdir(parents=True)
        self.work.chmod(0o755)
        # Readable for the unprivileged user of the lean view, wherever the checkout lies.
        self.python = self.copy(ROOT / "python", "python")
        self.programs = self.copy(HERE, "programs")
        self.fla = self.copy(pathlib.Path(options.fla), "fla") if options.fla else None
        self.rows, self.failed, self.log = [], 0, open(self.work / "log", "w", encoding="utf-8")
        self.lock = threading.Lock()

    def copy(self, source, name):
        place = self.work / name
        shutil.copytree(source, place, ignore=shutil.ignore_patterns("__pycache__"))
        return place

    # --- running ---
    def path(self, plugin):
        parts = [self.python / "cubinary/triton/site", self.python] if plugin else []
        return ":".join(map(str, parts + ([self.fla] if self.fla else [])))

    def run(self, program, *arguments, env=None, lean=False, plugin=False, timeout=100):
        """(exit status, parsed JSON or None, report of the lean view or None, stderr)."""
        base = {
            "HOME": "/nonexistent",
            "PATH": "/nonexistent",
            "PYTHONDONTWRITEBYTECODE": "1",
            "LD_LIBRARY_PATH": os.environ.get("LD_LIBRARY_PATH", ""),
            "PYTHONPATH": self.path(plugin),
        }
        if self.options.quick:
            base["CONFIGS"] = "2"
        command = (
            [sys.executable]
            + ([str(self.programs / "lean.py")] if lean else [])
            + [str(self.programs / program)]
        )
        start = time.monotonic()
        try:
            done = subprocess.run(
                command + list(map(str, arguments)),
                env=base | (env or {}),
                text=True,
                cwd="/tmp",
                capture_output=True,
                timeout=timeout,
            )
        except subprocess.TimeoutExpired as error:
            return 124, None, None, f"timed out after {timeout} s: {error.stderr}"
        print(
            f"--- {program} {arguments} {env} lean={lean}: exit {done.returncode}, {time.monotonic() - start:.1f} s\n"
            f"{done.stdout}{done.stderr}",
            file=self.log,
            flush=True,
        )
        answer = next((json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")), None)
        view = re.search(r"^LEAN (.*)$", done.stderr, re.M)
        return done.returncode, answer, json.loads(view.group(1)) if view else None, done.stderr

    def row(self, what, result, good):
        with self.lock:
            self.rows.append((what, result, good))
            self.failed += not good
            print(f"{'PASS' if good else 'BAD '} {what:<66} {result}", flush=True)

    def served(self, cache, **more):
        return {
            "TRITON_CACHE_MANAGER": "cubinary.triton:CacheManager",
            "CUBINARY_TRITON_CACHE": str(cache),
            "CUBINARY_TRITON_STRICT": "1",
            "TRITON_CACHE_DIR": str(self.work / "never"),
        } | more

    # --- (a) controls ---
    def no_compiler(self):
        status, _, _, error = self.run(
            "plain.py", env={"TRITON_CACHE_DIR": str(self.work / "a1"), "TRITON_LIBCUDA_PATH": "/tmp"}
        )
        self.row("control: no compiler", last(error), status != 0 and "Failed to find C compiler" in error)

    def no_headers(self):
        wrapper = self.work / "cc-without-python"
        headers = sysconfig.get_paths()["include"]
        wrapper.write_text(
            f'#!/bin/bash\nargs=()\nfor a in "$@"; do [ "$a" = -I{headers} ] || args+=("$a"); done\n'
            f'exec {shutil.which("gcc")} "${{args[@]}}"\n'
        )
        wrapper.chmod(0o755)
        status, _, _, error = self.run(
            "plain.py",
            env={"PATH": os.environ["PATH"], "CC": str(wrapper), "TRITON_CACHE_DIR": str(self.work / "a2")},
        )
        said = re.search(r".*Python\.h.*", error)
        self.row(
            "control: a compiler, no Python.h",
            said.group(0).strip() if said else last(error),
            status != 0 and said is not None,
        )

    def moved_cache(self):
        made = {"PATH": os.environ["PATH"], "TRITON_CACHE_DIR": str(self.work / "a3")}
        self.run("plain.py", env=made)
        shutil.move(self.work / "a3", self.work / "moved")
        status, _, _, error = self.run(
            "plain.py", env={"TRITON_CACHE_DIR": str(self.work / "moved"), "TRITON_LIBCUDA_PATH": "/tmp"}
        )
        self.row("control: a warm cache moved into a container without `file`", last(error), status != 0)

    def racing(self):
        status, answer, _, error = self.run(
            "plain.py",
            "threads",
            20,
            env={"PATH": os.environ["PATH"], "TRITON_CACHE_DIR": str(self.work / "race")},
        )
        self.row(
            "control: 8 threads, first call of a tuned kernel, 20 rounds",
            f"{answer['died']} of {answer['calls']} calls died: {answer['as'][:60]}"
            if answer
            else last(error),
            status == 0 and bool(answer) and answer["died"] > 0,
        )

    def timed(self, env, **options):
        """Seconds of a program's first launch, and of the whole program."""
        start = time.monotonic()
        status, answer, _, error = self.run("plain.py", env=env, **options)
        if status != 0 or not answer or not answer["right"]:
            raise SystemExit(f"plain.py did not run: {last(error)}")
        return answer["first_launch_s"], time.monotonic() - start

    # --- capture and hydrate ---
    def capture(self, name, programs):
        """The programs, all at once, into one folder."""
        folder = self.work / f"capture-{name}"

        def one(program):
            status, answer, _, error = self.run(
                *program,
                plugin=True,
                env={
                    "PATH": os.environ["PATH"],
                    "TRITON_CACHE_MANAGER": "cubinary.triton:CaptureManager",
                    "CUBINARY_TRITON_CAPTURE": str(folder),
                },
            )
            good = status == 0 and bool(answer)
            self.row(f"capture: {' '.join(map(str, program))}", count(folder) if good else last(error), good)
            return answer

        return folder, together(*[lambda program=program: one(program) for program in programs])

    def hydrate(self, captures, name):
        cache = self.work / name
        start = time.monotonic()
        if self.options.cubinary:
            self.through_release(captures, cache)
        else:
            layout.lay_down(merged(captures, self.work / f"{name}-merged"), cache)
        for path in [cache, *cache.rglob("*")]:
            path.chmod(0o555 if path.is_dir() else 0o444)
        index = json.loads((cache / "cubinary-triton.json").read_text())
        self.row(
            f"hydrate {name}",
            f"{len(index['kernels'])} kernels, {len(index['host'])} host modules, "
            f"{sum(map(len, index['autotune'].values()))} tuned in {time.monotonic() - start:.2f} s",
            bool(index["kernels"]),
        )
        return cache

    def through_release(self, captures, cache):
        """The whole way: store, signed release, hydrate. A store of its own a cache."""
        cubinary, store, out = (
            self.options.cubinary,
            self.work / f"{cache.name}.db",
            self.work / f"{cache.name}-release",
        )
        key = self.work / f"{cache.name}.key"

        def call(*arguments):
            done = subprocess.run([cubinary, *map(str, arguments)], text=True, capture_output=True)
            print(
                f"--- cubinary {arguments}: {done.returncode}\n{done.stdout}{done.stderr}",
                file=self.log,
                flush=True,
            )
            if done.returncode != 0:
                raise SystemExit(f"cubinary {arguments[0]} {arguments[1]}: {done.stderr.strip()}")

        if not key.exists():
            call("keygen", key)
        for folder in captures:
            call("triton", "capture", "--store", store, "--from", folder)
        call("release", "create", "demo", "--store", store)
        call("release", "sign", "demo", "--key", key, "--store", store)
        call("export", out, "--store", store, "--release", "demo")
        call("triton", "hydrate", f"{out}:demo", "--key", f"{key}.pub", "--cache", cache)

    # --- (b), (c) ---
    def lean(self, what, cache, program, check):
        before = snapshot(cache)
        misses = self.work / f"misses-{cache.name}.jsonl"
        misses.unlink(missing_ok=True)
        status, answer, view, error = self.run(
            *program, lean=True, plugin=True, env=self.served(cache, CUBINARY_TRITON_MISSES=str(misses))
        )
        good = status == 0 and bool(answer) and bool(view) and check(answer)
        # torch makes its own temporary folder when torch.compile is imported.
        ours = (
            [path for path in view["written"] if not path.startswith(tempfile.gettempdir())]
            if view
            else ["?"]
        )
        clean = bool(view) and view["exec_forbidden"] and not view["tried"] and not ours
        clean = clean and snapshot(cache) == before and not (self.work / "never").exists()
        self.row(f"lean: {what}", short(answer) if answer else last(error), good)
        self.row(
            "      exec forbidden; started, written, missed",
            f"{view['tried']} {view['written'][:2]} {lines(misses)}" if view else "no report",
            clean and not lines(misses),
        )
        return answer

    def speed(self, cache):
        """Both sides in turns, so that what else the machine does meets both, and in the same view: the audit hook
        of the lean one is no part of a program."""
        own = {
            "PATH": os.environ["PATH"],
            "TRITON_CACHE_DIR": str(self.work / "own"),
            "TRITON_CACHE_AUTOTUNING": "1",
        }
        cold, _ = self.timed(own)
        sides = (lambda: self.timed(own), lambda: self.timed(self.served(cache), plugin=True))
        pairs = []
        for turn in range(self.options.repeat):
            first = turn % 2
            times = {first: sides[first](), 1 - first: sides[1 - first]()}
            pairs.append((times[0], times[1]))
        self.row("first launch, compiling and tuning", f"{cold:.2f} s", True)
        for which, what in ((0, "first launch"), (1, "whole program")):
            warm, hydrated = (statistics.median(pair[side][which] for pair in pairs) for side in (0, 1))
            low, high = interval([served[which] - own_[which] for own_, served in pairs])
            self.row(
                f"{what}, hydrated against Triton's own warm cache",
                f"{hydrated:.3f} s against {warm:.3f} s: {hydrated / warm:.2f}x (medians of {len(pairs)} pairs; "
                f"difference {1000 * low:+.0f} to {1000 * high:+.0f} ms)" + ("" if which == 0 else ", no bar"),
                which == 1 or low <= 0,
            )

    def hits(self):
        """A compile that hits, through both cache managers in turns."""
        done = subprocess.run(
            [sys.executable, str(ROOT / "bench/triton_hit.py"), "--rounds", str(self.options.repeat), "--json"],
            text=True,
            capture_output=True,
        )
        print(f"--- triton_hit: {done.returncode}\n{done.stdout}{done.stderr}", file=self.log, flush=True)
        if done.returncode != 0:
            self.row("warm hit through the plug-in", last(done.stderr), False)
            return
        measured = json.loads(done.stdout)
        for what, bar in (("hit", 1.05), ("launch", None)):
            own, plugin = measured[what]
            self.row(
                f"{'warm hit' if what == 'hit' else 'launch of a tuned kernel'} against Triton's own file cache",
                f"{plugin:.1f} us against {own:.1f} us: {plugin / own:.3f}x "
                + (f"(bar {bar})" if bar else "(no bar)"),
                bar is None or plugin / own <= bar,
            )

    # --- (d) ---
    def build(self, capture, target, out, kernels_of):
        folder = self.work / out
        start = time.monotonic()
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "cubinary.triton.build",
                "--record",
                str(capture / "records"),
                "--target",
                target,
                "--out",
                str(folder),
            ],
            text=True,
            capture_output=True,
            env=os.environ
            | {
                "CUDA_VISIBLE_DEVICES": "",
                "PYTHONPATH": self.path(True),
                "TRITON_CACHE_DIR": str(self.work / "never"),
            },
        )
        print(f"--- build {target}: {done.returncode}\n{done.stdout}{done.stderr}", file=self.log, flush=True)
        made = {path.name for path in (folder / "entries").glob("*")} if folder.exists() else set()
        wanted = {path.name for path in (kernels_of / "entries").glob("*")} if kernels_of else made
        elf = sum(
            is_cubin_of(cubin.read_bytes(), int(target[3:])) for cubin in folder.glob("entries/*/*.cubin")
        )
        self.row(
            f"build for {target} with no GPU visible",
            f"{len(made)} entries ({elf} cubins of {target}) in {time.monotonic() - start:.1f} s; "
            f"{len(wanted & made)} of {len(wanted)} keys as wanted; {done.stderr.strip()[-60:]}",
            done.returncode == 0 and wanted <= made and elf == len(made) > 0,
        )
        return folder


def interval(differences):
    """Where the median of paired differences lies, with at least 95 % confidence: between two order statistics, by the
    sign test. All of them where there are too few."""
    ordered, count = sorted(differences), len(differences)
    skipped, tail = 0, 0.0
    while (tail := tail + math.comb(count, skipped) / 2**count) <= 0.025:
        skipped += 1
    skipped = max(skipped - 1, 0)
    return ordered[skipped], ordered[count - 1 - skipped]


def together(*jobs):
    """Results of jobs run at once."""
    with concurrent.futures.ThreadPoolExecutor(max(len(jobs), 1)) as pool:
        return [future.result() for future in [pool.submit(job) for job in jobs]]


def merged(captures, place):
    for folder in captures:
        shutil.copytree(folder, place, dirs_exist_ok=True)
    return place


def is_cubin_of(data, arch):
    """The SM number stands in the low byte of the ELF's flags, or one higher with ABI version 8."""
    return data[:4] == b"\x7fELF" and data[49 if data[8] >= 8 else 48] == arch


def snapshot(folder):
    return sorted((str(path), path.stat().st_mtime_ns, path.stat().st_size) for path in folder.rglob("*"))


def count(folder):
    return ", ".join(
        f"{len(list(folder.glob(pattern)))} {name}"
        for name, pattern in (
            ("kernels", "entries/*/cubinary.json"),
            ("host modules", "host/*/meta.json"),
            ("tuned", "autotune/*/*/*.autotune.json"),
        )
    )


def lines(path):
    return len(path.read_text().splitlines()) if path.exists() else 0


def last(error):
    kept = [line for line in error.strip().splitlines() if line and not line.startswith("LEAN")]
    return kept[-1][:120] if kept else "(silent)"


def short(answer):
    return json.dumps(
        {name: value for name, value in answer.items() if name not in ("errors", "as", "max_error")}
    )[:130]


def plain_chain(demo):
    captured, _ = demo.capture("plain", [("plain.py",), ("plain.py", "threads", 20)])
    cache = demo.hydrate([captured], "plain")
    _, _, built, _ = together(
        lambda: demo.lean(
            "matrix product and addition", cache, ("plain.py",), lambda answer: answer["right"]
        ),
        lambda: demo.lean(
            "8 threads, first call of a tuned kernel, 20 rounds",
            cache,
            ("plain.py", "threads", 20),
            lambda answer: answer["died"] == 0,
        ),
        lambda: demo.build(captured, "sm_90", "built-90", captured),
        lambda: demo.build(captured, "sm_120", "built-120", None),
    )
    results = demo.work / "results-only"
    shutil.copytree(captured / "autotune", results / "autotune")
    demo.lean(
        "the same from the build without a GPU",
        demo.hydrate([built, results], "rebuilt"),
        ("plain.py",),
        lambda answer: answer["right"],
    )
    return cache


def fla_chain(demo):
    captured, (made,) = demo.capture("fla", [("fla_program.py",)])
    if made is None:
        return
    demo.row("      FLA as compiled by Triton itself", short(made["errors"]), made["right"])
    ways = "both ways" if made["backward"] == "done" else "forward"
    if ways != "both ways":
        print(f"     the gated delta rule's backward pass is left out: {made['backward']}", flush=True)
    cache = demo.hydrate([captured], "fla-cache")
    _, built, _ = together(
        lambda: demo.lean(
            f"flash-linear-attention: l2norm both ways, gated delta rule {ways}",
            cache,
            ("fla_program.py",),
            lambda answer: answer["device"] == "cuda" and answer["right"] and same(answer, made),
        ),
        lambda: demo.build(captured, "sm_90", "fla-90", captured),
        lambda: demo.build(captured, "sm_120", "fla-120", None),
    )
    results = demo.work / "fla-results"
    shutil.copytree(captured / "autotune", results / "autotune")
    demo.lean(
        "FLA from the build without a GPU",
        demo.hydrate([built, results], "fla-rebuilt"),
        ("fla_program.py",),
        lambda answer: answer["device"] == "cuda" and answer["right"] and same(answer, made),
    )


def same(answer, made):
    """Errors against the reference as they were when Triton itself compiled the program."""
    return all(abs(answer["errors"][name] - value) < 1e-3 for name, value in made["errors"].items())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", default="/tmp/cubinary-triton-demo")
    parser.add_argument(
        "--cubinary", help="the cubinary program: captures go through a store and a signed release"
    )
    parser.add_argument("--fla", help="folder with flash-linear-attention")
    parser.add_argument("--quick", action="store_true", help="two configs a tuner in FLA")
    parser.add_argument("--repeat", type=int, default=9, help="runs of each timing")
    demo = Demo(parser.parse_args())
    cache, *_ = together(
        lambda: plain_chain(demo),
        *([lambda: fla_chain(demo)] if demo.fla else []),
        demo.no_compiler,
        demo.no_headers,
        demo.moved_cache,
        demo.racing,
    )
    demo.speed(cache)  # alone on the machine
    demo.hits()
    print(f"{len(demo.rows) - demo.failed} of {len(demo.rows)} rows as they must be")
    return 1 if demo.failed else 0


if __name__ == "__main__":
    sys.exit(main())
