// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/bytes.hpp"
#include "core/base/result.hpp"
#include "store/releases.hpp"

namespace cubinary::builder {

struct ExportedRelease {
  store::Release release;
  std::vector<std::string> tags;    ///< written into index.json: name, channels, signature
  std::uint64_t blobs = 0;          ///< of the release
  std::uint64_t blobs_written = 0;  ///< that were not there already
  std::uint64_t bytes = 0;          ///< of all blobs
};

/// A release to export, wherever it is.
struct ExportSource {
  store::Release release;
  std::vector<std::string> channels;   ///< tags that point at it besides its name
  std::vector<store::BlobInfo> blobs;  ///< all of it, signature included
  /// Manifest of the repository's revocation list, whose blobs are then among `blobs`.
  std::optional<core::Digest> revocations = {};
  /// Streams a blob; `sink` returning false stops early with any error. Digests are checked by who
  /// receives.
  std::function<core::Result<void>(const store::BlobInfo& blob,
                                   const std::function<bool(core::ByteView)>& sink)>
      stream;
};

/// Writes the release, its signature and its channel tags into the OCI image layout at `directory`,
/// which is made when missing; other releases in the layout stay, tags of the same names are
/// replaced.
///
/// `index.json` is replaced last and at once: readers see the layout before or after. Blobs are
/// streamed and their digests checked, blobs already there too. Two exports into one folder wait
/// for each other. Errors: `not_found`; `exists` for a folder with other things in it; `corrupt`;
/// `disk_full`, `permission`.
[[nodiscard]] core::Result<ExportedRelease> export_release(const ExportSource& source,
                                                           const std::filesystem::path& directory);
/// The release of this name in a store.
[[nodiscard]] core::Result<ExportedRelease> export_release(const store::Reader& reader,
                                                           std::string_view name,
                                                           const std::filesystem::path& directory);

}  // namespace cubinary::builder
