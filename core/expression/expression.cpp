// SPDX-License-Identifier: Apache-2.0
#include "core/expression/expression.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>

#include "core/expression/expression_code.hpp"

namespace cubinary::core {
namespace {

constexpr std::int64_t k_min = std::numeric_limits<std::int64_t>::min();

constexpr std::string_view symbol(Op op) {
  switch (op) {
    case Op::add:
      return " + ";
    case Op::subtract:
      return " - ";
    case Op::multiply:
      return " * ";
    case Op::divide:
      return " / ";
    case Op::remainder:
      return " % ";
    default:
      return ", ";
  }
}

// Off the hot path: names the operation with its operands.
[[gnu::noinline, gnu::cold]] tl::unexpected<Error> failure(const Instruction& at, std::int64_t a,
                                                           std::int64_t b) {
  const std::string x = std::to_string(a);
  const std::string y = std::to_string(b);
  std::string what;
  switch (at.op) {
    case Op::negate:
      what = "-(" + x + ") overflows 64 bits";
      break;
    case Op::log2:
      what = "log2(" + x + ") is not defined";
      break;
    case Op::pow2_ceil:
      what = "pow2_ceil(" + x + ") " + (a < 1 ? "is not defined" : "overflows 64 bits");
      break;
    case Op::ceil_div:
      what = "ceil_div(" + x + ", " + y + ") " + (b == 0 ? "divides by zero" : "overflows 64 bits");
      break;
    default:
      what = x + std::string(symbol(at.op)) + y + " ";
      what += (at.op == Op::divide || at.op == Op::remainder) && b == 0 ? "divides by zero"
                                                                        : "overflows 64 bits";
  }
  return fail(ErrorCode::expression, what + " at column " + std::to_string(at.column));
}

Result<std::int64_t> run(std::span<const Instruction> code, const std::int64_t* values) {
  // Left raw but for two places below the bottom, so that both operands can be read before the
  // switch.
  std::array<std::int64_t, k_max_stack + 2>
      stack;  // NOLINT(cppcoreguidelines-pro-type-member-init)
  stack[0] = stack[1] = 0;
  std::int64_t* top = stack.data() + 1;
  const Instruction* const begin = code.data();
  const Instruction* const end = begin + code.size();
  for (const Instruction* at = begin; at != end; ++at) {
    const std::int64_t a = top[-1];
    const std::int64_t b = top[0];
    // Binary operators leave their result in the lower place and drop the upper.
    std::int64_t* const out = top - 1;
    switch (at->op) {
      case Op::constant:
        *++top = at->argument;
        continue;
      case Op::variable:
        *++top = values[at->argument];
        continue;
      case Op::negate:
        if (b == k_min) {
          return failure(*at, b, 0);
        }
        *top = -b;
        continue;
      case Op::logical_not:
        *top = b == 0 ? 1 : 0;
        continue;
      case Op::to_bool:
        *top = b != 0 ? 1 : 0;
        continue;
      case Op::log2:
        if (b < 1) {
          return failure(*at, b, 0);
        }
        *top = static_cast<std::int64_t>(std::bit_width(static_cast<std::uint64_t>(b))) - 1;
        continue;
      case Op::pow2_ceil:
        if (b < 1 || b > (std::int64_t{1} << 62)) {
          return failure(*at, b, 0);
        }
        *top = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(b)));
        continue;
      case Op::jump:
        at = begin + at->argument - 1;
        continue;
      case Op::jump_if_zero:
        --top;
        if (b == 0) {
          at = begin + at->argument - 1;
        }
        continue;
      case Op::and_then:
        if (b == 0) {
          at = begin + at->argument - 1;
        } else {
          --top;
        }
        continue;
      case Op::or_else:
        if (b != 0) {
          *top = 1;
          at = begin + at->argument - 1;
        } else {
          --top;
        }
        continue;
      case Op::add:
        if (__builtin_add_overflow(a, b, out)) {
          return failure(*at, a, b);
        }
        break;
      case Op::subtract:
        if (__builtin_sub_overflow(a, b, out)) {
          return failure(*at, a, b);
        }
        break;
      case Op::multiply:
        if (__builtin_mul_overflow(a, b, out)) {
          return failure(*at, a, b);
        }
        break;
      case Op::divide:
        if (b == 0 || (a == k_min && b == -1)) {
          return failure(*at, a, b);
        }
        *out = a / b;
        break;
      case Op::remainder:
        if (b == 0) {
          return failure(*at, a, b);
        }
        *out = b == -1 ? 0 : a % b;
        break;
      case Op::ceil_div:
        if (b == 0 || (a == k_min && b == -1)) {
          return failure(*at, a, b);
        }
        *out = a / b + (a % b != 0 && (a < 0) == (b < 0) ? 1 : 0);
        break;
      case Op::minimum:
        *out = std::min(a, b);
        break;
      case Op::maximum:
        *out = std::max(a, b);
        break;
      case Op::equal:
        *out = a == b ? 1 : 0;
        break;
      case Op::not_equal:
        *out = a != b ? 1 : 0;
        break;
      case Op::less:
        *out = a < b ? 1 : 0;
        break;
      case Op::less_equal:
        *out = a <= b ? 1 : 0;
        break;
      case Op::greater:
        *out = a > b ? 1 : 0;
        break;
      case Op::greater_equal:
        *out = a >= b ? 1 : 0;
        break;
    }
    --top;
  }
  return *top;
}

}  // namespace

Expression::Expression(std::shared_ptr<const Impl> impl) : m_impl(std::move(impl)) {
}

Result<Expression> Expression::parse(std::string_view text) {
  auto impl = std::make_shared<Impl>();
  impl->text = text;
  TRY(compile_expression(text, impl->variables, impl->columns, impl->code));
  return Expression(std::move(impl));
}

const std::string& Expression::text() const {
  return m_impl->text;
}

const std::vector<std::string>& Expression::variables() const {
  return m_impl->variables;
}

int Expression::variable_column(std::size_t index) const {
  return m_impl->columns.at(index);
}

Result<std::int64_t> Expression::evaluate(std::span<const std::int64_t> values) const {
  if (values.size() != m_impl->variables.size()) {
    return fail(ErrorCode::internal, "expression \"" + m_impl->text + "\" takes " +
                                         std::to_string(m_impl->variables.size()) +
                                         " values, not " + std::to_string(values.size()));
  }
  return run(m_impl->code, values.data());
}

Result<std::int64_t> Expression::evaluate(
    const std::function<std::optional<std::int64_t>(std::string_view)>& lookup) const {
  std::vector<std::int64_t> values;
  values.reserve(m_impl->variables.size());
  for (std::size_t i = 0; i < m_impl->variables.size(); ++i) {
    const auto value = lookup(m_impl->variables[i]);
    if (!value) {
      return fail(ErrorCode::expression, "unknown name \"" + m_impl->variables[i] +
                                             "\" at column " + std::to_string(m_impl->columns[i]));
    }
    values.push_back(*value);
  }
  return run(m_impl->code, values.data());
}

std::span<const std::string_view> reserved_names() {
  static constexpr std::array<std::string_view, 11> names = {
      "ceil_div", "min",    "max",    "log2", "pow2_ceil", "sizeof",
      "align",    "target", "device", "true", "false"};
  return names;
}

}  // namespace cubinary::core
