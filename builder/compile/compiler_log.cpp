// SPDX-License-Identifier: Apache-2.0
#include "builder/compile/compiler_log.hpp"

#include <algorithm>
#include <array>
#include <set>

namespace cubinary::builder {

namespace {

/// Takes the next line off `text`.
std::string_view take_line(std::string_view& text) {
  const std::size_t end = std::min(text.find('\n'), text.size());
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

struct WayOut {
  std::string_view sign;
  std::string_view advice;
  bool of_nvrtc = false;  ///< nothing with nvcc
};
constexpr auto k_ways_out = std::to_array<WayOut>({
    {"host functions are not allowed in JIT mode",
     "mark it __device__ (a generic lambda cannot be: flags = [\"-default-device\"]), or set "
     "backend = \"nvcc\" in the manifest",
     true},
    {"__host__ function is not allowed in JIT mode",
     "include the single header that is needed (<cub/block/block_reduce.cuh>, not <cub/cub.cuh>), "
     "or set backend = \"nvcc\" in the manifest",
     true},
    {"unrecognized token",
     "a byte order mark or another invisible character in a header stops NVRTC: remove it, or set "
     "backend = \"nvcc\" in the manifest",
     true},
    {"Unresolved extern function", "define it in the sources: cubins are not linked with others"},
    {"device-side kernel launch",
     "launch it from the host, as a [[step]] of its own: cubins are not linked with the device "
     "runtime"},
    {"requires separate compilation mode",
     "launch it from the host, as a [[step]] of its own: cubins are not linked with the device "
     "runtime"},
    {"cannot determine which instance of overloaded",
     "name one in the manifest's entry: static_cast<void(*)(double*)>(name)"},
    {"uses too much shared data",
     "48 KB is the most a block can declare: take more as `extern __shared__`, and say how much in "
     "`smem` of the manifest's launch"},
    {"No such file or directory", "name its folder in the manifest's include"},
});

/// NVRTC compiles the expressions that name entries as a file of this name.
constexpr std::string_view k_name_map = "__nv_name_map";

/// What to do about a header that was not found.
std::string_view header_way_out(std::string_view error) {
  constexpr std::string_view k_sign = "cannot open source file \"";
  const auto at = error.find(k_sign);
  if (at == std::string_view::npos) {
    return {};
  }
  std::string_view name = error.substr(at + k_sign.size());
  name = name.substr(0, name.find('"'));
  constexpr std::array<std::string_view, 12> k_host = {
      "assert.h", "cuda.h",  "cuda_runtime_api.h", "float.h",  "limits.h", "math.h", "stddef.h",
      "stdint.h", "stdio.h", "stdlib.h",           "string.h", "time.h"};
  if (name.find('.') == std::string_view::npos ||
      std::find(k_host.begin(), k_host.end(), name) != k_host.end()) {
    return "NVRTC has no host headers: use <cuda/std/…>, leave it out where __CUDACC_RTC__ is "
           "defined, or set backend = \"nvcc\" in the manifest";
  }
  return "name its folder in the manifest's include";
}

std::string trimmed(std::string_view line) {
  const std::size_t first = line.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) {
    return {};
  }
  return std::string(line.substr(first, line.find_last_not_of(" \t\r") - first + 1));
}

}  // namespace

std::string first_error(std::string_view log, core::Backend backend) {
  std::string error;
  for (std::string_view rest = log; !rest.empty() && error.empty();) {
    const std::string_view line = take_line(rest);
    if (line.find("error") != std::string_view::npos ||
        line.find("fatal") != std::string_view::npos) {
      error = trimmed(line);
    }
  }
  const bool nvrtc = backend == core::Backend::nvrtc;
  for (const WayOut& way : k_ways_out) {
    if ((nvrtc || !way.of_nvrtc) && error.find(way.sign) != std::string::npos) {
      return error + ": " + std::string(way.advice);
    }
  }
  if (nvrtc) {
    if (const std::string_view advice = header_way_out(error); !advice.empty()) {
      return error + ": " + std::string(advice);
    }
    if (error.starts_with(k_name_map) && error.find("is undefined") != std::string::npos) {
      return error +
             ": is the entry misspelt in the manifest, or left out for this target "
             "(#if __CUDA_ARCH__)?";
    }
  }
  return error;
}

std::string log_to_keep(std::string_view log) {
  std::string kept;
  std::set<std::string_view> told;
  bool repeated = false;  // in a warning that was told before, of another instantiation
  for (std::string_view rest = log; !rest.empty();) {
    const std::string_view line = take_line(rest);
    if (line.starts_with("ptxas info") || line.starts_with("ptxas         .") ||
        line.find(" bytes stack frame, ") != std::string_view::npos) {
      continue;
    }
    if (line.find("): warning") != std::string_view::npos) {
      repeated = !told.insert(line).second;
    } else if (line.find("): error") != std::string_view::npos || line.starts_with("ptxas")) {
      repeated = false;
    }
    if (repeated) {
      continue;
    }
    kept.append(line).push_back('\n');
  }
  if (kept.find_first_not_of(" \t\r\n") == std::string::npos) {
    return {};
  }
  constexpr std::size_t k_most = 64U << 10U;
  if (kept.size() > k_most) {
    const std::size_t cut = kept.size() - k_most;
    kept.replace(k_most / 2, cut, "\n[… " + std::to_string(cut) + " bytes left out …]\n");
  }
  return kept;
}

}  // namespace cubinary::builder
