// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <random>
#include <string>

#include "core/manifest/manifest.hpp"
#include "tests/gpu/handles.hpp"
#include "tests/gpu/report.hpp"

namespace cubinary::gpu {

/// What every part of the suite works with.
struct Suite {
  std::map<std::string, core::Manifest> manifests;  ///< by kernel
  std::mt19937_64 random;
  Report report;

  [[nodiscard]] std::string interface_of(const std::string& kernel) const {
    return core::interface_digest(manifests.at(kernel)).text();
  }
};

/// Every kernel, dtype, shape and placement against float64 on the CPU.
void check_results(Suite& suite, const Release& release);
/// Launches captured in a CUDA graph and replayed; what must be refused inside a capture.
void check_graphs(Suite& suite, const Release& release);
/// Calls that must be refused before the driver is touched.
void check_refusals(Suite& suite, const Release& release);
/// Times from an empty cache to the first result, and again from the cache, beside the plain driver
/// calls. `scratch` is an empty folder.
void print_times(Suite& suite, const std::filesystem::path& scratch);

}  // namespace cubinary::gpu
