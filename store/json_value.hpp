// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "core/base/result.hpp"
#include "store/connection.hpp"

namespace cubinary::store {

/// The id of a canonical JSON text (types, shape, config) in `json_value`, inserted when new.
[[nodiscard]] core::Result<std::int64_t> intern_json(Connection& connection, std::string_view json);
/// The id when the text is there.
[[nodiscard]] core::Result<std::optional<std::int64_t>> find_json(Connection& connection,
                                                                  std::string_view json);

}  // namespace cubinary::store
