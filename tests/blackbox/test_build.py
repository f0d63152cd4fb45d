# SPDX-License-Identifier: Apache-2.0
"""`cubinary build` and `expand` on small kernels, with a real compiler."""

import json
import os
import pathlib
import pty
import re
import shutil
import signal
import subprocess
import time

import harness
import toolkits

KERNELS = harness.SOURCE / "tests" / "builder" / "kernels"


class BuildCase(harness.Case):
    def setUp(self):
        super().setUp()
        if (why := toolkits.missing()):
            self.skipTest(why)
        self.store = self.tmp / "store.cubinary"

    def kernel(self, name, folder="kernels"):
        """A copy of a test kernel that the test may change."""
        return pathlib.Path(shutil.copytree(KERNELS / name, self.tmp / folder / name))

    def build(self, *arguments, status=0, folder=None, **options):
        """Builds with --json and gives (candidate objects, summary)."""
        result = self.cubinary("build", folder or self.tmp / "kernels", "--store", self.store, "--json",
                               *arguments, status=status, **options)
        lines = result.json_lines()
        return [line for line in lines if line.get("event") == "candidate"], lines[-1]

    def explained(self, *arguments, **options):
        result = self.cubinary("build", self.tmp / "kernels", "--store", self.store, "--json", "--explain",
                               *arguments, **options)
        return {line["key"]: line["reason"] for line in result.json_lines() if line.get("event") == "explained"}


