// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/result.hpp"
#include "core/wire/revocation.hpp"
#include "core/wire/signature.hpp"

/// Signed releases of hand-made kernels whose code only the recording driver takes, written as an
/// OCI layout. Made through core alone, so that the client is tested without store, builder or
/// server.
namespace cubinary::test {

struct TestRelease {
  std::string name = "v1";
  std::uint64_t serial = 1;
  std::int64_t expires = 0;
  std::vector<std::string> targets = {"sm_90", "sm_120"};
  std::vector<std::string> channels = {};  ///< more tags
  int minimum_driver = 580;
  std::string note = {};  ///< enters the code, so that releases differ
};

/// Adds the release to the layout in `directory` (made when missing); a tag that is there moves. No
/// key: not signed. Returns the index's digest.
[[nodiscard]] core::Result<core::Digest> write_release(const std::filesystem::path& directory,
                                                       const TestRelease& release,
                                                       std::span<const core::PrivateKey> keys);

/// Puts a signed revocation list into the layout, in place of the one before.
[[nodiscard]] core::Result<void> write_revocations(const std::filesystem::path& directory,
                                                   const core::RevocationList& list,
                                                   std::span<const core::PrivateKey> keys);

/// The interface of one of the kernels, "sha256:…".
[[nodiscard]] std::string interface_of(std::string_view kernel);

}  // namespace cubinary::test
