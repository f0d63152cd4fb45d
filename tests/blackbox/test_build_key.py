# SPDX-License-Identifier: Apache-2.0
"""What a build key is made of: each part is changed alone, and exactly the candidates that it determines are
built again; what is no part of it is changed, and nothing is. The same inputs give the same bytes."""

import os
import pathlib
import shutil
import subprocess

import harness
import toolkits

SOURCE = """#include "deep/one.cuh"
template <typename T, int VEC>
__global__ void keyed(T* y, const T* x, int n) {
  const int i = (blockIdx.x * blockDim.x + threadIdx.x) * VEC;
  for (int v = 0; v < VEC && i + v < n; ++v) y[i + v] = twice(x[i + v]) + T(MODE);
}
"""
REFERENCE = """template <typename T>
__global__ void keyed_ref(T* y, const T* x, int n) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) y[i] = x[i] + x[i];
}
"""
MANIFEST = """manifest = 1
name = "keyed"
source = "keyed.cu"
include = ["include"]
entry = "keyed<{T}, {VEC}>"
targets = ["sm_90"]
types.T = ["f32", "i32"]
[axes]
n = { tune = [1024], bucket = "log2" }
[tunables]
VEC = { values = [1, 2], default = 1 }
MODE = { values = [0, 1], default = 0, as = "define" }
WARPS = { values = [1, 4], default = 4, as = "launch" }
[launch]
grid = ["ceil_div(n, 32 * WARPS * VEC)"]
block = ["32 * WARPS"]
args = [
  { name = "y", out = "T", len = "n" },
  { name = "x", in = "T", len = "n", fill = "uniform(0, 1)" },
  { name = "count", scalar = "i32", is = "n" },
]
[check]
reference = { source = "reference.cu", entry = "keyed_ref<{T}>", grid = [1], block = [256] }
tolerance = { f32 = [0, 0], i32 = [0, 0] }
"""
KERNELS = {("kernel", t, v, m) for t in ("f32", "i32") for v in (1, 2) for m in (0, 1)}
REFERENCES = {("reference", t, None, None) for t in ("f32", "i32")}
ALL = KERNELS | REFERENCES


