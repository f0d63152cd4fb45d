// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/launch/launch.hpp"
#include "core/launch/names.hpp"
#include "core/model/dtype.hpp"

namespace cubinary::core {
namespace {

// Workspace parts start at multiples of this, whatever their element type.
constexpr std::int64_t k_workspace_alignment = 256;
constexpr std::string_view k_sm_count = "device.sm_count";

std::string align_name(const Argument& argument) {
  return "align(" + argument.name + ")";
}

// What stands between `word` with its "(" and a ")" at the end; none where that is not all of it.
std::optional<std::string_view> operand(std::string_view name, std::string_view word) {
  if (!name.starts_with(word) || !name.ends_with(')')) {
    return std::nullopt;
  }
  return name.substr(word.size(), name.size() - word.size() - 1);
}

// The value under `name` in a map of a few: null where there is none.
template <typename Map>
const typename Map::mapped_type* among(const Map& map, std::string_view name) {
  const auto found =
      std::ranges::find(map, name, [](const auto& item) -> std::string_view { return item.first; });
  return found == map.end() ? nullptr : &found->second;
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
                                      const Shape& shape, const Alignments& alignments,
                                      const Target& target, const DeviceFacts& device) {
  TRY(check_types(table, types));
  TRY(check_shape(table, shape));
  TRY(check_alignments(table, types, alignments));
  return LaunchScope(table, types, shape, alignments, target, device);
}

Result<LaunchScope> LaunchScope::make(const KernelTable& table, const Types& types,
                                      const Config& config, const Shape& shape,
                                      const Alignments& alignments, const Target& target,
                                      const DeviceFacts& device) {
  TRY_ASSIGN(LaunchScope scope, make(table, types, shape, alignments, target, device));
  TRY(scope.use(config));
  return scope;
}

Result<void> LaunchScope::use(const Config& config) {
  m_config = &config;
  m_lets.clear();
  m_lets.reserve(m_table->lets.size());
  for (const auto& [name, located] : m_table->lets) {
    auto value = evaluate(located.expression);
    if (!value) {
      return fail(value.error().with_context("kernel " + m_table->name + ": let " + name));
    }
    m_lets.push_back(*value);
  }
  return {};
}

Result<std::int64_t> LaunchScope::evaluate(const Expression& expression) const {
  const std::vector<std::string>& names = expression.variables();
  std::vector<std::int64_t> values;
  values.reserve(names.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto found = find(names[i]);
    if (!found) {
      const bool device = names[i] == k_sm_count;
      return fail(ErrorCode::expression,
                  device ? "\"" + expression.text() +
                               "\" needs the number of SMs of the device, which is not known here"
                         : "unknown name \"" + names[i] + "\" at column " +
                               std::to_string(expression.variable_column(i)));
    }
    values.push_back(*found);
  }
  return expression.evaluate(values);
}

std::optional<std::int64_t> LaunchScope::find(std::string_view name) const {
  for (std::size_t i = m_lets.size(); i > 0; --i) {
    if (m_table->lets[i - 1].first == name) {
      return m_lets[i - 1];
    }
  }
  if (const TunableValue* value = m_config == nullptr ? nullptr : among(*m_config, name)) {
    if (const auto number = to_integer(*value)) {
      return *number;
    }
  }
  if (const std::int64_t* axis = among(*m_shape, name)) {
    return *axis;
  }
  if (const auto type = operand(name, "sizeof(")) {
    return size_of(*type);
  }
  if (const auto argument = operand(name, "align(")) {
    return alignment_of(*argument);
  }
  return machine(name);
}

std::optional<std::int64_t> LaunchScope::size_of(std::string_view type) const {
  const std::string* bound = among(*m_types, type);
  const DType* dtype = find_dtype(bound == nullptr ? type : *bound);
  return dtype == nullptr ? std::nullopt : std::optional(dtype->bytes);
}

std::optional<std::int64_t> LaunchScope::alignment_of(std::string_view name) const {
  const auto argument = std::ranges::find(m_table->arguments, name, &Argument::name);
  if (argument == m_table->arguments.end()) {
    return std::nullopt;
  }
  if (argument->kind == ArgumentKind::workspace) {
    return k_workspace_alignment;
  }
  if (!is_pointer(argument->kind)) {
    return std::nullopt;
  }
  if (const std::int64_t* promised = among(*m_alignments, name)) {
    return *promised;
  }
  const DType* dtype = argument_dtype(*argument, *m_types);
  return dtype == nullptr ? 1 : dtype->bytes;
}

std::optional<std::int64_t> LaunchScope::machine(std::string_view name) const {
  if (name == k_sm_count) {
    return m_device.sm_count > 0 ? std::optional(m_device.sm_count) : std::nullopt;
  }
  if (!name.starts_with("target.")) {
    return std::nullopt;
  }
  const TargetLimits& limits = m_target->limits();
  if (name == "target.smem_optin") {
    return m_device.smem_optin > 0 ? m_device.smem_optin : limits.smem_optin;
  }
  if (name == "target.max_threads") {
    return limits.max_threads;
  }
  if (name == "target.max_threads_per_sm") {
    return limits.max_threads_per_sm;
  }
  if (name == "target.regs") {
    return limits.regs;
  }
  if (name == "target.cc") {
    return m_target->cc();
  }
  if (name == "target.specific") {
    return m_target->suffix() == TargetSuffix::architecture ? 1 : 0;
  }
  return std::nullopt;
}

RuleCheck check_rules(const LaunchScope& scope) {
  const KernelTable& table = scope.table();
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
