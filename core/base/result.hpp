// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include <tl/expected.hpp>

#include "core/base/error_code.hpp"

namespace cubinary::core {

/// An expected failure: what kind, what happened, and what to do next.
///
/// `message` is one sentence a user can act on; it already names the file, line and field where
/// there is one. `with_context` puts outer circumstances in front of it ("kernel rmsnorm: …").
struct Error {
  ErrorCode code = ErrorCode::internal;
  std::string message;

  [[nodiscard]] Error with_context(std::string_view context) const {
    return Error{code, std::string(context) + ": " + message};
  }
};

/// A value or an Error. Exceptions are for bugs and start-up only.
template <typename T>
using Result = tl::expected<T, Error>;

/// Makes the failing side of any Result.
[[nodiscard]] inline tl::unexpected<Error> fail(ErrorCode code, std::string message) {
  return tl::unexpected<Error>(Error{code, std::move(message)});
}
[[nodiscard]] inline tl::unexpected<Error> fail(Error error) {
  return tl::unexpected<Error>(std::move(error));
}

}  // namespace cubinary::core

#define CUBINARY_CONCAT_(a, b) a##b
#define CUBINARY_CONCAT(a, b) CUBINARY_CONCAT_(a, b)

/// Returns the error of `expr` from the enclosing function; `expr` is a Result<void>-like value.
#define TRY(expr)                                                    \
  do {                                                               \
    if (auto try_result_ = (expr); !try_result_) {                   \
      return ::cubinary::core::fail(std::move(try_result_).error()); \
    }                                                                \
  } while (false)

/// Declares or assigns `lhs` from the value of `expr`, or returns its error.
// NOLINTBEGIN(bugprone-macro-parentheses): a declaration cannot be put in parentheses.
#define TRY_ASSIGN(lhs, expr) TRY_ASSIGN_(CUBINARY_CONCAT(try_value_, __LINE__), lhs, expr)
#define TRY_ASSIGN_(tmp, lhs, expr)                        \
  auto tmp = (expr);                                       \
  if (!tmp) {                                              \
    return ::cubinary::core::fail(std::move(tmp).error()); \
  }                                                        \
  lhs = std::move(*tmp)
// NOLINTEND(bugprone-macro-parentheses)
