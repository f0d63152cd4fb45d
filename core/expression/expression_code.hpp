// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/expression/expression.hpp"

/// Inside of the expression room: what the parser makes and the evaluator runs.
namespace cubinary::core {

enum class Op : std::uint8_t {
  constant,  ///< push argument
  variable,  ///< push values[argument]
  negate,    ///< unary operators replace the top
  logical_not,
  to_bool,
  log2,
  pow2_ceil,
  add,  ///< binary operators replace the two on top
  subtract,
  multiply,
  divide,
  remainder,
  ceil_div,
  minimum,
  maximum,
  equal,
  not_equal,
  less,
  less_equal,
  greater,
  greater_equal,
  jump,          ///< to argument
  jump_if_zero,  ///< pop; to argument when zero
  and_then,      ///< zero: make the top 0, to argument; else pop
  or_else,       ///< non-zero: make the top 1, to argument; else pop
};

struct Instruction {
  std::int64_t argument = 0;
  std::int32_t column = 0;
  Op op = Op::constant;
};

/// The deepest stack any accepted expression can need; the parser refuses what would need more.
inline constexpr int k_max_stack = 512;

struct Expression::Impl {
  std::string text;
  std::vector<std::string> variables;
  std::vector<int> columns;
  std::vector<Instruction> code;
};

/// Parses `text` into an Impl's parts, which come empty.
[[nodiscard]] Result<void> compile_expression(std::string_view text,
                                              std::vector<std::string>& variables,
                                              std::vector<int>& columns,
                                              std::vector<Instruction>& code);

}  // namespace cubinary::core
