# SPDX-License-Identifier: Apache-2.0
"""Triton's compiled things from a capture folder through store and release into a cache, by the real programs;
nothing here needs Triton or a GPU."""

import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import time

import harness
import triton_folder
from triton_folder import H20, H200, check_cache, folder_name, sha256

FETCH = ("cubinary-fetch", "hydrate")


def tree(folder):
    """Every file with its content and time of change."""
    return {str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mtime_ns)
            for path in sorted(folder.rglob("*")) if path.is_file() and "fetched" not in path.parts}


class Ingest(triton_folder.Case):
    def test_what_is_complete_is_stored_once(self):
        capture, keys = self.sample()
        stored = self.ingest(capture.root)
        self.assertEqual({what: stored[what]["added"] for what in ("kernels", "host", "autotune", "records")},
                         {"kernels": 4, "host": 2, "autotune": 2, "records": 2})
        self.assertEqual(stored["notes"], [])
        again = self.ingest(capture.root)
        self.assertEqual({what: (again[what]["added"], again[what]["unchanged"])
                          for what in ("kernels", "host", "autotune", "records")},
                         {"kernels": (0, 4), "host": (0, 2), "autotune": (0, 2), "records": (0, 2)})
        listed = self.cubinary("triton", "list", "--store", self.store, "--json").json()
        self.assertEqual({kernel["key"] for kernel in listed["kernels"]},
                         {keys[name] for name in ("add", "add2", "mm", "add120")})
        self.assertEqual({(host["source"], host["python_abi"]) for host in listed["host"]},
                         {(keys["utils"], "cp312"), (keys["launcher"], "cp312")})
        self.assertRegex(listed["host"][0]["glibc_floor"], r"\A2\.\d+")
        records = self.cubinary("triton", "list", "--records", "--store", self.store).json_lines()
        self.assertEqual([record["name"] for record in records], ["m:add_kernel", "m:mm_kernel"])
        self.cubinary("store", "fsck", "--store", self.store)

    def test_later_captures_replace_earlier_ones(self):
        capture, keys = self.sample()
        self.ingest(capture.root)
        newer = self.make_capture("newer")
        newer.autotune("mm_kernel", "tune mm", H200, [[{"num_warps": 2}, 0.1]])
        self.assertEqual(self.ingest(newer.root)["autotune"]["replaced"], 1)
        # What the old result held is nobody's now.
        self.cubinary("store", "gc", "--store", self.store)
        self.cubinary("store", "fsck", "--store", self.store)

    def passed_over(self, folder, says, **counts):
        stored = self.ingest(folder, status=None)
        self.assertEqual({what: stored[what]["added"] for what in counts}, counts, stored)
        self.assertEqual(len(stored["notes"]), 1, stored["notes"])
        self.assertRegex(stored["notes"][0], says)

    def test_a_program_killed_half_way(self):
        capture = self.make_capture()
        whole = capture.kernel("add_kernel", "whole")
        half = capture.kernel("add_kernel", "half", finished=False)
        (capture.root / "entries" / "tmp.pid_7_1f").mkdir()
        (capture.root / "entries" / ".hidden").mkdir()
        self.passed_over(capture.root, f"{half}: not finished", kernels=1)
        [kernel] = self.cubinary("triton", "list", "--store", self.store, "--json").json()["kernels"]
        self.assertEqual(kernel["key"], whole)

    def test_a_torn_record(self):
        capture = self.make_capture()
        capture.records({"name": "m:f"}, torn='{"name": "m:g", "targ')
        self.passed_over(capture.root, "1 lines that are no whole record", records=1)

    def test_a_partial_group(self):
        capture = self.make_capture()
        key = capture.kernel("add_kernel", "add")
        (capture.root / "entries" / key / "add_kernel.ttir").unlink()
        self.passed_over(capture.root, f"{key}: its group names add_kernel.ttir, .*partial group", kernels=0)

    def test_a_group_without_a_cubin(self):
        capture = self.make_capture()
        key = capture.kernel("add_kernel", "add")
        group = capture.root / "entries" / key / "__grp__add_kernel.json"
        paths = json.loads(group.read_text())["child_paths"]
        del paths["add_kernel.cubin"]
        group.write_text(json.dumps({"child_paths": paths}))
        self.passed_over(capture.root, "no cubin: a partial group", kernels=0)

    def test_a_damaged_cubin(self):
        capture = self.make_capture()
        key = capture.kernel("add_kernel", "add")
        cubin = capture.root / "entries" / key / "add_kernel.cubin"
        cubin.write_bytes(cubin.read_bytes()[:3000])
        self.passed_over(capture.root, "truncated or damaged", kernels=0)

    def test_a_cubin_for_another_gpu(self):
        capture = self.make_capture()
        key = capture.kernel("add_kernel", "add")
        (capture.root / "entries" / key / "add_kernel.cubin").write_bytes(
            triton_folder.CUBINS["sm_120"].read_bytes())
        self.passed_over(capture.root, "is for sm_120a, the entry for sm_90", kernels=0)

    def test_files_under_another_key(self):
        capture = self.make_capture()
        key = capture.kernel("add_kernel", "add")
        other = folder_name(sha256(b"other"))
        (capture.root / "entries" / key).rename(capture.root / "entries" / other)
        self.passed_over(capture.root, f"{other}: its metadata belongs under another key", kernels=0)

    def test_an_old_triton(self):
        capture = self.make_capture(triton="3.3.1")
        capture.kernel("add_kernel", "add", triton="3.3.1")
        self.passed_over(capture.root, r"made by Triton 3\.3\.1; 3\.4 or later is needed", kernels=0)

    def test_a_module_for_another_machine_or_python(self):
        capture = self.make_capture()
        other = capture.module[:18] + (243).to_bytes(2, "little") + capture.module[20:]  # RISC-V
        capture.host("cuda_utils", "int a;", module=other)
        self.passed_over(capture.root, "ELF machine 243", host=0)
        capture = self.make_capture("abi")
        capture.host("cuda_utils", "int a;", file="cuda_utils.cpython-311-x86_64-linux-gnu.so")
        self.passed_over(capture.root, "made for Python cp311, not cp312", host=0)

    def test_a_module_of_another_source(self):
        capture = self.make_capture()
        digest = capture.host("cuda_utils", "int a;")
        (capture.root / "host" / digest / "source.c").write_text("int b;")
        self.passed_over(capture.root, "source.c does not have the digest it is named by", host=0)

    def test_a_cache_made_earlier(self):
        cache = self.tmp / "cache"
        digest = sha256(b"add")
        key = folder_name(digest)
        triton_folder.write_kernel(cache / key, "add_kernel", triton_folder.kernel_files("add_kernel", digest))
        utils = triton_folder.host_keys("int utils;")[0]
        (cache / utils).mkdir()
        (cache / utils / f"cuda_utils.cpython-312-x86_64-linux-gnu.so").write_bytes(self.module)
        tuned = folder_name(sha256(b"tuned"))
        (cache / tuned).mkdir()
        (cache / tuned / "mm.autotune.json").write_text('{"key": [], "configs_timings": []}')
        (cache / "ABANDONED").mkdir()
        (cache / "ABANDONED" / "x.ttir").write_text("module {}")

        stored = self.ingest(cache)
        self.assertEqual((stored["kernels"]["added"], stored["host"]["added"], stored["autotune"]["added"]),
                         (1, 1, 0))
        self.assertEqual(len(stored["notes"]), 2)
        self.assertRegex(" ".join(stored["notes"]), "ABANDONED: no group file.*--device-class")
        self.assertEqual(self.ingest(cache, "--device-class", H200)["autotune"]["added"], 1)
        [kernel] = self.cubinary("triton", "list", "--store", self.store, "--json").json()["kernels"]
        self.assertEqual((kernel["triton"], kernel["python_abi"], kernel["target"]), ("3.6.0", "cp312", "sm_90"))

        source = self.release()
        self.hydrate(source, self.tmp / "out")
        index = check_cache(self, self.tmp / "out")
        [module] = index["host"][""]
        self.assertEqual(module["keys"], [utils])

    def test_used_wrongly(self):
        self.refused("triton", "capture", "--store", self.store, "--from", self.tmp / "none", status=1,
                     says="no folder .*none: name a capture folder or a Triton cache")
        self.refused("triton", "capture", "--store", self.store, status=2, says="say either what to run")
        (self.tmp / "empty").mkdir()
        empty = self.cubinary("triton", "capture", "--store", self.store, "--from", self.tmp / "empty", status=1)
        self.assertIn("nothing to store", empty.stderr)
        self.refused("triton", "capture", "--store", self.store, "--from", self.tmp / "empty", "--device-class",
                     "H200", status=2, says="device class")


