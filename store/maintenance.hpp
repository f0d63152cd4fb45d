// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "core/base/result.hpp"
#include "store/store.hpp"

namespace cubinary::store {

struct Stats {
  std::uint64_t file_bytes = 0;
  std::uint64_t kernels = 0;
  std::uint64_t candidates_ok = 0;
  std::uint64_t candidates_failed = 0;
  std::uint64_t artifacts = 0;
  std::uint64_t artifact_raw_bytes = 0;
  std::uint64_t artifact_stored_bytes = 0;
  std::uint64_t dictionary_bytes = 0;
  std::uint64_t measurements = 0;
  std::uint64_t releases = 0;
  std::uint64_t blob_bytes = 0;
};
/// `file_bytes` is the file with its write-ahead log; stored sizes are as compressed.
[[nodiscard]] core::Result<Stats> stats(const Store& store);

/// Copies a consistent snapshot to `destination` (must not exist: `exists`) with SQLite's backup
/// API; works on a store that is in use. The copy gets its name only when it is whole and on disk.
[[nodiscard]] core::Result<void> backup(const Store& store,
                                        const std::filesystem::path& destination);

/// Integrity check, foreign keys, and every artifact's, dictionary's and blob's digest. One line a
/// finding; empty when sound.
[[nodiscard]] core::Result<std::vector<std::string>> fsck(const Store& store);

struct GcResult {
  std::uint64_t candidates = 0;
  std::uint64_t measurements = 0;  ///< those of the candidates
  std::uint64_t artifacts = 0;
  std::uint64_t blobs = 0;
  std::uint64_t bytes = 0;  ///< stored bytes freed
};
/// Drops candidates no longer current (with their measurements) and artifacts, dictionaries and
/// blobs nothing needs; never what a release pins, nor the candidates it came from. Gives the room
/// back to the file system. With `dry_run` only counts.
[[nodiscard]] core::Result<GcResult> gc(Store& store, bool dry_run);

}  // namespace cubinary::store
