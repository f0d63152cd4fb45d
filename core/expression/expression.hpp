// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.hpp"

namespace cubinary::core {

/// A parsed, pure int64 expression: the manifest's rules, lengths and launch dimensions.
///
/// Grammar, lowest precedence first: `?:`, `||`, `&&`, `== !=`, `< <= > >=`, `+ -`, `* / %`,
/// unary `! -`, primary. Primaries: decimal integer, name, dotted name (`target.smem_optin`,
/// `device.sm_count`), `sizeof(NAME)`, `align(NAME)`, parentheses, and the functions
/// `ceil_div(a,b) min(a,b,…) max(a,b,…) log2(a) pow2_ceil(a)`. Comparisons and logic give 0 or 1.
/// `&&`, `||` and `?:` evaluate only what they need. Division and `%` truncate toward zero as in
/// C++, `ceil_div` rounds up, `log2` down. Comparisons of one level do not chain (`a < b < c` is
/// refused). Overflow, division by zero, log2 or pow2_ceil of a value below 1 are errors that give
/// the column.
///
/// `sizeof(T)`, `align(x)` and dotted names are variables spelled just so (no inner spaces).
/// Immutable; may be shared and evaluated by many threads.
class Expression {
 public:
  /// Errors are `expression`, their message ends in "at column N" (1-based). Nesting deeper than 64
  /// or text longer than 4096 bytes is refused.
  [[nodiscard]] static Result<Expression> parse(std::string_view text);

  /// The text as given.
  [[nodiscard]] const std::string& text() const;
  /// Free variables in order of first appearance.
  [[nodiscard]] const std::vector<std::string>& variables() const;
  /// Column (1-based) where variables()[i] first appears.
  [[nodiscard]] int variable_column(std::size_t index) const;

  /// Evaluates with `values[i]` for variables()[i]; the sizes must agree.
  [[nodiscard]] Result<std::int64_t> evaluate(std::span<const std::int64_t> values) const;
  /// Evaluates by name; a name `lookup` does not know is an error that names it.
  [[nodiscard]] Result<std::int64_t> evaluate(
      const std::function<std::optional<std::int64_t>(std::string_view)>& lookup) const;

 private:
  struct Impl;
  explicit Expression(std::shared_ptr<const Impl> impl);
  std::shared_ptr<const Impl> m_impl;
};

/// The names functions may not be shadowed by: no axis, tunable or let may use one.
[[nodiscard]] std::span<const std::string_view> reserved_names();

}  // namespace cubinary::core
