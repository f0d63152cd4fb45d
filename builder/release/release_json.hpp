// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <vector>

#include "builder/release/diff.hpp"
#include "builder/release/release.hpp"
#include "builder/release/revoke.hpp"
#include "builder/release/view.hpp"
#include "core/base/json.hpp"
#include "core/base/result.hpp"

/// What commands print with --json and the server answers, made in one place: commands show a
/// server's answer exactly as they show their own.
namespace cubinary::builder {

[[nodiscard]] core::json::Object to_json(const ReleaseSummary& summary);
[[nodiscard]] core::json::Object to_json(const CreatedRelease& created);
[[nodiscard]] core::json::Object to_json(const SignedRelease& result);
[[nodiscard]] core::json::Object to_json(const Promotion& promotion, std::string_view channel);

/// All releases, ascending by serial.
[[nodiscard]] core::Result<core::json::Array> releases_json(const store::Reader& reader);
/// One release: its summary, who signed it, its blobs, and all targets with kernels and entries.
[[nodiscard]] core::Result<core::json::Object> release_json(const store::Reader& reader,
                                                            std::string_view name);
[[nodiscard]] core::Result<core::json::Array> release_diff_json(const store::Reader& reader,
                                                                std::string_view before,
                                                                std::string_view after);

[[nodiscard]] core::json::Object to_json(const AttachedRevocations& attached);
/// The store's revocation list with its blobs, the manifest's first; serial 0 when there is none.
[[nodiscard]] core::Result<core::json::Object> revocations_json(const store::Reader& reader);
/// The list a server told of in this form.
[[nodiscard]] core::Result<core::RevocationList> revocations_from_json(
    const core::json::Value& value);
/// The blobs such documents list.
[[nodiscard]] core::Result<std::vector<store::BlobInfo>> blobs_from_json(
    const core::json::Value& value);

/// The release a server told of in this form, as far as signing and export need it.
[[nodiscard]] core::Result<store::Release> release_from_json(const core::json::Value& value);

}  // namespace cubinary::builder