class Capture(triton_folder.Case):
    """A program run under capture: a stand-in that fills the folder as the plug-in would."""

    PROGRAM = """
import json, os, shutil, signal, sys, time
assert os.environ["TRITON_CACHE_MANAGER"] == "cubinary.triton:CaptureManager"
assert os.environ["PYTHONPATH"].split(":")[1] == os.environ["EXPECTED_PYTHON"], os.environ["PYTHONPATH"]
shutil.copytree(os.environ["SAMPLE"], os.environ["CUBINARY_TRITON_CAPTURE"], dirs_exist_ok=True)
print("from the program", flush=True)
if sys.argv[1] == "exit":
    sys.exit(int(sys.argv[2]))
if sys.argv[1] == "kill":
    os.kill(os.getpid(), signal.SIGKILL)
signal.signal(signal.SIGTERM, lambda *_: sys.exit(42))
print("waiting", flush=True)
time.sleep(60)
"""

    def setUp(self):
        super().setUp()
        self.capture, self.keys = self.sample()
        self.python = self.tmp / "python"
        (self.python / "cubinary" / "triton").mkdir(parents=True)
        (self.python / "cubinary" / "triton" / "__init__.py").write_text("")
        self.program = self.tmp / "program.py"
        self.program.write_text(self.PROGRAM)
        self.env = {"CUBINARY_PYTHON": str(self.python), "EXPECTED_PYTHON": str(self.python),
                    "SAMPLE": str(self.capture.root)}

    def command(self, *arguments):
        return ["triton", "capture", "--store", self.store, "--", "python3", self.program, *arguments]

    def stored(self):
        return len(self.cubinary("triton", "list", "--store", self.store, "--json").json()["kernels"])

    def test_a_good_program(self):
        result = self.cubinary(*self.command("exit", "0"), env=self.env)
        self.assertEqual(result.stdout, "from the program\n")
        self.assertRegex(result.stderr, r"kernels +4 +0 +0")
        self.assertEqual(self.stored(), 4)

    def test_status_is_passed_on_and_what_is_complete_is_stored(self):
        result = self.cubinary(*self.command("exit", "7"), env=self.env, status=7)
        self.assertIn("ended with status 7; what was complete is stored", result.stderr)
        self.assertEqual(self.stored(), 4)

    def test_killed(self):
        self.cubinary(*self.command("kill"), env=self.env, status=128 + signal.SIGKILL)
        self.assertEqual(self.stored(), 4)

    def test_signals_are_handed_on(self):
        running = self.background(harness.binary(), *self.command("wait"), env={**os.environ, **self.env})
        running.line("waiting")
        self.assertEqual(running.stop(signal.SIGTERM), 42)
        self.assertEqual(self.stored(), 4)

    def test_no_such_program(self):
        self.refused("triton", "capture", "--store", self.store, "--", "no-such-program-here", env=self.env,
                     status=1, says="cannot run no-such-program-here")

    def test_no_python_package(self):
        self.refused(*self.command("exit", "0"), env={**self.env, "CUBINARY_PYTHON": str(self.tmp)}, status=3,
                     says="set CUBINARY_PYTHON")

    def test_the_folder_is_kept_when_named(self):
        folder = self.tmp / "kept"
        command = self.command("exit", "0")
        command[4:4] = ["--folder", folder]
        self.cubinary(*command, env=self.env)
        self.assertTrue((folder / "entries" / self.keys["add"] / "cubinary.json").exists())


