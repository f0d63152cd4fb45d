// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/result.hpp"
#include "core/model/device_class.hpp"
#include "core/wire/triton_catalogue.hpp"

namespace cubinary::client {

/// Which part of a release's Triton is laid down; everything for this machine by default.
struct TritonFilter {
  std::vector<core::Target> targets = {};              ///< empty: all
  std::optional<core::DeviceClass> device_class = {};  ///< also: whose autotune results Triton sees
  std::string python_abi = {};                         ///< `cp312`; empty: all
  std::string triton = {};                             ///< `3.6.0`; empty: all
  std::string machine = {};                            ///< empty: all
};

/// One folder of a Triton cache as it shall be.
struct PlannedFolder {
  core::TritonFiles files;
  std::map<std::string, std::string> made;  ///< group files, with their text: nobody ships them
};

/// What a hydrated cache consists of, from catalogues alone: nothing was fetched yet.
struct TritonPlan {
  std::map<std::string, PlannedFolder> folders;    ///< by path relative to the cache
  std::map<core::Digest, core::TritonPack> packs;  ///< those needed, by the pack's digest
  /// The pack each file is taken from: targets may ship the same file in packs of their own.
  std::map<core::Digest, core::Digest> places;
  std::string index;  ///< text of cubinary-triton.json
  std::size_t kernels = 0;
  std::size_t host = 0;
  std::size_t autotune = 0;
  std::string autotune_class;  ///< whose results Triton itself sees; empty: nobody's
};

/// What the index says of where it comes from.
struct TritonProvenance {
  std::string release;
  core::Digest index;
  std::string key_id;  ///< empty: the signature was not asked for
  std::string source;
};

/// Lays out what `catalogues` hold under `seen_at`, the absolute path that programs will see the
/// cache under. The same input gives the same plan and index. Errors: `no_match` when the filter
/// leaves nothing, naming what there is.
[[nodiscard]] core::Result<TritonPlan> plan_triton(
    const std::vector<std::shared_ptr<const core::TritonCatalogue>>& catalogues,
    const TritonFilter& filter, const TritonProvenance& provenance,
    const std::filesystem::path& seen_at);

inline constexpr const char* k_triton_index_file = "cubinary-triton.json";

}  // namespace cubinary::client
