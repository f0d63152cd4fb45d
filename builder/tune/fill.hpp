// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "builder/tune/message.hpp"
#include "core/base/result.hpp"
#include "core/launch/launch.hpp"
#include "core/model/dtype.hpp"

namespace cubinary::builder {

/// A manifest's `fill` (already checked) for one shape. Without one: normal(0, 1) for floating
/// dtypes, small whole numbers for integers. The path of `file(PATH)` is put
/// into `FillSpec::data` as text, to be read by whoever has the manifest's folder.
[[nodiscard]] core::Result<FillSpec> parse_fill(const std::string& text, const core::DType& dtype,
                                                const core::LaunchScope& scope);

}  // namespace cubinary::builder
