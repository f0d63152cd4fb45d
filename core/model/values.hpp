// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>

#include "core/base/result.hpp"

namespace cubinary::core {

/// One value of a tunable. Expressions see int64 and bool (as 0 or 1); text only enters the code.
using TunableValue = std::variant<bool, std::int64_t, std::string>;

/// One assignment of tunables, by name. Ordered, so that its text is canonical.
using Config = std::map<std::string, TunableValue>;
/// One assignment of axes, by name, in elements.
using Shape = std::map<std::string, std::int64_t>;
/// One assignment of dtype parameters, by name, canonical dtype names.
using Types = std::map<std::string, std::string>;

/// The integer an expression sees; none for text.
[[nodiscard]] Result<std::int64_t> to_integer(const TunableValue& value);
/// The C++ spelling inside a template list or macro: `true`, `42`, text as it is.
[[nodiscard]] std::string to_code(const TunableValue& value);

/// Canonical one-line JSON objects, keys sorted, no spaces: the form kept in the store and in
/// catalogues, so that equality of text is equality of value.
[[nodiscard]] std::string to_json(const Config& config);
[[nodiscard]] std::string to_json(const Shape& shape);
[[nodiscard]] std::string to_json(const Types& types);
[[nodiscard]] Result<Config> config_from_json(std::string_view json);
[[nodiscard]] Result<Shape> shape_from_json(std::string_view json);
[[nodiscard]] Result<Types> types_from_json(std::string_view json);

/// `VEC=4 WARPS=8`, for people: key=value with single spaces, in key order; "-" when empty.
[[nodiscard]] std::string to_display(const Config& config);
[[nodiscard]] std::string to_display(const Shape& shape);
[[nodiscard]] std::string to_display(const Types& types);

}  // namespace cubinary::core