class TestBuild(BuildCase):
    def test_builds_once_and_then_does_nothing(self):
        self.kernel("scale")
        candidates, summary = self.build()
        # two types × VEC 1, 2, 4 (8 is too wide) and two references, for two targets
        self.assertEqual(len(candidates), 16)
        self.assertEqual((summary["ok"], summary["failed"], summary["skipped"]), (16, 0, 0))
        self.assertEqual({c["target"] for c in candidates}, {"sm_90", "sm_120"})
        self.assertGreater(summary["cpu_seconds"], summary["compiler_cpu_seconds"])
        for candidate in candidates:
            self.assertEqual(candidate["status"], "ok")
            (symbol,) = candidate["symbols"]
            self.assertRegex(symbol["symbol"], r"^_Z(5scale|9scale_ref)")
            self.assertGreater(symbol["registers"], 4)
            self.assertEqual(symbol["max_threads"], 1024)
            self.assertGreater(candidate["raw_size"], 1000)
        again, summary = self.build()
        self.assertEqual(again, [])
        self.assertEqual((summary["ok"], summary["failed"], summary["skipped"], summary["compiled"]), (16, 0, 16, 0))

    def test_what_changed_is_compiled_and_explained(self):
        folder = self.kernel("scale")
        reasons = self.explained("--target", "sm_90")
        self.assertEqual(set(reasons.values()), {"new: this kernel was not built before"})
        reasons = self.explained("--target", "sm_90")
        self.assertEqual(set(reasons.values()), {"unchanged"})
        with open(folder / "scale.cuh", "a") as header:
            header.write("// changed\n")
        reasons = self.explained("--target", "sm_90")
        self.assertEqual(set(reasons.values()), {"header source/scale.cuh changed"})
        manifest = (folder / "kernel.toml").read_text()
        (folder / "kernel.toml").write_text(manifest.replace('types.T  = ["f32", "i32"]', 'types.T  = ["f32", "i32", "f64"]')
                                            .replace("i32 = [0, 0]", "i32 = [0, 0], f64 = [0, 0]"))
        reasons = self.explained("--target", "sm_90")
        self.assertEqual(sorted(reasons.values()).count("unchanged"), 8)
        self.assertEqual(sum(reason.startswith("new: this config") for reason in reasons.values()), 3)
        # Launch expressions and comments of a manifest change no code.
        (folder / "kernel.toml").write_text((folder / "kernel.toml").read_text().replace("grid  =", "# moved\ngrid  ="))
        self.assertEqual(self.build("--target", "sm_90")[1]["compiled"], 0)

    def test_a_moved_checkout_and_other_surroundings_recompile_nothing(self):
        self.kernel("scale")
        self.assertEqual(self.build("--target", "sm_90")[1]["compiled"], 8)
        moved = self.tmp / "else where é"
        shutil.move(self.tmp / "kernels", moved)
        _, summary = self.build("--target", "sm_90", folder=moved,
                                env={"LC_ALL": "C", "TZ": "Asia/Tokyo", "USER": "nobody", "HOME": "/nonexistent",
                                     "NVCC_APPEND_FLAGS": "-G", "TMPDIR": str(self.tmp)})
        self.assertEqual((summary["compiled"], summary["skipped"]), (0, 8))

    def test_same_inputs_give_same_bytes(self):
        folder = self.kernel("scale")
        source = (folder / "scale.cu").read_text()
        # Internal linkage, an assertion and the file's name: what compilers like to put paths and process ids in.
        (folder / "scale.cu").write_text(source.replace("template", "namespace {\n__device__ int counter;\n}\n\ntemplate", 1)
                                         .replace("  if (i < n) {", "  assert(i >= 0);\n  counter += __FILE__[0];\n  if (i < n) {"))
        first, _ = self.build("--target", "sm_90")
        shutil.move(self.tmp / "kernels", self.tmp / "a longer path")
        self.store = self.tmp / "second.cubinary"
        second, _ = self.build("--target", "sm_90", folder=self.tmp / "a longer path")
        artifacts = [{c["key"]: c["artifact"] for c in built} for built in (first, second)]
        self.assertEqual(len(artifacts[0]), 8)
        self.assertEqual(artifacts[0], artifacts[1])

    def test_odd_texts_and_paths(self):
        folder = self.kernel("scale", "a b/ключ")
        source = (folder / "scale.cu").read_text().replace("\n", "\r\n")
        source = source.replace("#include", "#if 0\r\n#include \"not/there.h\"\r\n#endif\r\n#include", 1)
        (folder / "scale.cu").write_bytes(b"\xef\xbb\xbf" + source.encode())
        _, summary = self.build("--target", "sm_90", folder=self.tmp / "a b" / "ключ")
        self.assertEqual((summary["ok"], summary["failed"]), (8, 0))

    def test_a_folder_of_unpacked_wheels_is_a_toolkit(self):
        library = next(path for path in pathlib.Path("/usr/local/cuda").glob("lib*/libnvrtc.so.1?") if path.exists()) \
            if pathlib.Path("/usr/local/cuda").exists() else self.skipTest("no toolkit to make the folder from")
        self.kernel("scale")
        part = self.tmp / "wheels" / "nvidia" / "cuda_nvrtc"
        part.mkdir(parents=True)
        (part / "lib").symlink_to(library.parent)
        _, summary = self.build("--target", "sm_90", "--toolkit", self.tmp / "wheels")
        self.assertEqual((summary["ok"], summary["failed"]), (8, 0))

    def test_the_table(self):
        self.kernel("scale")
        result = self.cubinary("build", self.tmp / "kernels", "--store", self.store, "--target", "sm_90")
        self.assertRegex(result.stdout, r"\A8 candidates, 8 to compile with \d+ workers?\n")
        self.assertEqual(len(re.findall(r"^ok: scale .* for sm_90 \(\d+ ms\)$", result.stdout, re.M)), 8)
        self.assertRegex(result.stdout, r"(?m)^kernel +types +target +ok +failed +registers +smem B +spills B +raw +stored$")
        self.assertRegex(result.stdout, r"(?m)^scale +T=f32 +sm_90 +3 +0 +\d+(-\d+)? +0 +0 +[\d.]+ KB +[\d.]+ K?B$")
        self.assertRegex(result.stdout, r"(?m)^The store's 8 cubins: [\d.]+ KB, stored in [\d.]+ KB, dictionaries included$")
        self.assertRegex(result.stdout, r"(?m)^scale \(reference\) +T=i32 +sm_90 +1 +0 ")
        self.assertRegex(result.stdout, r"(?m)^8 ok, 0 failed, 0 unchanged; [\d.]+ s, [\d.]+ s of CPU$")

    def test_a_terminal_gets_a_bar(self):
        self.kernel("scale")
        controller, terminal = pty.openpty()
        process = subprocess.Popen([harness.binary(), "build", self.tmp / "kernels", "--store", self.store,
                                    "--target", "sm_90"], stdout=terminal, stderr=terminal, stdin=subprocess.DEVNULL)
        os.close(terminal)
        output = b""
        while True:
            try:
                piece = os.read(controller, 65536)
            except OSError:
                break
            if not piece:
                break
            output += piece
        os.close(controller)
        self.assertEqual(process.wait(60), 0, output)
        self.assertRegex(output.decode(), r"\r\x1b\[K\[#* *\] \d+/8  [\d.]+/s")
        self.assertNotIn("ok: scale", output.decode())
        self.assertRegex(output.decode(), r"8 ok, 0 failed")


