// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string_view>

#include "core/base/result.hpp"

/// What is known of the driver without opening it.
namespace cubinary::core {

/// The kernel driver's branch (580) from /proc, where there is one.
[[nodiscard]] std::optional<int> driver_branch();
/// Branch in the text of /proc/driver/nvidia/version.
[[nodiscard]] std::optional<int> parse_driver_branch(std::string_view text);

/// The CUDA version (as cuda_version) that came with a driver branch. libcuda may be newer than the
/// kernel driver (forward compatibility), so its own version is what decides.
[[nodiscard]] int cuda_version_of_branch(int branch);

/// `driver` unless `cuda_version` loads code that needs `minimum_branch`; `what` is named in the
/// message.
[[nodiscard]] Result<void> check_driver(int cuda_version, int minimum_branch,
                                        std::string_view what);

}  // namespace cubinary::core
