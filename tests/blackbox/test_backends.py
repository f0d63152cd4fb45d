# SPDX-License-Identifier: Apache-2.0
"""NVRTC and nvcc make the same kernel of the same source: the same entries, parameters and shared memory, and about
as many registers. That they compute the same is for tests/gpu/backends.py."""

import json

import harness
import toolkits
from cubins import parameters, sections
from test_fatbin import images

SOURCE = """#include <cuda_fp16.h>
#include <cuda_bf16.h>
struct alignas(16) Window { int first; short step; double weight; };
template <typename T, int VEC, bool EDGE>
__global__ void __launch_bounds__(256) windowed(T* y, const T* __restrict__ x, long long n, float factor, Window window,
                                                char flag) {
  __shared__ float kept[256 * VEC];
  extern __shared__ float more[];
  for (int v = 0; v < VEC; ++v) {
    const long long i = window.first + (blockIdx.x * 256LL + threadIdx.x) * VEC + v;
    const bool inside = !EDGE || i < n;
    kept[threadIdx.x * VEC + v] = inside ? static_cast<float>(x[i]) * factor : 0.0f;
    more[threadIdx.x] = kept[threadIdx.x * VEC + v];
  }
  __syncthreads();
  for (int v = 0; v < VEC; ++v) {
    const long long i = window.first + (blockIdx.x * 256LL + threadIdx.x) * VEC + v;
    if (!EDGE || i < n) {
      y[i] = static_cast<T>(kept[((threadIdx.x + window.step) % 256) * VEC + v] + more[threadIdx.x] +
                            static_cast<float>(window.weight) * flag);
    }
  }
}
template <typename T>
__global__ void windowed_ref(T* y, const T* x, long long n) {
  for (long long i = threadIdx.x; i < n; i += blockDim.x) y[i] = x[i];
}
"""
MANIFEST = """manifest = 1
name = "windowed"
source = "windowed.cu"
backend = "BACKEND"
entry = "windowed<{T}, {VEC}, {EDGE}>"
targets = ["sm_90", "sm_120"]
types.T = ["f32", "f16", "bf16"]
[axes]
n = { tune = [65536], bucket = "log2" }
[tunables]
VEC = { values = [1, 4], default = 1 }
EDGE = { values = [true, false], default = true }
[rules]
require = ["EDGE || n % (256 * VEC) == 0"]
[launch]
grid = ["ceil_div(n, 256 * VEC)"]
block = [256]
smem = "1024"
args = [
  { name = "y", out = "T", len = "n" },
  { name = "x", in = "T", len = "n", fill = "normal(0, 1)" },
  { name = "items", scalar = "i64", is = "n" },
  { name = "factor", scalar = "f32", default = 2 },
  { name = "window", bytes = 16, align = 16 },
  { name = "flag", scalar = "i8", default = 0 },
]
[check]
reference = { entry = "windowed_ref<{T}>", grid = [1], block = [256], args = ["y", "x", "items"] }
tolerance = { f32 = [0, 0], f16 = [0, 0], bf16 = [0, 0] }
"""


class Backends(harness.Case):
    def setUp(self):
        super().setUp()
        if why := toolkits.missing() or toolkits.nvcc_missing() or toolkits.fatbinary_missing():
            self.skipTest(why)

    def build(self, backend):
        """{(types, config, target): (candidate line, cubin)}"""
        folder = self.tmp / backend
        folder.mkdir()
        (folder / "windowed.cu").write_text(SOURCE)
        (folder / "kernel.toml").write_text(MANIFEST.replace("BACKEND", backend))
        store = self.tmp / f"{backend}.cubinary"
        lines = self.cubinary("build", folder, "--store", store, "--json").json_lines()
        self.cubinary("release", "create", "r", "--store", store)
        self.cubinary("export", self.tmp / f"{backend}-fat", "--store", store, "--release", "r", "--fatbin")
        listed = json.loads((self.tmp / f"{backend}-fat" / "fatbins.json").read_text())
        cubins = {}
        for fat in listed["fatbinaries"]:
            held = dict(images(self.tmp / f"{backend}-fat" / fat["file"]))
            for target, image in fat["images"].items():
                cubins[image["artifact"].removeprefix("sha256:")] = held[int(target[3:])]
        found = {}
        for line in lines:
            if line.get("event") == "candidate":
                self.assertEqual(line["status"], "ok", line)
                key = (line["role"], str(line["types"]), str(line["config"]), line["target"])
                found[key] = (line, cubins.get(line["artifact"]))
        return found

    def test_the_same_entries_parameters_and_memory(self):
        nvrtc, nvcc = self.build("nvrtc"), self.build("nvcc")
        self.assertEqual(set(nvrtc), set(nvcc))
        compared = 0
        for key, (one, cubin) in nvrtc.items():
            other, other_cubin = nvcc[key]
            (a,), (b,) = one["symbols"], other["symbols"]
            self.assertEqual(a["symbol"], b["symbol"], key)
            self.assertEqual(a["max_threads"], b["max_threads"], key)
            self.assertEqual(a["static_smem"], b["static_smem"], key)
            self.assertEqual(a["spill_bytes"], b["spill_bytes"], key)
            self.assertLessEqual(abs(a["registers"] - b["registers"]), 4, (key, a, b))
            if cubin is None or other_cubin is None:
                continue  # in no release: not the default's
            compared += 1
            listed, total = parameters(cubin, a["symbol"])
            self.assertEqual((listed, total), parameters(other_cubin, b["symbol"]), key)
            self.assertEqual([size for _, _, size in listed], [8, 8, 8, 4, 16, 1])
            # About as many instructions, too.
            ours, theirs = (len(sections(c)[".text." + a["symbol"]]) for c in (cubin, other_cubin))
            self.assertLess(max(ours, theirs), 1.2 * min(ours, theirs) + 256, key)
        self.assertGreaterEqual(compared, 6)


if __name__ == "__main__":
    harness.main()