class TestFailures(BuildCase):
    def test_a_config_that_does_not_compile_is_a_result(self):
        folder = self.kernel("broken_code")
        candidates, summary = self.build(status=1)
        (failed,) = [c for c in candidates if c["status"] != "ok"]
        self.assertEqual((failed["status"], failed["config"], failed["compiled"]), ("failed", {"VEC": 4}, True))
        self.assertRegex(failed["message"], r"^broken.cu\(4\): error: .*four is right out")
        self.assertIn("four is right out", failed["log"])
        self.assertEqual((summary["ok"], summary["failed"]), (3, 1))
        # Known failures are told again without compiling, and a change or a wish compiles them again.
        candidates, summary = self.build(status=1)
        self.assertEqual([(c["status"], c["compiled"]) for c in candidates], [("failed", False)])
        self.assertEqual((summary["failed"], summary["compiled"]), (1, 0))
        self.assertEqual(self.build("--keep-going")[1]["failed"], 1)
        self.assertEqual(self.build("--retry-failed", status=1)[1]["compiled"], 1)
        text = (folder / "broken.cu").read_text()
        (folder / "broken.cu").write_text(text.replace("VEC != 4", "VEC != 5"))
        self.assertEqual(self.build()[1]["failed"], 0)

    def test_plain_output_says_which_and_why(self):
        self.kernel("broken_code")
        result = self.cubinary("build", self.tmp / "kernels", "--store", self.store, status=1)
        self.assertRegex(result.stdout, r"(?m)^failed: broken_code T=f32 VEC=4 for sm_90: broken.cu\(4\): error: ")
        self.assertEqual(result.stderr, "")

    def test_a_compiler_that_hangs_costs_one_candidate(self):
        self.kernel("slow")
        candidates, summary = self.build("--time-limit", "2", status=1)
        by_role = {c["role"]: c for c in candidates}
        self.assertEqual(by_role["kernel"]["status"], "timeout")
        self.assertRegex(by_role["kernel"]["message"], "stopped after 2")
        # The reference shares the source but not the instantiation.
        self.assertEqual((by_role["reference"]["status"], summary["failed"]), ("ok", 1))

    def test_a_compiler_that_eats_memory_costs_one_candidate(self):
        self.kernel("slow")
        candidates, summary = self.build("--memory-limit", "0.25", "--time-limit", "200", status=1)
        (failed,) = [c for c in candidates if c["status"] != "ok"]
        self.assertEqual(failed["role"], "kernel")
        self.assertIn(failed["status"], ("failed", "crashed"))
        self.assertEqual((summary["ok"], summary["failed"]), (1, 1))

    def test_a_compiler_that_crashes_costs_one_candidate(self):
        self.kernel("slow")
        process = self.background(harness.binary(), "build", self.tmp / "kernels", "--store", self.store, "--json",
                                  "--jobs", "1", "--time-limit", "100")
        process.line('"event":"planned"')
        killed = set()
        end = time.monotonic() + 60
        while process.process.poll() is None and time.monotonic() < end:
            for pid in children(process.process.pid):
                # Only one that has been compiling for a while: the reference must get through.
                if pid not in killed and cpu_seconds(pid) > 1.0:
                    killed.add(pid)
                    os.kill(pid, signal.SIGSEGV)
            time.sleep(0.05)
        self.assertEqual(process.stop(), 1)
        self.assertEqual(len(killed), 2, "tried once more in a fresh worker")
        lines = [json.loads(line) for line in process.text().splitlines() if line.startswith("{")]
        crashed = [line for line in lines if line.get("status") == "crashed"]
        self.assertEqual(len(crashed), 1)
        self.assertRegex(crashed[0]["message"], "compiler crashed .signal 11")
        self.assertEqual((lines[-1]["ok"], lines[-1]["failed"], lines[-1]["crashes"]), (1, 1, 2))

    def test_broken_manifests_are_all_told_and_leave_no_store(self):
        one, two = self.kernel("scale", "kernels/x"), self.kernel("slow", "kernels/x")
        (one / "kernel.toml").write_text("manifest = 1\nname = \n")
        text = (two / "kernel.toml").read_text()
        (two / "kernel.toml").write_text(text.replace("n % VEC == 0", "n % VECC == 0"))
        result = self.refused("build", self.tmp / "kernels" / "x", "--store", self.store, status=2,
                              says=[r"scale/kernel.toml:2:", r"slow/kernel.toml:\d+:\d+: .*VECC.*VEC"])
        self.assertEqual(len(result.stderr.splitlines()), 2)
        self.assertFalse(self.store.exists())

    def test_what_is_not_there(self):
        folder = self.kernel("scale")
        self.refused("build", self.tmp / "nowhere", "--store", self.store, status=1, says="no folder .*nowhere")
        (self.tmp / "empty").mkdir()
        self.refused("build", self.tmp / "empty", "--store", self.store, status=1, says="no kernel.toml in")
        self.refused("build", folder, "--store", self.store, "--kernel", "scael", status=1, says='did you mean "scale"')
        self.refused("build", folder, "--store", self.store, "--target", "sm_91", status=2, says="sm_90")
        self.refused("build", folder, status=2, says="--store FILE")
        self.refused("build", folder, "--store", self.store, "--toolkit", self.tmp / "empty", status=3,
                     says=["no NVRTC", "empty", "--toolkit DIR"])
        (folder / "scale.cu").unlink()
        self.refused("build", folder, "--store", self.store, status=2, says="scale.cu is missing")

    def test_a_missing_header_fails_with_its_name(self):
        folder = self.kernel("scale")
        (folder / "scale.cuh").unlink()
        candidates, summary = self.build("--target", "sm_90", status=1)
        self.assertEqual(summary["failed"], 8)
        self.assertRegex(candidates[0]["message"], r'scale.cu\(2\): .*cannot open source file "scale.cuh"')
        (folder / "scale.cuh").write_text((KERNELS / "scale" / "scale.cuh").read_text())
        self.assertEqual(self.build("--target", "sm_90")[1]["ok"], 8)

    def test_a_source_that_is_empty_for_the_target(self):
        folder = self.kernel("scale")
        text = (folder / "scale.cu").read_text()
        (folder / "scale.cu").write_text("#if __CUDA_ARCH__ >= 1200 || !defined(__CUDA_ARCH__)\n" + text + "\n#endif\n")
        candidates, summary = self.build(status=1)
        self.assertEqual((summary["ok"], summary["failed"]), (8, 8))
        self.assertEqual({c["target"] for c in candidates if c["status"] == "failed"}, {"sm_90"})