class Keys(harness.Case):
    def setUp(self):
        super().setUp()
        if why := toolkits.missing():
            self.skipTest(why)
        self.folder = self.tmp / "kernels" / "keyed"
        self.put("keyed.cu", SOURCE)
        self.put("reference.cu", REFERENCE)
        self.put("kernel.toml", MANIFEST)
        self.put("include/deep/one.cuh", '#pragma once\n#include "two.cuh"\n')
        self.put("include/deep/two.cuh", "template <typename T>\n__device__ T twice(T x) { return x + x; }\n")
        self.store = self.tmp / "store.cubinary"

    def put(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def change(self, name, before, after):
        text = (self.folder / name).read_text()
        self.assertIn(before, text)
        self.put(name, text.replace(before, after))

    def build(self, *arguments, folder=None, store=None, command=(), **options):
        """Gives what was compiled: {(role, T, VEC, MODE)}, and {key: artifact} of it."""
        result = self.run_program(*command, harness.binary(), "build", folder or self.tmp / "kernels", "--store",
                                  store or self.store, "--json", *arguments, **options)
        lines = [line for line in result.json_lines() if line.get("event") == "candidate"]
        self.assertEqual([line["message"] for line in lines if line["status"] != "ok"], [])
        self.assertEqual(result.json_lines()[-1]["compiled"], len(lines))
        names = {(c["role"], c["types"]["T"], c["config"].get("VEC"), c["config"].get("MODE")) for c in lines}
        self.assertEqual(len(names), len({(c["key"]) for c in lines if c["target"] == lines[0]["target"]}) if lines else 0)
        return names, {c["key"]: c["artifact"] for c in lines}

    def test_each_part_alone(self):
        def built(*arguments, **options):
            return self.build(*arguments, **options)[0]

        self.assertEqual(built(), ALL)
        self.assertEqual(built(), set())
        with self.subTest("a header's header"):
            self.change("include/deep/two.cuh", "return x + x", "return 2 * x")
            self.assertEqual(built(), KERNELS)
        with self.subTest("a comment in the source"):
            self.put("keyed.cu", SOURCE + "// more\n")
            self.assertEqual(built(), KERNELS)
        with self.subTest("another source"):
            self.put("reference.cu", REFERENCE + "// more\n")
            self.assertEqual(built(), REFERENCES)
        with self.subTest("the name expression"):
            self.change("kernel.toml", 'entry = "keyed<{T}', 'entry = "::keyed<{T}')
            self.assertEqual(built(), KERNELS)
        with self.subTest("flags"):
            self.change("kernel.toml", "targets =", 'flags = ["-use_fast_math"]\ntargets =')
            self.assertEqual(built(), ALL)
        with self.subTest("a macro's new value"):
            self.change("kernel.toml", "MODE = { values = [0, 1]", "MODE = { values = [0, 1, 2]")
            self.assertEqual(built(), {("kernel", t, v, 2) for t in ("f32", "i32") for v in (1, 2)})
        with self.subTest("a template argument's new value"):
            self.change("kernel.toml", "VEC = { values = [1, 2]", "VEC = { values = [1, 2, 4]")
            self.assertEqual(built(), {("kernel", t, 4, m) for t in ("f32", "i32") for m in (0, 1, 2)})
        with self.subTest("a new dtype"):
            self.change("kernel.toml", '"f32", "i32"]', '"f32", "i32", "f64"]')
            self.change("kernel.toml", "i32 = [0, 0] }", "i32 = [0, 0], f64 = [0, 0] }")
            self.assertEqual(built(), {("kernel", "f64", v, m) for v in (1, 2, 4) for m in (0, 1, 2)}
                             | {("reference", "f64", None, None)})
        everything = {("kernel", t, v, m) for t in ("f32", "i32", "f64") for v in (1, 2, 4) for m in (0, 1, 2)}
        everything |= {("reference", t, None, None) for t in ("f32", "i32", "f64")}
        with self.subTest("another target leaves the first as it is"):
            self.assertEqual(built("--target", "sm_90,sm_120"), everything)
            self.assertEqual(built("--target", "sm_90,sm_120"), set())
        with self.subTest("a header that comes before another of its name"):
            self.put("deep/two.cuh", "#error not this one: it is beside the source, not beside one.cuh\n")
            self.assertEqual(built(), set())
            (self.folder / "deep" / "two.cuh").unlink()
            self.put("deep/one.cuh", "template <typename T>\n__device__ T twice(T x) { return x * 2; }\n")
            self.assertEqual(built(), {name for name in everything if name[0] == "kernel"})
        if other := toolkits.second():
            with self.subTest("another compiler"):
                self.assertEqual(built("--toolkit", other), everything)
                self.assertEqual(built("--toolkit", other), set())
                self.assertEqual(built(), set())

    def test_the_backend_is_a_part(self):
        if why := toolkits.nvcc_missing():
            self.skipTest(why)
        self.build("--kernel", "keyed")
        self.change("kernel.toml", "targets =", 'backend = "nvcc"\ntargets =')
        self.change("kernel.toml", "MODE = { values = [0, 1]", "MODE = { values = [0]")
        self.assertEqual(self.build()[0], {name for name in ALL if name[3] != 1})

    def test_what_is_no_part_changes_nothing(self):
        self.assertEqual(self.build()[0], ALL)
        with self.subTest("times"):
            for path in self.folder.rglob("*"):
                os.utime(path, (1, 1))
            self.assertEqual(self.build()[0], set())
        with self.subTest("place, user, locale, zone and what compilers listen to"):
            moved = self.tmp / "an other place ü"
            shutil.move(self.tmp / "kernels", moved)
            surroundings = {"HOME": "/nonexistent", "USER": "somebody", "LOGNAME": "somebody", "LC_ALL": "C",
                            "LANG": "tr_TR.UTF-8", "TZ": "Asia/Tokyo", "TMPDIR": str(self.tmp), "HOSTNAME": "elsewhere",
                            "CPATH": str(moved), "CPLUS_INCLUDE_PATH": str(moved), "NVCC_APPEND_FLAGS": "-G",
                            "NVCC_PREPEND_FLAGS": "-O0", "CUDA_CACHE_DISABLE": "1", "SOURCE_DATE_EPOCH": "7"}
            self.assertEqual(self.build(folder=moved, env=surroundings)[0], set())
            shutil.move(moved, self.tmp / "kernels")
        with self.subTest("how the folder is named"):
            self.assertEqual(self.build(folder="kernels/../kernels/keyed/.", cwd=self.tmp)[0], set())
            self.assertEqual(self.build(folder="kernels/keyed/kernel.toml", cwd=self.tmp)[0], set())
            (self.tmp / "link").symlink_to(self.folder)
            self.assertEqual(self.build(folder=self.tmp / "link")[0], set())
        with self.subTest("a launch"):
            self.change("kernel.toml", "WARPS = { values = [1, 4]", "# more\nWARPS = { values = [1, 2, 4, 8]")
            self.change("kernel.toml", 'grid = ["ceil_div', 'grid = ["1 * ceil_div')
            self.assertEqual(self.build()[0], set())
        with self.subTest("the clock"):
            if shutil.which("faketime") is None:
                print("SKIPPED: the clock: faketime is not installed", flush=True)
            else:
                self.assertEqual(self.build(command=("faketime", "2019-05-05 03:04:05"))[0], set())

    def test_two_kernels_of_one_code(self):
        # The code is compiled once; each kernel has candidates of its own, and both can be released.
        twin = shutil.copytree(self.folder, self.tmp / "kernels" / "twin")
        (twin / "kernel.toml").write_text(MANIFEST.replace('"keyed"', '"twin"'))
        lines = self.run_program(harness.binary(), "build", self.tmp / "kernels", "--store", self.store,
                                 "--json").json_lines()  # fmt: skip
        built = [(line["kernel"], line["artifact"]) for line in lines if line.get("event") == "candidate"]
        self.assertEqual(len(built), 2 * len(ALL))
        artifacts = {name: {artifact for kernel, artifact in built if kernel == name} for name in ("keyed", "twin")}
        self.assertEqual(artifacts["keyed"], artifacts["twin"])
        for name in artifacts:
            self.assertEqual(sum(kernel == name for kernel, _ in built), len(ALL))
        self.cubinary("release", "create", "v1", "--store", self.store)
        self.assertEqual(self.build()[0], set())

    def test_same_bytes_with_any_workers_anywhere_for_anybody(self):
        # Internal linkage, an assertion and the file's name: what compilers like to put paths and process ids in.
        self.put("keyed.cu", "#define TWO(x) (x)\nnamespace { __device__ int counter; }\n" + SOURCE.replace(
            "  for (", "  assert(i >= 0);\n  counter += __FILE__[0] + __LINE__;\n  for ("))  # fmt: skip
        one, artifacts = self.build("--jobs", "1")
        self.assertEqual(one, ALL)
        other = self.tmp / "another checkout" / "with a longer path"
        other.mkdir(parents=True)
        shutil.copytree(self.folder, other / "keyed")
        options = {}
        if os.geteuid() == 0:
            # Another user, who may enter and read but owns nothing but the store's folder.
            for path in (self.tmp, *other.parents[:1], other, *other.rglob("*")):
                path.chmod(0o755)
            home = self.tmp / "home"
            home.mkdir()
            os.chown(home, 12345, 12345)
            options = {"user": 12345, "group": 12345, "extra_groups": [], "env": {"HOME": str(home)}}
            store = home / "second.cubinary"
        else:
            print("SKIPPED: another user: only root may become one", flush=True)
            store = self.tmp / "second.cubinary"
        many, others = self.build("--jobs", "8", folder=other, store=store, **options)
        self.assertEqual(many, ALL)
        self.assertEqual(others, artifacts)


if __name__ == "__main__":
    harness.main()
