// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace cubinary::core::json {

/// Names in a message may come from anyone: nothing that would drive a terminal gets through.
[[nodiscard]] std::string printable(std::string text);

/// The value of a number that is JSON and no integer; infinite beyond what double holds.
[[nodiscard]] double number_of(std::string_view text);

}  // namespace cubinary::core::json
