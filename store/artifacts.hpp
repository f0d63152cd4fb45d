// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/bytes.hpp"
#include "core/base/digest.hpp"
#include "core/base/result.hpp"
#include "store/store.hpp"

namespace cubinary::store {

using ArtifactId = std::int64_t;
using DictionaryId = std::int64_t;

/// A compression dictionary of one kernel and target: representative artifacts as a prefix (what
/// `repack_artifacts` makes), or trained.
struct Dictionary {
  DictionaryId id = 0;   ///< 0: none yet
  bool trained = false;  ///< false: raw bytes, used as a prefix
  core::Bytes bytes;
};

/// An artifact compressed and named, ready to be put: the slow part, done without the store.
struct PreparedArtifact {
  core::Digest digest;     ///< of the raw bytes
  std::uint64_t size = 0;  ///< raw
  core::Bytes stored;      ///< one zstd frame
  DictionaryId dictionary = 0;
};

/// Compresses `raw` with `dictionary` (may be null). Thread-safe; touches no store.
[[nodiscard]] core::Result<PreparedArtifact> prepare_artifact(core::ByteView raw,
                                                              const Dictionary* dictionary);

/// Puts the artifact unless it is there already; gives its id either way. `not_found` when a repack
/// or gc dropped its dictionary meanwhile: prepare it again with the current one.
[[nodiscard]] core::Result<ArtifactId> put_artifact(Writer& writer,
                                                    const PreparedArtifact& artifact);
/// Reads, unpacks and checks the digest: `corrupt` names the artifact and `store fsck`.
[[nodiscard]] core::Result<core::Bytes> read_artifact(const Reader& reader,
                                                      const core::Digest& digest);
[[nodiscard]] core::Result<bool> has_artifact(const Reader& reader, const core::Digest& digest);

/// The dictionary in use for a kernel and target; `id` 0 when there is none.
[[nodiscard]] core::Result<Dictionary> current_dictionary(const Reader& reader,
                                                          std::string_view kernel,
                                                          std::string_view target);
/// A dictionary compressed and named, ready to be put: the slow part, done without the store.
struct PreparedDictionary {
  bool trained = false;
  core::Digest digest;
  std::uint64_t size = 0;
  core::Bytes stored;  ///< one zstd frame
};

/// Thread-safe; touches no store.
[[nodiscard]] core::Result<PreparedDictionary> prepare_dictionary(bool trained,
                                                                  core::ByteView bytes);
/// Makes it the dictionary for artifacts put from now on; older ones keep theirs.
[[nodiscard]] core::Result<DictionaryId> put_dictionary(Writer& writer, std::string_view kernel,
                                                        std::string_view target,
                                                        const PreparedDictionary& dictionary);

struct RepackOptions {
  unsigned threads = 1;  ///< that unpack and compress at once
  /// Give the pages that fall free back to the file system; else a later `shrink` does.
  bool shrink = true;
};

/// Makes representative artifacts of (kernel, target) their common dictionary and stores them all
/// again with it when that is smaller in all, the dictionary counted; returns bytes saved (0 when
/// it did not pay). Call it when a build has put new artifacts: it does nothing, cheaply, until
/// there are half as many again as the last time. Several transactions, each leaving the store
/// good; every artifact is read back before it is replaced. Holds the artifacts' compressed bytes
/// in memory. Any thread; several may repack different pairs at once.
[[nodiscard]] core::Result<std::uint64_t> repack_artifacts(Store& store, std::string_view kernel,
                                                           std::string_view target,
                                                           const RepackOptions& options = {});

}  // namespace cubinary::store
