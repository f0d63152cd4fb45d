// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/json.hpp"

/// Reading an answer for printing: a document this program made itself or a server sent. What is
/// missing or of another kind reads as empty, so that a server of another version can be shown.
namespace cubinary::cli {

[[nodiscard]] std::string text_at(const core::json::Value& object, std::string_view key);
[[nodiscard]] std::int64_t integer_at(const core::json::Value& object, std::string_view key);
[[nodiscard]] double number_at(const core::json::Value& object, std::string_view key);
[[nodiscard]] bool flag_at(const core::json::Value& object, std::string_view key);
/// The elements of an array member.
[[nodiscard]] const core::json::Array& array_at(const core::json::Value& object,
                                                std::string_view key);
/// The elements of the value itself.
[[nodiscard]] const core::json::Array& array_of(const core::json::Value& value);
/// The texts of an array member, joined by ", ".
[[nodiscard]] std::string list_at(const core::json::Value& object, std::string_view key);
/// An object member as people read it: `VEC=4 WARPS=8`, "-" when empty.
[[nodiscard]] std::string display_at(const core::json::Value& object, std::string_view key);

/// Compact JSON and a newline on standard output.
void print_json(const core::json::Value& value);

}  // namespace cubinary::cli
