#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The Triton plug-in against real Tritons and a stub driver: capture, serving from a hydrated folder, strict mode,
damage, the autotuner's race, builds without a GPU."""

import json
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time

import harness
import layout
import tritons

ALL = ("tuned", "hooked", "pruned", "add", "scale", "persistent")
BEST = {
    "tuned": "BLOCK: 128, num_warps: 2",
    "hooked": "BLOCK: 128, num_warps: 2",
    "pruned": "BLOCK: 256, num_warps: 4",
}


class Plugin:
    """Every test, for one Triton; mixed into a Case for each that is installed."""

    triton = None

    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="cubinary-triton-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        cls.runner = tritons.Runner(cls.triton, tritons.make_stub(cls.folder / "stub"))
        cls.capture = cls.folder / "capture"
        report, error = cls.runner.launch(
            *ALL, TRITON_CACHE_MANAGER=tritons.CAPTURE, CUBINARY_TRITON_CAPTURE=cls.capture
        )
        assert report is not None, error
        cls.captured = report
        cls.cache = cls.folder / "cache"
        layout.lay_down(cls.capture, cls.cache)

    def served(self, cache=None, **more):
        return {
            "TRITON_CACHE_MANAGER": tritons.PLUGIN,
            "CUBINARY_TRITON_CACHE": cache or self.cache,
            "CUBINARY_TRITON_STRICT": "1",
            "TRITON_CACHE_DIR": self.tmp / "own",
            "CUBINARY_TRITON_MISSES": self.tmp / "misses.jsonl",
        } | more

    def laid_down(self, **options):
        layout.lay_down(self.capture, self.tmp / "cache", **options)
        return self.tmp / "cache"

    def edited(self, edit):
        """A cache of this test's own, with an index that `edit` changed."""
        cache = self.laid_down()
        index = json.loads((cache / "cubinary-triton.json").read_text())
        edit(index)
        (cache / "cubinary-triton.json").write_text(json.dumps(index))
        return cache

    def misses(self):
        path = self.tmp / "misses.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def fails(self, *what, says, **environment):
        report, error = self.runner.launch(*what, **environment)
        self.assertIsNone(report, "it should have been refused")
        for pattern in says:
            self.assertRegex(error, pattern)
        return error

    # --- capture ---
    def test_capture_holds_what_ran(self):
        kernels = [json.loads(path.read_text()) for path in self.capture.glob("entries/*/cubinary.json")]
        self.assertEqual(
            sorted({kernel["name"] for kernel in kernels}),
            ["add", "hooked", "persistent", "pruned", "scale", "tuned"],
        )
        parts = next(kernel["key_parts"] for kernel in kernels if kernel["name"] == "scale")
        self.assertEqual(
            (parts["arch"], parts["source.file"], parts["option.num_warps"]), ("90", "kernels.py", "4")
        )
        self.assertRegex(parts["ptxas"], r"^\d+\.\d+\.\d+$")
        modules = {json.loads(path.read_text())["name"] for path in self.capture.glob("host/*/meta.json")}
        self.assertIn("cuda_utils", modules)
        results = list(self.capture.glob("autotune/sm90-s132-l50M-b6144-m144G/*/*.autotune.json"))
        self.assertEqual(
            sorted(path.name for path in results),
            [f"{name}.autotune.json" for name in ("hooked", "pruned", "tuned")],
        )
        for path in self.capture.glob("host/*/meta.json"):
            meta = json.loads(path.read_text())
            self.assertLessEqual(tuple(map(int, meta["glibc_floor"].split("."))), (2, 28), meta["name"])

    def test_killed_capture_goes_on_and_two_share_a_folder(self):
        folder = self.tmp / "capture"
        environment = {"TRITON_CACHE_MANAGER": tritons.CAPTURE, "CUBINARY_TRITON_CAPTURE": folder}
        command = [self.triton.python, str(tritons.HERE / "programs/launch.py"), "add", "scale", "persistent"]
        child = subprocess.Popen(
            command,
            env=self.runner.environment(**environment),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        end = time.monotonic() + 120
        while not list(folder.glob("entries/*/*.ttir")) and child.poll() is None and time.monotonic() < end:
            time.sleep(0.005)
        child.send_signal(signal.SIGKILL)
        child.wait()
        for group in list(folder.glob("entries/*/__grp__*"))[:1]:
            (group.parent / "cubinary.json").unlink(missing_ok=True)  # as if killed between the two
        pair = [
            subprocess.Popen(
                command,
                env=self.runner.environment(**environment),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for _ in range(2)
        ]
        for process in pair:
            _, error = process.communicate(timeout=240)
            self.assertEqual(process.returncode, 0, error)
        whole = {path.parent.name for path in folder.glob("entries/*/cubinary.json")}
        self.assertEqual(len(whole), 4)
        for key in whole:
            self.assertEqual(
                {
                    path.name
                    for path in (folder / "entries" / key).iterdir()
                    if not path.name.startswith("tmp.")
                },
                {path.name for path in (self.capture / "entries" / key).iterdir()},
            )

    def test_ranks_fill_one_folder_together(self):
        """As a launcher of ranks starts them: each with an environment of its own, some kernels shared."""
        folder = self.tmp / "capture"
        ranks = [["add", "tuned"], ["add", "scale"], ["tuned", "persistent"]]
        processes = [
            subprocess.Popen(
                [self.triton.python, str(tritons.HERE / "programs/launch.py"), *what],
                env=self.runner.environment(
                    TRITON_CACHE_MANAGER=tritons.CAPTURE,
                    CUBINARY_TRITON_CAPTURE=folder,
                    RANK=rank,
                    LOCAL_RANK=rank,
                    WORLD_SIZE=len(ranks),
                ),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            )
            for rank, what in enumerate(ranks)
        ]
        for process in processes:
            _, error = process.communicate(timeout=240)
            self.assertEqual(process.returncode, 0, error)
        names = ("add", "scale", "tuned", "persistent")
        wanted = {
            path.parent.name
            for path in self.capture.glob("entries/*/cubinary.json")
            if json.loads(path.read_text())["name"] in names
        }
        self.assertEqual(self.keys(folder), wanted)
        self.assertEqual(len(list((folder / "records").iterdir())), len(ranks))
        self.assertEqual(
            [path.name for path in folder.glob("autotune/*/*/*.autotune.json")], ["tuned.autotune.json"]
        )
        cache = self.tmp / "cache"
        layout.lay_down(folder, cache)
        report, error = self.runner.launch(*names, **self.served(cache))
        self.assertIsNotNone(report, error)

    # --- serving ---
    def test_served_starts_nothing_writes_nothing_tunes_nothing(self):
        for path in [self.cache, *self.cache.rglob("*")]:
            path.chmod(0o555 if path.is_dir() else 0o444)
        report, error = self.runner.launch(*ALL, **self.served(PATH="/nonexistent"))
        self.assertIsNotNone(report, error)
        for name, best in BEST.items():
            self.assertTrue(report[name]["best"].startswith(best), report[name])
            self.assertEqual(report[name], self.captured[name])
        self.assertEqual((report["started"], report["written"], report["benched"]), ([], [], 0))
        self.assertEqual((report["launches"], report["hook_calls"]), (7, 1))
        self.assertEqual(self.misses(), [])
        self.assertFalse((self.tmp / "own").exists())

    def test_moved_folder_and_environment_alone(self):
        moved = self.tmp / "elsewhere"
        shutil.copytree(self.cache, moved)
        report, error = self.runner.launch(
            *ALL, site=False, **self.served(moved, TRITON_LIBCUDA_PATH=self.runner.stub)
        )
        self.assertIsNotNone(report, error)
        # Without site/ the plug-in arrives with the driver, after Triton ran `file` and began one measurement.
        self.assertLessEqual(set(report["started"]), {"file"})
        self.assertLessEqual(report["benched"], 1)
        self.assertEqual({name: report[name] for name in BEST}, {name: self.captured[name] for name in BEST})

    def test_triton_key_is_begun_at_import_and_whole_after_a_fork(self):
        program = """
import os, threading, triton
from triton.runtime import cache
from triton.compiler import compiler
key = getattr(cache, "triton_key", None) or compiler.triton_key
begun = any(thread.name == "cubinary-triton-key" for thread in threading.enumerate()) or key.cache_info().currsize
child = os.fork()
if child == 0:
    os._exit(7 if key.cache_info().currsize == 1 else 1)
print(bool(begun), os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
        done = self.runner.run("-c", program, **self.served())
        self.assertEqual(done.stdout.split(), ["True", "7"], done.stderr)

    def test_race(self):
        report, _ = self.runner.launch(
            "threads", TRITON_CACHE_DIR=self.tmp / "own", TRITON_LIBCUDA_PATH=self.runner.stub
        )
        self.assertTrue(
            any("NoneType" in error for error in report["threads"]["errors"]), "the control no longer fails"
        )
        report, error = self.runner.launch("threads", **self.served(CUBINARY_TRITON_STRICT="0"))
        self.assertEqual(report["threads"]["errors"], [], error)
        # 6 sizes, 3 + 2 configs, measured once each however many threads asked.
        self.assertEqual(report["benched"], 30)

    # --- strict mode ---
    def test_missing_kernel(self):
        cache = self.laid_down(keep=lambda _kind, name: name != "scale")
        error = self.fails(
            "add",
            "scale",
            **self.served(cache),
            says=(
                r"Missing: strict mode: the kernel 'scale' \(kernels.py:\d+\) for sm_90 under key [A-Z2-7]{52}",
                r"release 'r1' in ",
                "holds no kernel of this name",
                "cubinary triton capture",
            ),
        )
        (miss,) = self.misses()
        self.assertIn(miss["key"], error)
        self.assertTrue((self.capture / "entries" / miss["key"]).is_dir())

    def test_missing_kernel_says_which_part_differs(self):
        cache = self.laid_down()
        index = json.loads((cache / "cubinary-triton.json").read_text())
        key = next(key for key, entry in index["kernels"].items() if entry["name"] == "persistent")
        entry = index["kernels"].pop(key)
        index["kernels"]["A" * 52] = entry | {
            "key_parts": entry["key_parts"] | {"source.line": "7", "option.num_warps": "2"}
        }
        (cache / "cubinary-triton.json").write_text(json.dumps(index))
        says = (
            "nearest entry, A{52}, differs: source line is \\d+ here and 7 in the release; "
            "option num_warps is 4 here and 2 in the release",
        )
        self.fails("persistent", **self.served(cache), says=says)
        done = self.runner.run("-m", "cubinary.triton.explain", self.tmp / "misses.jsonl", "--cache", cache)
        self.assertRegex(done.stdout, f"^persistent {key}: .*{says[0]}")

    def test_missing_tuning_takes_the_first_config_that_is_there(self):
        cache = self.edited(lambda index: index["autotune"].clear())
        report, error = self.runner.launch("tuned", "pruned", **self.served(cache))
        self.assertTrue(report["tuned"]["best"].startswith("BLOCK: 64,"), error)
        self.assertTrue(
            report["pruned"]["best"].startswith("BLOCK: 128,"), "early_config_prune drops the first"
        )
        self.assertEqual(
            [(miss["kind"], miss["name"]) for miss in self.misses()],
            [("autotune", "tuned"), ("autotune", "pruned")],
        )
        self.assertIn("no autotune result for 'tuned'", error)

    def test_tuning_of_a_related_gpu_serves(self):
        def rename(index):
            index["autotune"] = {"sm90-s78-l50M-b6144-m96G": index["autotune"]["sm90-s132-l50M-b6144-m144G"]}

        cache = self.edited(rename)
        shutil.move(
            cache / "cubinary/autotune/sm90-s132-l50M-b6144-m144G",
            cache / "cubinary/autotune/sm90-s78-l50M-b6144-m96G",
        )
        report, error = self.runner.launch("tuned", **self.served(cache))
        self.assertTrue(report["tuned"]["best"].startswith(BEST["tuned"]), error)

    def test_missing_host_module_never_reaches_a_compiler(self):
        cache = self.edited(lambda index: index["host"].clear())
        self.fails(
            "add",
            **self.served(cache),
            says=("host module 'cuda_utils'", "no compiler is started", "It holds no such module at all"),
        )

    def test_strict_mode_takes_nothing_from_an_ordinary_cache(self):
        own = self.tmp / "own"
        report, error = self.runner.launch(
            "scale", TRITON_CACHE_DIR=own, TRITON_LIBCUDA_PATH=self.runner.stub
        )
        self.assertIsNotNone(report, error)
        cache = self.edited(lambda index: index["host"].clear())
        self.fails("scale", **self.served(cache, TRITON_CACHE_DIR=own), says=("host module 'cuda_utils'",))

    def test_host_module_of_another_python_or_glibc(self):
        def other_python(index):
            for modules in index["host"].values():
                modules[0]["python_abi"] = "cp39"

        def newer_glibc(index):
            for modules in index["host"].values():
                modules[0]["glibc_floor"] = "2.99"

        def other_machine(index):
            for modules in index["host"].values():
                modules[0]["machine"] = "riscv64"

        self.fails("add", **self.served(self.edited(other_python)), says=(r"for cp39, this is Python 3\.",))
        shutil.rmtree(self.tmp / "cache")
        self.fails(
            "add",
            **self.served(self.edited(other_machine)),
            says=(r"for riscv64, this machine is ",),
        )
        shutil.rmtree(self.tmp / "cache")
        self.fails(
            "add",
            **self.served(self.edited(newer_glibc)),
            says=(r"glibc 2\.99 or newer, this system has 2\.",),
        )

    def test_another_gpu_or_another_ptxas_is_told(self):
        self.fails("scale", **self.served(STUB_CC="80"), says=(r"for sm_80 under key .* arch is 80 here and 90 in",))
        other = self.tmp / "ptxas"
        other.write_text(
            "#!/bin/sh\necho 'ptxas: NVIDIA (R) Ptx optimizing assembler'\n"
            "echo 'Cuda compilation tools, release 12.0, V12.0.99'\n"
        )
        other.chmod(0o755)
        self.fails(
            "scale",
            **self.served(TRITON_PTXAS_PATH=other, TRITON_PTXAS_BLACKWELL_PATH=other),
            says=(r"the kernel 'scale' .*differs: ptxas is 12\.0\.99 here and \d+\.\d+\.\d+ in the release\.",),
        )

    # --- damage ---
    def test_a_partial_group_is_refused(self):
        cache = self.laid_down()
        for cubin in cache.glob("*/scale.cubin"):
            cubin.unlink()
        self.fails(
            "scale",
            **self.served(cache),
            says=(r"Tampered: .*scale\.cubin .*cannot be read: No such file or directory\. Hydrate the folder again",),
        )

    def flip(self, path):
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)

    def test_tampered_files_are_not_loaded(self):
        cache = self.laid_down()
        for cubin in cache.glob("*/scale.cubin"):
            self.flip(cubin)
        self.fails(
            "scale",
            **self.served(cache),
            says=(r"Tampered: .*scale\.cubin was changed after it was verified",),
        )
        report, error = self.runner.launch("scale", **self.served(cache, CUBINARY_TRITON_STRICT="0"))
        self.assertEqual(report["launches"], 1, error)
        self.assertIn("Triton compiles it here", error)
        for module in cache.glob("cubinary/host/*/cuda_utils*.so"):
            self.flip(module)
        self.fails("add", **self.served(cache), says=(r"Tampered: .*cuda_utils.*\.so was changed",))

    def test_pinned_index(self):
        cache = self.laid_down()
        pin = layout.digest(cache / "cubinary-triton.json")
        report, error = self.runner.launch("scale", **self.served(cache, CUBINARY_TRITON_INDEX=pin))
        self.assertIsNotNone(report, error)
        with open(cache / "cubinary-triton.json", "a") as index:
            index.write(" ")
        self.fails(
            "scale", **self.served(cache, CUBINARY_TRITON_INDEX=pin), says=("CUBINARY_TRITON_INDEX pins",)
        )

    # --- Triton's own cache below ---
    def test_unwritable_home_and_partial_group(self):
        blocked = self.tmp / "file"
        blocked.write_text("")
        empty = self.tmp / "empty"
        environment = self.served(empty, CUBINARY_TRITON_STRICT="0")
        report, error = self.runner.launch(
            "scale", "add", **environment | {"TRITON_CACHE_DIR": blocked / "cache"}
        )
        self.assertEqual(report["launches"], 3, error)
        self.assertEqual(error.count("Triton's cache cannot be written"), 1, error)
        self.assertIsNotNone(self.runner.launch("scale", **environment)[0])
        for cubin in (self.tmp / "own").glob("*/scale.cubin"):
            cubin.unlink()
        report, error = self.runner.launch("scale", **environment)
        self.assertEqual(report["launches"], 1, error)

    # --- builds without a GPU ---
    def build(self, *arguments, status=0):
        done = self.runner.run(
            "-m", "cubinary.triton.build", *arguments, STUB_CC="75", TRITON_CACHE_DIR=self.tmp / "own"
        )
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done

    def keys(self, folder):
        return {path.parent.name for path in folder.glob("entries/*/cubinary.json")}

    def test_build_gives_the_keys_that_a_gpu_asks_for(self):
        out = self.tmp / "built"
        self.build("--record", self.capture / "records", "--target", "sm_90", "--out", out)
        self.assertEqual(self.keys(out), self.keys(self.capture))
        self.assertEqual(
            {path.name for path in out.glob("host/*")}, {path.name for path in self.capture.glob("host/*")}
        )
        shutil.copytree(self.capture / "autotune", out / "autotune", dirs_exist_ok=True)
        layout.lay_down(out, self.tmp / "cache")
        report, error = self.runner.launch(*ALL, **self.served(self.tmp / "cache"))
        self.assertIsNotNone(report, error)
        self.assertEqual(report["written"], [])

    def test_build_for_another_gpu(self):
        done = self.build(
            "--record", self.capture / "records", "--target", "sm_120", "--out", self.tmp / "a", status=1
        )
        self.assertRegex(
            done.stderr,
            "persistent: its constant NUM_SMS = 132 is the SM count of the recording GPU.*--device-class",
        )
        self.build(
            "--record",
            self.capture / "records",
            "--target",
            "sm_120",
            "--out",
            self.tmp / "b",
            "--device-class",
            "sm120-s188-l128M-b512-m96G",
        )
        self.assertEqual(len(self.keys(self.tmp / "b")), len(self.keys(self.capture)))
        for cubin in (self.tmp / "b").glob("entries/*/*.cubin"):
            data = cubin.read_bytes()
            # e_flags of an ELF64: the SM number in the low byte, or one higher with ABI version 8.
            self.assertIn(120, (data[48], data[49]), cubin)
        (persistent,) = (
            json.loads(path.read_text())
            for path in (self.tmp / "b").glob("entries/*/cubinary.json")
            if json.loads(path.read_text())["name"] == "persistent"
        )
        self.assertIn('"188"', persistent["key_parts"]["constants"])
        layout.lay_down(self.tmp / "b", self.tmp / "cache")
        report, error = self.runner.launch("add", "scale", **self.served(self.tmp / "cache", STUB_CC="120"))
        self.assertIsNotNone(report, error)

    def test_build_lists_what_it_cannot_cover(self):
        lines = [
            json.loads(line)
            for path in (self.capture / "records").iterdir()
            for line in path.read_text().splitlines()
        ]
        scale = next(line for line in lines if line["function"] == "scale")
        record = self.tmp / "record.jsonl"
        record.write_text(
            "".join(
                json.dumps(line) + "\n"
                for line in (
                    scale,
                    scale,
                    scale | {"function": "make.<locals>.inner"},
                    scale | {"module": "no_such_module", "root": "/nowhere"},
                    scale | {"function": "gone"},
                    scale | {"unrecordable": "a constant of type a.B"},
                )
            )
            + '{"unfinished"'
        )
        done = self.build("--record", record, "--target", "90", "--out", self.tmp / "out", "--json", status=1)
        outcomes = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual(outcomes[-1]["ok"], 1)
        why = " ".join(outcome.get("why", "") for outcome in outcomes)
        for said in (
            "defined inside a function",
            "no_such_module cannot be imported",
            "has no gone",
            "a constant of type a.B",
        ):
            self.assertIn(said, why)

    def test_build_refuses_what_is_no_record(self):
        record = self.tmp / "r.jsonl"
        for text, says in (
            ("x\n", r"r.jsonl:1: no record"),
            ('{"record": 9}\n', "format 9, this program reads 1"),
            ("[]\n", "no record"),
        ):
            record.write_text(text)
            done = self.build("--record", record, "--target", "sm_90", "--out", self.tmp / "o", status=2)
            self.assertRegex(done.stderr, says)
        self.build("--record", self.tmp / "none", "--target", "sm_90", "--out", self.tmp / "o", status=3)
        self.build("--record", record, "--target", "sm_x", "--out", self.tmp / "o", status=2)

    def test_build_by_running_the_program(self):
        out = self.tmp / "out"
        done = self.build(
            "--target", "sm_90", "--out", out, "--", tritons.HERE / "programs/launch.py", "add", "tuned"
        )
        self.assertIn("5 compiled for sm_90", done.stdout)
        self.assertLess(self.keys(out), self.keys(self.capture))
        self.assertEqual(list(out.glob("autotune/*")), [], "timings of launches that did nothing were kept")

    # --- flash-linear-attention ---
    def test_fla_does_not_fall_back_to_the_cpu_in_silence(self):
        served = self.served(self.edited(lambda index: index["host"].clear()))
        for caught, warns in (("BaseException", True), ("Exception", True), ("Exception", False)):
            program = f"import fake_fla; print(fake_fla.device({caught!r}, {warns}))"
            done = self.runner.run("-c", program, **served)
            self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
            self.assertIn("host module 'cuda_utils'", done.stderr)
        self.assertEqual(self.runner.run("-c", program, **self.served()).stdout.strip(), "cuda")


def one_case_for_each_triton():
    for triton in tritons.installed():
        name = f"Triton_{triton.name}"
        globals()[name] = type(name, (Plugin, harness.Case), {"triton": triton})


harness.need_tools("gcc")
one_case_for_each_triton()

if __name__ == "__main__":
    harness.main()