class TestStopping(BuildCase):
    def many(self):
        folder = self.kernel("scale")
        text = (folder / "kernel.toml").read_text()
        values = ", ".join(str(value) for value in range(1, 61))
        (folder / "kernel.toml").write_text(text.replace("values = [1, 2, 4, 8]", f"values = [{values}]")
                                            .replace("VEC * sizeof(T) <= 16", "VEC * sizeof(T) <= 1600"))
        return folder

    def start(self):
        process = self.background(harness.binary(), "build", self.tmp / "kernels", "--store", self.store, "--json",
                                  "--target", "sm_90")
        process.line('"event":"candidate"')
        return process

    def finish(self, least):
        _, summary = self.build("--target", "sm_90")
        self.assertGreaterEqual(summary["skipped"], least)
        self.assertEqual(summary["ok"], 122)
        self.assertEqual(summary["compiled"] + summary["skipped"], 122)
        self.assertEqual(self.build("--target", "sm_90")[1]["compiled"], 0)

    def done(self, process):
        return process.text().count('"event":"candidate"')

    def test_interrupt_and_terminate_keep_what_is_finished(self):
        self.many()
        for number in (signal.SIGINT, signal.SIGTERM):
            process = self.start()
            workers = children(process.process.pid)
            self.assertEqual(process.stop(number), 1)
            self.assertRegex(process.text(), r"cubinary: stopped; \d+ compiled and kept, run again to continue")
            self.assertFalse([pid for pid in workers if alive(pid)])
        self.finish(2)

    def test_kill_keeps_what_is_finished_and_leaves_no_worker(self):
        self.many()
        for _ in range(3):
            process = self.start()
            workers = children(process.process.pid)
            self.assertTrue(workers)
            process.stop(signal.SIGKILL)
            done = self.done(process)
            end = time.monotonic() + 30
            while any(alive(pid) for pid in workers) and time.monotonic() < end:
                time.sleep(0.02)
            self.assertFalse([pid for pid in workers if alive(pid)])
        self.finish(done)

    def test_a_store_in_use_is_refused_at_once(self):
        self.many()
        self.start()
        self.refused("build", self.tmp / "kernels", "--store", self.store, status=1, says=["cubinary build", "--server"])


