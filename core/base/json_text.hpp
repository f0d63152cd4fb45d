// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace cubinary::core::json {

/// Names in a message may come from anyone: nothing that would drive a terminal gets through.
[[nodiscard]] std::string printable(std::string text);

}  // namespace cubinary::core::json
