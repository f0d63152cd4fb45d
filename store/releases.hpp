// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/bytes.hpp"
#include "core/base/digest.hpp"
#include "core/base/result.hpp"
#include "core/table/kernel_table.hpp"
#include "store/store.hpp"

namespace cubinary::store {

using ReleaseId = std::int64_t;

/// A frozen OCI document or pack. Bytes are never changed or recompressed after.
struct BlobInfo {
  core::Digest digest;
  std::uint64_t size = 0;
  std::string media_type;
};

/// Puts the blob unless it is there already.
[[nodiscard]] core::Result<void> put_blob(Writer& writer, std::string_view media_type,
                                          core::ByteView bytes);
[[nodiscard]] core::Result<std::optional<BlobInfo>> find_blob(const Reader& reader,
                                                              const core::Digest& digest);
/// Whole blob, digest checked; more than `max_bytes` is `too_large`.
[[nodiscard]] core::Result<core::Bytes> read_blob(const Reader& reader, const core::Digest& digest,
                                                  std::uint64_t max_bytes);
/// Streams [offset, offset + length) in pieces of at most 64 KiB without holding the blob; `sink`
/// returning false stops early with `cancelled`. Checks no digest (the receiver does).
[[nodiscard]] core::Result<void> stream_blob(const Reader& reader, const core::Digest& digest,
                                             std::uint64_t offset, std::uint64_t length,
                                             const std::function<bool(core::ByteView)>& sink);

struct Release {
  ReleaseId id = 0;
  std::string name;
  core::Digest index;
  std::uint64_t serial = 0;
  std::int64_t created = 0;                        ///< Unix seconds
  std::int64_t expires = 0;                        ///< 0: never
  std::optional<core::Digest> signature_manifest;  ///< set once signed
  std::vector<std::string> targets;
};

/// What a release is made of, committed at once: its blobs are there already or in the same
/// transaction.
struct NewRelease {
  Release release;                          ///< id, serial and signature ignored
  std::vector<core::Digest> blobs;          ///< all it references, for gc and export
  std::vector<core::Digest> artifacts;      ///< all it ships, pinned against gc
  std::vector<core::Catalogue> catalogues;  ///< one a target, for resolve by SQL
};
/// Serial is one more than the largest so far, set here. Tags the index with the release's name. A
/// name taken by a release or a tag is `exists`; a missing blob or artifact is `not_found`.
[[nodiscard]] core::Result<Release> put_release(Writer& writer, const NewRelease& release);
/// The next serial a release would get: it goes into the statement before the release is put.
[[nodiscard]] core::Result<std::uint64_t> next_serial(const Reader& reader);
/// Attaches a signature manifest and its blobs (already put); tags it `sha256-<hex>`. A newer one
/// replaces an older one.
[[nodiscard]] core::Result<void> put_signature(Writer& writer, ReleaseId release,
                                               const core::Digest& manifest,
                                               std::span<const core::Digest> blobs);
[[nodiscard]] core::Result<std::optional<Release>> find_release(const Reader& reader,
                                                                std::string_view name);
[[nodiscard]] core::Result<std::vector<Release>> list_releases(const Reader& reader);
/// Every blob of a release, signature's included.
[[nodiscard]] core::Result<std::vector<BlobInfo>> release_blobs(const Reader& reader,
                                                                ReleaseId release);

/// Tags: release names, channels (`prod`) and signature tags. Moving one is `promote`; a release's
/// own name never moves (`exists`).
struct Tag {
  std::string name;
  core::Digest manifest;  ///< index or manifest digest
  std::string media_type;
};
[[nodiscard]] core::Result<void> put_tag(Writer& writer, const Tag& tag);
[[nodiscard]] core::Result<std::optional<Tag>> find_tag(const Reader& reader,
                                                        std::string_view name);
/// Names after `last` in byte order, at most `limit`.
[[nodiscard]] core::Result<std::vector<std::string>> list_tags(const Reader& reader,
                                                               std::string_view last,
                                                               std::size_t limit);

/// Manifests whose subject is `subject`, for the referrers API.
struct Referrer {
  BlobInfo manifest;
  std::string artifact_type;
};
[[nodiscard]] core::Result<std::vector<Referrer>> list_referrers(const Reader& reader,
                                                                 const core::Digest& subject);

/// The newest release: the one with the highest serial.
[[nodiscard]] core::Result<std::optional<Release>> newest_release(const Reader& reader);
[[nodiscard]] core::Result<std::optional<Release>> find_release_by_index(const Reader& reader,
                                                                         const core::Digest& index);

// --- Resolve: a release's kernel tables, read in the parts a query needs ---

using ReleasedKernelId = std::int64_t;

/// A kernel of a release on one target. What is behind an id never changes.
struct ReleasedKernel {
  ReleasedKernelId id = 0;
  core::Target target;
};
/// One a target, in the order of their names; empty when the kernel is not in the release.
[[nodiscard]] core::Result<std::vector<ReleasedKernel>> find_released(const Reader& reader,
                                                                      ReleaseId release,
                                                                      std::string_view kernel);
/// The table without its entries.
[[nodiscard]] core::Result<core::KernelTable> read_released_table(const Reader& reader,
                                                                  ReleasedKernelId kernel);
/// The device classes its entries for these types were tuned on or are for; "" among them when
/// there are some for any device.
[[nodiscard]] core::Result<std::vector<std::string>> released_classes(const Reader& reader,
                                                                      ReleasedKernelId kernel,
                                                                      const core::Types& types);
/// Its entries for these types and device class, in catalogue order, by index.
[[nodiscard]] core::Result<std::vector<core::TableEntry>> read_released_entries(
    const Reader& reader, ReleasedKernelId kernel, const core::Types& types,
    std::string_view device_class);
/// All its entries: for a message that says what there is.
[[nodiscard]] core::Result<std::vector<core::TableEntry>> read_released_entries(
    const Reader& reader, ReleasedKernelId kernel);

}  // namespace cubinary::store
