// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "core/base/bytes.hpp"
#include "core/base/digest.hpp"

namespace cubinary::cli {

/// The body of `POST /api/v1/artifacts`.
inline constexpr std::string_view k_artifact_batch_type = "application/vnd.cubinary.artifacts.v1";
/// About how much is sent at once.
inline constexpr std::uint64_t k_artifact_batch_bytes = 8U << 20U;

/// Adds one artifact to a batch: digest, size (8 bytes, little-endian), bytes.
void append_artifact(core::Bytes& batch, const core::Digest& digest, core::ByteView bytes);

}  // namespace cubinary::cli
