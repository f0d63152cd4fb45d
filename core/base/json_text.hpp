// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/result.hpp"

namespace cubinary::core::json {

/// Names in a message may come from anyone: nothing that would drive a terminal gets through.
[[nodiscard]] std::string printable(std::string text);

/// The value of a number that is JSON and no integer; infinite beyond what double holds.
[[nodiscard]] double number_of(std::string_view text);

// What is wrong where, in the same words for a tree's Node and a document's View.

/// The path of a member, or of an element where `key` has no data; `below_top`: the parent has
/// none.
[[nodiscard]] std::string path_below(const std::string& parent, bool below_top,
                                     std::string_view key, std::size_t index);
[[nodiscard]] Error error_at(const std::string& path, std::string_view message);
[[nodiscard]] std::string is_missing(std::string_view name);
[[nodiscard]] std::string is_not_between(std::int64_t value, std::int64_t low, std::int64_t high);

}  // namespace cubinary::core::json
