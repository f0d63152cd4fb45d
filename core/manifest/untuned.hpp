// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "core/manifest/manifest.hpp"

/// What a kernel runs with where nobody has measured.
namespace cubinary::core {

/// Whole configs in the order they are tried, without repetitions: each of `prefer` over the
/// default, then the default. It is last even when a `prefer` repeats it: nothing after it could be
/// chosen.
[[nodiscard]] std::vector<Config> untuned_configs(const Manifest& manifest);

/// The part of a config that names a candidate: its tunables that change code.
[[nodiscard]] Config code_part(const Manifest& manifest, const Config& config);

}  // namespace cubinary::core
