// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "client/release.hpp"
#include "client/triton_plan.hpp"
#include "core/base/result.hpp"

namespace cubinary::client {

struct HydrateOptions {
  std::filesystem::path folder;   ///< the cache, made when it is missing
  std::filesystem::path seen_at;  ///< where programs will see it; empty: where it is
  TritonFilter filter;
  std::string source;     ///< as the user named it, for the index
  std::size_t width = 8;  ///< threads
};

struct HydrateReport {
  std::size_t kernels = 0;
  std::size_t host = 0;
  std::size_t autotune = 0;
  std::size_t folders_written = 0;
  std::size_t folders_kept = 0;  ///< were there already, every byte of them
  std::size_t files_written = 0;
  std::uint64_t bytes_written = 0;
  std::size_t packs_received = 0;
  std::uint64_t bytes_received = 0;
  std::filesystem::path folder;    ///< absolute
  core::Digest index;              ///< of cubinary-triton.json
  std::string autotune_class;      ///< whose results Triton itself sees; empty: nobody's
  std::vector<std::string> notes;  ///< what the user should know, a sentence each
};

/// Where a release's documents and the serials seen are kept: in the cache itself, so that an older
/// release cannot be laid over a newer one; in memory where nothing can be written.
[[nodiscard]] std::shared_ptr<Cache> triton_document_cache(const std::filesystem::path& folder,
                                                           Log log);

/// `uname -m` of this machine.
[[nodiscard]] std::string this_machine();

/// Lays a release's Triton entries down as a cache (schema/triton.md section 4). Everything is
/// fetched and verified before the first name appears; what is there already and right is kept, so
/// that a second run writes nothing and a complete cache may be read-only. Any number may run at
/// once.
///
/// Errors: `no_match` (no such target, Triton, Python or machine; names what there is),
/// `permission`, `disk_full`, `corrupt`, and what fetching may meet.
[[nodiscard]] core::Result<HydrateReport> hydrate_triton(Release& release,
                                                         const HydrateOptions& options,
                                                         Deadline deadline);

}  // namespace cubinary::client
