// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "builder/triton/folder.hpp"
#include "core/base/result.hpp"
#include "store/store.hpp"

namespace cubinary::builder {

/// How many of one sort were stored.
struct TritonCount {
  std::size_t added = 0;
  std::size_t replaced = 0;
  std::size_t unchanged = 0;
  std::uint64_t bytes = 0;  ///< of the files, each counted where it is used
  [[nodiscard]] std::size_t all() const { return added + replaced + unchanged; }
};

struct TritonIngest {
  TritonCount kernels;
  TritonCount host;
  TritonCount autotune;
  TritonCount records;
  std::vector<std::string> notes;  ///< what was passed over, and why
};

/// Adds one folder's counts and notes to those of others.
void add(TritonIngest& sum, const TritonIngest& more);

/// Puts everything complete of a folder into the store, in a few transactions: what an interrupted
/// run has stored stays. `now` in Unix seconds. Errors: those of `read_triton_folder` and the
/// store.
[[nodiscard]] core::Result<TritonIngest> ingest_triton(store::Store& store,
                                                       const std::filesystem::path& folder,
                                                       const TritonFolderOptions& options,
                                                       std::int64_t now);

}  // namespace cubinary::builder