class TestNvcc(BuildCase):
    def setUp(self):
        super().setUp()
        if (why := toolkits.nvcc_missing()):
            self.skipTest(why)

    def test_host_code_builds_with_nvcc_and_extra_entries_are_counted(self):
        self.kernel("host")
        candidates, summary = self.build()
        self.assertEqual((summary["ok"], summary["failed"]), (6, 0), candidates)
        for candidate in candidates:
            self.assertRegex(candidate["symbols"][0]["symbol"], "5scaleI[fi]Li[12]E|9scale_refI[fi]E")
            self.assertEqual(candidate["extra_entries"], 1)
        self.assertEqual(self.build()[1]["compiled"], 0)
        # Same inputs, same bytes: an anonymous namespace's names hold neither path nor process id.
        shutil.move(self.tmp / "kernels", self.tmp / "elsewhere")
        self.store = self.tmp / "second.cubinary"
        again, _ = self.build(folder=self.tmp / "elsewhere")
        self.assertEqual({c["key"]: c["artifact"] for c in candidates}, {c["key"]: c["artifact"] for c in again})

    def test_nvrtc_refuses_host_code_with_the_way_out(self):
        folder = self.kernel("host")
        text = (folder / "kernel.toml").read_text()
        (folder / "kernel.toml").write_text(text.replace('backend  = "nvcc"', 'backend  = "nvrtc"'))
        candidates, _ = self.build(status=1)
        self.assertRegex(candidates[0]["message"], r'cannot open source file "cstdio".*backend = "nvcc"')


class TestExpand(harness.Case):
    def test_counts(self):
        result = self.cubinary("expand", KERNELS, "--kernel", "scale", "--target", "sm_90", "--count")
        self.assertEqual(result.stdout.splitlines(), [
            "scale for sm_90: 24 combinations, 12 valid configs, 6 candidates",
            "  line 19: VEC * sizeof(T) <= 16: leaves out 6",
            "  line 19: threads <= 1024: leaves out 6",
            "  line 19: n % VEC == 0: judged at launch, when shape and alignment are known",
            "  VEC = 8 is in no valid config: the rules leave out every one",
            "  WARPS = 64 is in no valid config: the rules leave out every one",
        ])

    def test_json(self):
        (count,) = self.cubinary("expand", KERNELS / "scale", "--target", "sm_90", "--count", "--json").json_lines()
        self.assertEqual((count["raw"], count["configs"], count["candidates"]), ("24", "12", "6"))
        self.assertEqual(count["dead"], [{"tunable": "VEC", "value": "8"}, {"tunable": "WARPS", "value": "64"}])

    def test_count_must_be_asked_for(self):
        self.refused("expand", KERNELS, status=2, says="--count")


def children(pid):
    found = []
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            text = stat.read_text()
        except OSError:
            continue
        if int(text.rsplit(")", 1)[1].split()[1]) == pid:
            found.append(int(stat.parent.name))
    return found


def alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def cpu_seconds(pid):
    try:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    harness.main()
