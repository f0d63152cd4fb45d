// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>

#include "core/base/result.hpp"

namespace cubinary::client {

/// Calls `work` with 0 … count-1, each once, from up to `width` threads, the caller's among them.
/// The first error ends it: work begun is finished, no more is begun. `work` is thread-safe.
[[nodiscard]] core::Result<void> parallel_for(
    std::size_t count, std::size_t width,
    const std::function<core::Result<void>(std::size_t)>& work);

}  // namespace cubinary::client
