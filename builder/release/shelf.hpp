// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "core/base/file.hpp"
#include "core/base/result.hpp"
#include "core/wire/oci.hpp"
#include "store/store.hpp"

namespace cubinary::builder {

/// Blobs of a release in the making, in a file without a name beside the store: neither in memory
/// nor in the store before the release is whole, and gone with this object.
class Shelf {
 public:
  /// `folder` is the store's, so that a full disk shows here and not within the transaction.
  [[nodiscard]] static core::Result<Shelf> open(const std::filesystem::path& folder);

  [[nodiscard]] core::Result<core::oci::Descriptor> add(std::string_view media_type,
                                                        core::ByteView bytes);
  /// Puts everything into the store.
  [[nodiscard]] core::Result<void> put(store::Writer& writer) const;
  [[nodiscard]] const std::set<core::Digest>& digests() const { return m_digests; }

 private:
  struct Item {
    std::string media_type;
    std::uint64_t offset = 0;
    std::uint64_t size = 0;
  };
  core::UniqueFd m_file;
  std::uint64_t m_end = 0;
  std::vector<Item> m_items;
  std::set<core::Digest> m_digests;
};

}  // namespace cubinary::builder
