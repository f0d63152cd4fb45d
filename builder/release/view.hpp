// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/bytes.hpp"
#include "core/base/digest.hpp"
#include "core/base/result.hpp"
#include "core/table/kernel_table.hpp"
#include "core/wire/oci.hpp"
#include "core/wire/triton_catalogue.hpp"
#include "store/releases.hpp"

namespace cubinary::builder {

/// Where a release's blobs come from: a whole blob of at most so many bytes, its digest checked.
using ReadBlob =
    std::function<core::Result<core::Bytes>(const core::Digest& digest, std::uint64_t max_bytes)>;
/// A store's blobs; `reader` must outlive it.
[[nodiscard]] ReadBlob blobs_of(const store::Reader& reader);

/// What a list says of a release.
struct ReleaseSummary {
  store::Release release;
  std::vector<std::string> channels;  ///< ascending
  std::size_t kernels = 0;            ///< distinct names over all targets
  std::uint64_t bytes = 0;            ///< of all its blobs, signature included
};
[[nodiscard]] core::Result<ReleaseSummary> summarise(const store::Reader& reader,
                                                     const store::Release& release);
/// All releases, ascending by serial.
[[nodiscard]] core::Result<std::vector<ReleaseSummary>> summarise_all(const store::Reader& reader);

/// One target of a release, as its blobs say; every digest was checked on the way.
struct ReleasedTarget {
  core::Digest manifest_digest;
  core::oci::Manifest manifest;
  core::Catalogue catalogue;
  std::optional<core::TritonCatalogue> triton;  ///< none when the target has no Triton entry
};
/// Calls `visit` a target at a time, in the index's order; stops at its first error.
[[nodiscard]] core::Result<void> for_each_target(
    const ReadBlob& read, const core::Digest& index,
    const std::function<core::Result<void>(const ReleasedTarget&)>& visit);
[[nodiscard]] core::Result<void> for_each_target(
    const store::Reader& reader, const store::Release& release,
    const std::function<core::Result<void>(const ReleasedTarget&)>& visit);

/// Key ids the release's signature names; empty when it is not signed. Not a verification.
[[nodiscard]] core::Result<std::vector<std::string>> signing_keys(const store::Reader& reader,
                                                                  const store::Release& release);

}  // namespace cubinary::builder
