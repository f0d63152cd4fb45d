// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "core/base/embedded_file.hpp"

namespace cubinary::store {

/// The SQL files of schema/store in order, embedded at build time: element i takes a store from
/// format i to format i + 1.
[[nodiscard]] std::span<const core::EmbeddedFile> migrations();

}  // namespace cubinary::store
