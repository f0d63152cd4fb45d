# SPDX-License-Identifier: Apache-2.0
"""What a build stores is what its manifest can launch: arguments, launch bounds, every step's entry."""

import harness
import toolkits

SOURCE = """
template <int TILE>
__global__ void __launch_bounds__(128 * TILE) first(float* y, const float* x, int n) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) y[i] = TILE * x[i];
}
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ == 900
template <int TILE> __global__ void second(float* y, int n) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) y[i] += 1;
}
extern "C" __global__ void third(float* y) { y[0] = 0; }
#else
template <int TILE> __global__ void second(float* y, int n) {}
extern "C" __global__ void third(float* y) {}
#endif
"""
MANIFEST = """manifest = 1
name = "steps"
source = "steps.cu"
backend = "BACKEND"
args = [
  { name = "y", out = "f32", len = "n" },
  { name = "x", in = "f32", len = "n", fill = "range" },
  { name = "count", scalar = "i32", is = "n" },
]
[axes]
n = { tune = [1024], bucket = "log2" }
[tunables]
TILE = { values = [1, 2], default = 2 }
WARPS = { values = [4, 8], default = 4, as = "launch" }
[[step]]
name = "first"
entry = "first<{TILE}>"
grid = ["ceil_div(n, 32 * WARPS)"]
block = ["32 * WARPS"]
[[step]]
name = "second"
entry = "second<{TILE}>"
grid = ["ceil_div(n, 128)"]
block = [128]
args = ["y", "count"]
[[step]]
name = "third"
entry = "third"
grid = [1]
block = [1]
args = ["y"]
"""


class Gate(harness.Case):
    def setUp(self):
        super().setUp()
        if why := toolkits.missing():
            self.skipTest(why)
        self.folder = self.tmp / "steps"
        self.folder.mkdir()
        (self.folder / "steps.cu").write_text(SOURCE)

    def build(self, manifest, *arguments, target="sm_90", status=0):
        (self.folder / "kernel.toml").write_text(manifest)
        lines = self.cubinary("build", self.folder, "--store", self.tmp / "s.cubinary", "--json", "--explain",
                              "--target", target, *arguments, status=status).json_lines()
        found = {}
        for line in lines[:-1]:
            if line["event"] != "planned":
                found.setdefault(line["event"], {})[line["config"]["TILE"]] = line
        return found.get("candidate", {}), found["explained"], lines[-1]

    def test_a_changed_manifest_is_judged_again(self):
        good = MANIFEST.replace("BACKEND", "nvrtc")
        built, _, summary = self.build(good)
        self.assertEqual({tile: one["status"] for tile, one in built.items()}, {1: "ok", 2: "ok"})
        # 256 threads a block: TILE=1 was compiled for 128.
        wide = good.replace('"32 * WARPS"]\n[[', '"256"]\n[[')
        built, explained, summary = self.build(wide, status=1)
        self.assertEqual((summary["ok"], summary["failed"], summary["compiled"]), (1, 1, 1))
        self.assertEqual(built[1]["message"],
                         "`first<1>` can have at most 128 threads a block (its __launch_bounds__), and the manifest's "
                         "block has 256 with WARPS=4, the nearest valid config")
        self.assertIn("cannot launch what it was", explained[1]["reason"])
        self.assertEqual(explained[2]["reason"], "unchanged")
        # Known as failed, while the manifest stays.
        built, explained, summary = self.build(wide, status=1)
        self.assertEqual((summary["failed"], summary["compiled"]), (1, 0))
        self.assertIn("failed before (--retry-failed", explained[1]["reason"])
        # The way back compiles what failed, and nothing else, also when another source was built in between.
        (self.folder / "steps.cu").write_text(SOURCE + "// another")
        self.build(wide, status=1)
        (self.folder / "steps.cu").write_text(SOURCE)
        built, explained, summary = self.build(good)
        self.assertEqual((summary["ok"], summary["compiled"]), (2, 1))
        self.assertEqual(explained[1]["reason"], "failed before, and the manifest has changed")
        # An argument that is wider than the parameter.
        built, _, summary = self.build(good.replace('scalar = "i32"', 'scalar = "i64"'), status=1)
        self.assertEqual((summary["failed"], summary["compiled"]), (2, 2))
        self.assertIn("parameter 3 of `first<2>` is 4 bytes long, and the manifest passes count, i64 of 8",
                      built[2]["message"])

    def test_every_entry_that_is_empty_or_missing_is_named(self):
        for backend in ("nvrtc", "nvcc"):
            with self.subTest(backend=backend):
                manifest = MANIFEST.replace("BACKEND", backend)
                built, _, _ = self.build(manifest, target="sm_120", status=1)
                self.assertTrue(built[1]["message"].startswith(
                    "`second<1>`, `third` do nothing when compiled for sm_120"), built[1]["message"])  # fmt: skip
        (self.folder / "steps.cu").write_text(SOURCE.replace('extern "C"', "static"))
        (self.folder / "other.cu").write_text("")
        built, _, _ = self.build(MANIFEST.replace("BACKEND", "nvcc").replace('"third"', '"fourth"'), status=1)
        self.assertIn("fourth", built[1]["message"])
        self.assertNotIn("\n", built[1]["message"])

    def test_a_release_leaves_out_what_cannot_run(self):
        """Untuned, the first preferred config would run; it has blocks the entry was not compiled for."""
        manifest = MANIFEST.replace("BACKEND", "nvrtc").replace("values = [1, 2], default = 2",
                                                                "values = [1], default = 1")
        manifest = manifest.replace("args = [", "prefer = [{ WARPS = 8 }]\nargs = [", 1)
        built, _, _ = self.build(manifest)
        self.assertEqual(built[1]["symbols"][0]["max_threads"], 128)
        store, layout, key = self.tmp / "s.cubinary", self.tmp / "layout", self.tmp / "key"
        self.cubinary("keygen", key)
        self.cubinary("release", "create", "r1", "--store", store)
        self.cubinary("release", "sign", "r1", "--key", key, "--store", store)
        self.cubinary("export", layout, "--store", store, "--release", "r1")
        told = self.cubinary("explain", "steps", "n=1000", "--source", layout, "--key", str(key) + ".pub",
                             "--device-class", "sm90-s132-l50M-b5120-m80G", "--json").json()
        self.assertEqual(told["config"], "TILE=1 WARPS=4", told)
        self.assertIn("256 threads is more than the 128", str(told))


if __name__ == "__main__":
    harness.main()
