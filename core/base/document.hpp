// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "core/base/json.hpp"
#include "core/base/result.hpp"

namespace cubinary::core::oci {

/// Parses a document of a release (index, manifest, envelope, statement): more than
/// k_max_document_bytes is `too_large` before anything is parsed; errors name `what`.
[[nodiscard]] Result<json::Value> parse_document(std::string_view text, std::string_view what);

}  // namespace cubinary::core::oci
