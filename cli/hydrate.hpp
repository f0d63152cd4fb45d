// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>

#include <CLI/CLI.hpp>

#include "core/base/result.hpp"

namespace cubinary::cli {

/// Describes laying a release's Triton cache down on `app` and returns what to run once it is
/// parsed: `cubinary triton hydrate` and `cubinary-fetch hydrate` are the same thing.
[[nodiscard]] std::function<core::Result<int>()> describe_hydrate(CLI::App& app);

/// Where Triton keeps its cache unless told otherwise: TRITON_CACHE_DIR, TRITON_HOME/.triton/cache,
/// ~/.triton/cache; empty when none of them is set.
[[nodiscard]] std::filesystem::path triton_cache_folder();

}  // namespace cubinary::cli