class Hydrate(triton_folder.Case):
    def setUp(self):
        super().setUp()
        self.capture, self.keys = self.sample()
        self.ingest(self.capture.root)
        self.source = self.release()
        self.cache = self.tmp / "cache"

    def test_a_cache_for_triton(self):
        for program in (("cubinary", "triton", "hydrate"), FETCH):
            with self.subTest(program=program[0]):
                cache = self.tmp / program[0]
                result = self.hydrate(self.source, cache, program=program)
                self.assertRegex(result.stdout, r"kernels +4\n.*host modules +2\n.*autotune results +2\n")
                index = check_cache(self, cache)
                self.assertEqual(set(index["kernels"]), {self.keys[k] for k in ("add", "add2", "mm", "add120")})
                self.assertEqual(index["kernels"][self.keys["add120"]]["target"], "sm_120")
                for name, source in (("utils", "int utils;"), ("launcher", "int launcher;")):
                    [module] = index["host"][self.keys[name]]
                    self.assertEqual(module["keys"], triton_folder.host_keys(source))  # with `file`, and without
                self.assertEqual(set(index["autotune"]), {H20, H200})
                # What was captured is what lies there.
                entry = self.capture.root / "entries" / self.keys["mm"]
                for file in ("mm_kernel.cubin", "mm_kernel.json", "mm_kernel.ptx", "mm_kernel.ttir"):
                    self.assertEqual((cache / self.keys["mm"] / file).read_bytes(), (entry / file).read_bytes())
                self.assertFalse((cache / self.keys["tuned"]).exists(), "no GPU was named")

    def test_the_second_time_nothing_is_written(self):
        self.hydrate(self.source, self.cache)
        before = tree(self.cache)
        again = self.hydrate(self.source, self.cache, "--json").json()
        self.assertEqual((again["files_written"], again["packs_received"], again["folders_written"]), (0, 0, 0))
        self.assertEqual(tree(self.cache), before)

    def test_a_read_only_cache_that_is_complete(self):
        self.hydrate(self.source, self.cache)
        self.as_nobody(self.cache)
        result = self.hydrate(self.source, self.cache, **self.nobody)
        self.assertIn("complete already", result.stdout)

    def test_a_cache_that_cannot_be_written(self):
        self.cache.mkdir()
        self.as_nobody(self.cache)
        result = self.hydrate(self.source, self.cache, status=3, **self.nobody)
        self.assertRegex(result.stderr, r"\Acubinary: the Triton cache .* is not complete and cannot be written: "
                                        r"hydrate it while the image is built, or mount a writable volume there")
        self.assertEqual(list(self.cache.iterdir()), [])

    def as_nobody(self, folder):
        """Takes the right to write away from a user without rights of his own; sets `nobody`."""
        if os.geteuid() == 0:
            if shutil.which("setpriv") is None:
                self.skipTest("root may write anywhere, and there is no setpriv to be somebody else")
            self.nobody = {"user": 65534, "group": 65534, "extra_groups": []}
            self.tmp.chmod(0o755)
        else:
            self.nobody = {}
        for path in [folder, *folder.rglob("*")]:
            if path.is_dir():
                path.chmod(0o555)

    def test_damage_is_mended(self):
        self.hydrate(self.source, self.cache)
        victim = self.cache / self.keys["mm"] / "mm_kernel.cubin"
        victim.write_bytes(b"\0" * 100)
        (self.cache / self.keys["add"] / "__grp__add_kernel.json").unlink()
        mended = self.hydrate(self.source, self.cache, "--json").json()
        self.assertEqual(mended["folders_written"], 2)
        check_cache(self, self.cache)

    def test_what_an_interrupted_run_left_is_removed(self):
        self.cache.mkdir()
        left = self.cache / ".cubinary-a1B2c3"
        (left / "KEY").mkdir(parents=True)
        (left / "KEY" / "x.cubin").write_bytes(b"half")
        # Triton makes an entry's folder before it looks into it.
        (self.cache / self.keys["add"]).mkdir()
        self.hydrate(self.source, self.cache)
        check_cache(self, self.cache)

    def test_killed_at_any_moment(self):
        command = [harness.binary("cubinary-fetch"), "hydrate", self.source, "--key", self.public, "--cache",
                   self.cache]
        begin = time.monotonic()
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
        whole = time.monotonic() - begin
        for delay in (random.uniform(0, 1.1) * whole for _ in range(12)):
            with self.subTest(delay=delay):
                shutil.rmtree(self.cache, ignore_errors=True)
                process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                time.sleep(delay)
                process.kill()
                process.wait()
                # Whatever is visible is whole: a group never leads to a file that is not right.
                for group in self.cache.glob("*/__grp__*.json"):
                    entry = self.capture.root / "entries" / group.parent.name
                    for file, path in json.loads(group.read_text())["child_paths"].items():
                        self.assertEqual(pathlib.Path(path).read_bytes(), (entry / file).read_bytes())
                self.hydrate(self.source, self.cache)
                check_cache(self, self.cache)

    def test_many_at_once(self):
        command = [harness.binary("cubinary-fetch"), "hydrate", self.source, "--key", self.public, "--cache",
                   self.cache]
        processes = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
                     for _ in range(6)]
        for process in processes:
            output, _ = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 0, output)
        check_cache(self, self.cache)

    def test_autotune_results_of_this_gpu_or_the_nearest(self):
        tuned = self.cache / self.keys["tuned"] / "mm_kernel.autotune.json"
        self.hydrate(self.source, self.cache, "--device-class", H20)
        self.assertEqual(json.loads(tuned.read_text())["configs_timings"], [[{"num_warps": 8}, 0.7]])
        index = check_cache(self, self.cache)
        self.assertEqual(index["device_class"], H20)
        self.assertNotIn(self.keys["add120"], index["kernels"])  # does not run there
        # On another GPU next time: its results take the place of the first one's.
        self.hydrate(self.source, self.cache, "--device-class", H200)
        self.assertEqual(json.loads(tuned.read_text())["configs_timings"], [[{"num_warps": 4}, 0.5]])
        nearest = self.hydrate(self.source, self.tmp / "third", "--device-class", "sm90-s130-l50M-b6144-m144G")
        self.assertIn(f"autotune results are those of {H200}", nearest.stderr)

    def test_seen_elsewhere(self):
        self.hydrate(self.source, self.cache, "--seen-at", "/mnt/triton")
        group = self.cache / self.keys["add"] / "__grp__add_kernel.json"
        self.assertEqual(json.loads(group.read_text())["child_paths"]["add_kernel.cubin"],
                         f"/mnt/triton/{self.keys['add']}/add_kernel.cubin")

    def nothing(self, says, *options, status=1, source=None):
        result = self.hydrate(source or self.source, self.cache, *options, status=status)
        self.assertEqual(result.stderr.count("cubinary: "), 1, result)
        self.assertRegex(result.stderr, says)
        self.assertEqual(list(self.cache.glob("[!c]*")), [], "something became visible")

    def test_another_python_triton_machine_or_target(self):
        self.nothing("holds nothing for Triton any for Python cp311 .*captured with Triton 3.6.0 for Python cp312",
                     "--python-abi", "cp311")
        self.nothing("holds nothing for Triton 3.5.0", "--triton", "3.5.0")
        self.nothing("on riscv64", "--machine", "riscv64")
        self.nothing("no Triton entry for sm_80; its targets with Triton entries are sm_90, sm_120", "--target",
                     "sm_80", status=None)

    def blobs(self):
        return self.layout / "blobs" / "sha256"

    def test_a_tampered_pack(self):
        packs = [path for path in self.blobs().iterdir() if path.read_bytes()[:4] == b"\x28\xb5\x2f\xfd"]
        self.assertGreater(len(packs), 3)
        for pack in packs:
            good = pack.read_bytes()
            pack.write_bytes(good[:-9] + bytes([good[-9] ^ 1]) + good[-8:])
            self.nothing("does not have the digest it is named by")
            pack.write_bytes(good)

    def test_a_tampered_catalogue(self):
        [catalogue] = [path for path in self.blobs().iterdir()
                       if b'"triton":1' in path.read_bytes() and b"sm_120" in path.read_bytes()]
        catalogue.write_bytes(catalogue.read_bytes().replace(b"add_kernel.cubin", b"evil_kernel.cubi"))
        self.nothing("does not have the digest it is named by")

    def test_another_key(self):
        self.cubinary("keygen", self.tmp / "other")
        self.public = self.tmp / "other.pub"
        self.nothing("signature|signed", status=None)

    def test_part_of_the_cache_on_another_file_system(self):
        inside = self.cache / self.keys["add"]
        inside.mkdir(parents=True)
        mounted = subprocess.run(["mount", "-t", "tmpfs", "none", inside], capture_output=True, check=False)
        if mounted.returncode != 0:
            self.skipTest("mounting is not allowed here")
        try:
            result = self.hydrate(self.source, self.cache, status=None)
        finally:
            subprocess.run(["umount", inside], check=True)
        self.assertNotEqual(result.status, 0)
        self.assertIn("lies on another file system than the cache folder", result.stderr)

    def test_something_in_the_way(self):
        self.cache.mkdir()
        (self.cache / self.keys["add"]).write_text("a file")
        result = self.hydrate(self.source, self.cache, status=None)
        self.assertNotEqual(result.status, 0)
        self.assertIn(f"cannot put {self.cache / self.keys['add']} in place", result.stderr)
        (self.cache / self.keys["add"]).unlink()
        self.hydrate(self.source, self.cache)
        check_cache(self, self.cache)


