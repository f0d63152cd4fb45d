// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/launch/launch.hpp"
#include "core/launch/names.hpp"
#include "core/model/dtype.hpp"

namespace cubinary::core {
namespace {

// Workspace parts start at multiples of this, whatever their element type.
constexpr std::int64_t k_workspace_alignment = 256;

std::string align_name(const Argument& argument) {
  return "align(" + argument.name + ")";
}

// The rule that an argument's `vector` implies; empty when it holds.
std::string broken_vector(const Argument& argument, const LaunchScope& scope) {
  const auto width = scope.evaluate(argument.vector->expression);
  if (!width) {
    return "vector of " + argument.name + ": " + width.error().message;
  }
  if (*width < 1) {
    return "vector of " + argument.name + " >= 1";
  }
  const std::int64_t element = scope.find("sizeof(" + argument.type + ")").value_or(1);
  std::int64_t needed = 0;
  if (__builtin_mul_overflow(*width, element, &needed) ||
      scope.find(align_name(argument)).value_or(1) % needed != 0) {
    return align_name(argument) + " % " + std::to_string(needed) + " == 0";
  }
  return {};
}

}  // namespace

Result<LaunchScope> LaunchScope::make(const KernelTable& table, const Types& types,
                                      const Config& config, const Shape& shape,
                                      const Alignments& alignments, const Target& target,
                                      const DeviceFacts& device) {
  TRY(check_types(table, types));
  TRY(check_shape(table, shape));
  TRY(check_alignments(table, types, alignments));

  LaunchScope scope;
  auto& values = scope.m_values;
  values.insert(shape.begin(), shape.end());
  for (const auto& [name, value] : config) {
    if (const auto number = to_integer(value)) {
      values[name] = *number;
    }
  }
  for (const DType& dtype : dtype_table()) {
    values["sizeof(" + std::string(dtype.name) + ")"] = dtype.bytes;
  }
  for (const auto& [name, dtype] : types) {
    values["sizeof(" + name + ")"] = find_dtype(dtype)->bytes;
  }
  for (const Argument& argument : table.arguments) {
    if (argument.kind == ArgumentKind::workspace) {
      values[align_name(argument)] = k_workspace_alignment;
    } else if (is_pointer(argument.kind)) {
      const DType* dtype = argument_dtype(argument, types);
      const std::int64_t element = dtype == nullptr ? 1 : dtype->bytes;
      const auto promised = alignments.find(argument.name);
      values[align_name(argument)] = promised == alignments.end() ? element : promised->second;
    }
  }
  const TargetLimits& limits = target.limits();
  values["target.smem_optin"] = device.smem_optin > 0 ? device.smem_optin : limits.smem_optin;
  values["target.max_threads"] = limits.max_threads;
  values["target.max_threads_per_sm"] = limits.max_threads_per_sm;
  values["target.regs"] = limits.regs;
  values["target.cc"] = target.cc();
  values["target.specific"] = target.suffix() == TargetSuffix::architecture ? 1 : 0;
  if (device.sm_count > 0) {
    values["device.sm_count"] = device.sm_count;
  }
  for (const auto& [name, located] : table.lets) {
    auto value = scope.evaluate(located.expression);
    if (!value) {
      return fail(value.error().with_context("kernel " + table.name + ": let " + name));
    }
    values[name] = *value;
  }
  return scope;
}

Result<std::int64_t> LaunchScope::evaluate(const Expression& expression) const {
  const std::vector<std::string>& names = expression.variables();
  std::vector<std::int64_t> values;
  values.reserve(names.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto found = m_values.find(names[i]);
    if (found == m_values.end()) {
      const bool device = names[i] == "device.sm_count";
      return fail(ErrorCode::expression,
                  device ? "\"" + expression.text() +
                               "\" needs the number of SMs of the device, which is not known here"
                         : "unknown name \"" + names[i] + "\" at column " +
                               std::to_string(expression.variable_column(i)));
    }
    values.push_back(found->second);
  }
  return expression.evaluate(values);
}

std::optional<std::int64_t> LaunchScope::find(std::string_view name) const {
  const auto found = m_values.find(name);
  return found == m_values.end() ? std::nullopt : std::optional(found->second);
}

RuleCheck check_rules(const KernelTable& table, const LaunchScope& scope) {
  for (const LocatedExpression& rule : table.rules) {
    const auto value = scope.evaluate(rule.expression);
    if (!value || *value == 0) {
      return {false, rule.expression.text()};
    }
  }
  for (const Argument& argument : table.arguments) {
    if (argument.vector) {
      if (std::string broken = broken_vector(argument, scope); !broken.empty()) {
        return {false, std::move(broken)};
      }
    }
  }
  return {true, {}};
}

}  // namespace cubinary::core
