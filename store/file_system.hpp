// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>

#include "core/base/result.hpp"

namespace cubinary::store {

/// The name of a network file system by its statfs magic; none for a local one. On these, locks and
/// shared memory do not hold between machines, and SQLite's write-ahead log would lose data.
[[nodiscard]] std::optional<std::string_view> network_file_system(std::int64_t magic);

/// `unsupported` when `folder` lies on a network file system.
[[nodiscard]] core::Result<void> refuse_network_file_system(const std::filesystem::path& folder);

}  // namespace cubinary::store
