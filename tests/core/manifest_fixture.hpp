// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace cubinary::core {

/// A manifest that uses most of the language; tests break it in one place each.
inline constexpr std::string_view k_manifest = R"toml(manifest = 1
name = "rmsnorm"
summary = "y = x * rsqrt(mean(x^2) + eps) * w"
source = "rmsnorm.cu"
entry = "rmsnorm<{T}, {VEC}, {head_dim}>"
backend = "nvrtc"
targets = ["sm_90", "sm_120"]
types.T = ["f32", "f16"]
prefer = [{ VEC = 4, WARPS = 8 }, { VEC = 2 }]

[axes]
rows = { tune = [1, 64], bucket = "log2" }
head_dim = { tune = [64, 128], compile = true }

[tunables]
VEC = { values = [1, 2, 4], default = 1 }
WARPS = { values = [1, 2, 8], default = 2, as = "launch" }

[rules]
let = { threads = "32 * WARPS", smem = "4 * WARPS" }
require = ["threads <= 1024", "head_dim % VEC == 0", "align(x) % (VEC * sizeof(T)) == 0"]

[launch]
grid = ["ceil_div(rows, 2)"]
block = ["threads"]
smem = "smem"
args = [
  { name = "y", out = "T", len = "rows * head_dim" },
  { name = "x", in = "T", len = "rows * head_dim", fill = "normal(0, 1)" },
  { name = "n", scalar = "i32", is = "rows" },
  { name = "eps", scalar = "f32", default = 1e-6 },
]

[check]
reference = { entry = "rmsnorm_ref<{T}>", grid = ["rows"], block = [256] }
tolerance = { f32 = [1e-5, 1e-6], f16 = [2e-3, 1e-3] }
also = [{ rows = 3, head_dim = 64 }]

[measure]
cache = "cold"
bytes = "2 * rows * head_dim * sizeof(T)"
)toml";

/// Two launches with a workspace between them.
inline constexpr std::string_view k_steps_manifest = R"toml(manifest = 1
name = "row_sum"
sources = ["row_sum.cu", "finish.cu"]
args = [
  { name = "sums", out = "f32", len = "rows" },
  { name = "x", in = "f16", len = "rows * cols", vector = "VEC" },
  { name = "parts", workspace = "f32", len = "rows * SPLITS", init = "zero" },
  { name = "n_splits", scalar = "i32", is = "SPLITS" },
  { name = "map", handle = true },
]

[axes]
rows = { tune = [1, 16], bucket = "log2" }
cols = {}

[tunables]
VEC = { values = [1, 2], default = 1 }
SPLITS = { values = [1, 8], default = 8, as = "arg" }

[[step]]
name = "partial"
entry = "partial_sums<{VEC}>"
grid = ["SPLITS", "min(rows, 65535)"]
block = [256]
cluster = [2]
cooperative = true
args = ["parts", "x", "n_splits", "map"]

[[step]]
name = "finish"
entry = "finish_sums"
grid = ["rows"]
block = [64]
args = ["sums", "parts"]

[check]
prepare = { entry = "prepare", grid = [1], block = [1], args = ["x"] }
reference = { source = "ref.cu", entry = "ref", grid = ["rows"], block = [1], args = ["sums", "x"] }
tolerance = { f32 = [1e-5, 1e-4] }
)toml";

/// `text` with its only `from` replaced.
inline std::string replaced(std::string_view text, std::string_view from, std::string_view to) {
  const std::size_t at = text.find(from);
  if (at == std::string_view::npos || text.find(from, at + 1) != std::string_view::npos) {
    throw std::runtime_error("not exactly once: " + std::string(from));
  }
  return std::string(text.substr(0, at)) + std::string(to) +
         std::string(text.substr(at + from.size()));
}

}  // namespace cubinary::core