class Release(triton_folder.Case):
    def setUp(self):
        super().setUp()
        self.capture, self.keys = self.sample()
        self.ingest(self.capture.root)

    def test_show_verify_and_diff(self):
        source = self.release()
        shown = self.cubinary("release", "show", "r1", "--store", self.store, "--json").json()
        self.assertEqual([target["target"] for target in shown["targets"]], ["sm_90", "sm_120"])
        triton = shown["targets"][0]["triton"]
        self.assertEqual({kernel["key"] for kernel in triton["kernels"]},
                         {self.keys[name] for name in ("add", "add2", "mm")})
        self.assertEqual(shown["targets"][0]["minimum_driver"], 525)
        people = self.cubinary("release", "show", "r1", "--store", self.store).stdout
        self.assertRegex(people, r"sm_90 +kernel +add_kernel +2 +3\.6\.0 +cp312")
        verified = self.cubinary("verify", source, "--key", self.public, "--json").json()
        self.assertEqual(verified["triton_entries"], 3 + 2 + 2 + 1 + 2)
        # 4 kernels of 4 files, one module, two results.
        self.assertEqual(verified["triton_files"], 16 + 1 + 2)

        more = self.make_capture("more")
        new = more.kernel("silu_kernel", "silu")
        more.autotune("mm_kernel", "tune mm", H200, [[{"num_warps": 2}, 0.1]])
        self.ingest(more.root)
        self.release("r2")
        changes = self.cubinary("release", "diff", "r1", "r2", "--store", self.store, "--json").json()
        self.assertEqual({(change["kind"], change["kernel"], change["entry"]) for change in changes},
                         {("added", "silu_kernel", "triton kernel"),
                          ("changed", "mm_kernel.autotune.json", "triton autotune result")})
        self.assertIn(new, [change["what"] for change in changes])

    def test_the_same_content_gives_the_same_bytes(self):
        first = self.cubinary("release", "create", "r1", "--store", self.store, "--json").json()
        other = self.tmp / "other.db"
        self.cubinary("triton", "capture", "--store", other, "--from", self.capture.root)
        second = self.cubinary("release", "create", "r1", "--store", other, "--json").json()
        self.assertEqual(first["index"], second["index"])

    def test_part_of_it(self):
        created = self.cubinary("release", "create", "mm", "--store", self.store, "--kernel", "mm*", "--target",
                                "sm_90", "--json").json()
        self.assertEqual([(part["target"], part["kernels"], part["host"], part["autotune"])
                          for part in created["triton"]], [("sm_90", 1, 2, 2)])
        self.refused("release", "create", "none", "--store", self.store, "--kernel", "ad_kernel", status=1,
                     says='no kernel in the store matches "ad_kernel".*add_kernel')
        self.refused("release", "create", "none", "--store", self.store, "--parts", "cuda", status=1,
                     says="no kernels")

    def test_beside_kernels_of_ours(self):
        both = self.tmp / "both.db"
        self.run_program(harness.test_program("make_store"), both)
        self.store = both
        self.ingest(self.capture.root)
        source = self.release()
        self.cubinary("fetch", source, "--key", self.public, "--cache", self.tmp / "fetched")
        self.hydrate(source, self.tmp / "cache")
        check_cache(self, self.tmp / "cache")
        cuda = self.cubinary("release", "create", "cuda", "--store", both, "--parts", "cuda", "--json").json()
        self.assertEqual(cuda["triton"], [])
        triton = self.cubinary("release", "create", "triton", "--store", both, "--parts", "triton", "--json").json()
        self.assertEqual((triton["kernels"], len(triton["triton"])), ([], 2))

    def test_over_http(self):
        self.release()
        server = self.background(harness.binary(), "serve", "--store", self.store, "--listen", "127.0.0.1:0")
        address = server.line(r"http://127\.0\.0\.1:\d+")[0]
        self.hydrate(f"{address}:r1", self.tmp / "cache", program=FETCH)
        check_cache(self, self.tmp / "cache")

    def test_gc_keeps_what_is_captured(self):
        self.cubinary("store", "gc", "--store", self.store)
        self.hydrate(self.release(), self.tmp / "cache")
        check_cache(self, self.tmp / "cache")


class Skopeo(triton_folder.Case):
    def test_a_copy_serves_as_well(self):
        if harness.find_tool("skopeo") is None:
            self.skipTest("this machine lacks skopeo")
        capture, _ = self.sample()
        self.ingest(capture.root)
        self.release()
        tags = ["r1"] + [tag for tag in self.tags() if tag.startswith("sha256-")]
        self.assertEqual(len(tags), 2)
        for tag in tags:
            self.run_program("skopeo", "--insecure-policy", "copy", "--all", "--preserve-digests",
                             f"oci:{self.layout}:{tag}", f"oci:{self.tmp / 'copy'}:{tag}")
        self.hydrate(f"{self.tmp / 'copy'}:r1", self.tmp / "cache")
        check_cache(self, self.tmp / "cache")

    def tags(self):
        index = json.loads((self.layout / "index.json").read_text())
        return [entry["annotations"]["org.opencontainers.image.ref.name"] for entry in index["manifests"]]


if __name__ == "__main__":
    if harness.find_tool("cc") is None:
        harness.skip("this machine lacks a C compiler to make modules with")
    harness.main()
