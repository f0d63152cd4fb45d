// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>

#include "core/launch/launch.hpp"
#include "core/launch/names.hpp"
#include "core/launch/scalar.hpp"
#include "core/model/dtype.hpp"

namespace cubinary::core {
namespace {

using Dimensions = std::array<std::uint32_t, 3>;
using Limits = std::array<std::int64_t, 3>;

constexpr Limits k_max_grid = {2147483647, 65535, 65535};
constexpr Limits k_max_block = {1024, 1024, 64};
constexpr Limits k_max_cluster = {16, 16, 16};
constexpr std::int64_t k_max_cluster_blocks = 16;  // what any device can be asked to allow
constexpr Capability k_first_with_clusters = {9, 0};
constexpr std::uint64_t k_workspace_alignment = 256;
constexpr std::uint64_t k_max_buffer_bytes = std::numeric_limits<std::int64_t>::max();
constexpr std::array k_dimension_names = {"x", "y", "z"};

/// Lays out one entry's launches for one shape.
class Planner {
 public:
  Planner(const TableEntry& entry, const LaunchScope& scope)
      : m_table(scope.table()),
        m_entry(entry),
        m_target(scope.target()),
        m_smem_limit(scope.device().smem_optin > 0 ? scope.device().smem_optin
                                                   : scope.target().limits().smem_optin),
        m_scope(scope) {}

  Result<LaunchPlan> run() {
    TRY(arguments());
    for (std::size_t i = 0; i < m_table.steps.size(); ++i) {
      auto planned = step(i);
      if (!planned) {
        return fail(m_table.steps.size() == 1
                        ? std::move(planned).error()
                        : planned.error().with_context("step " + m_table.steps[i].name));
      }
      m_plan.steps.push_back(std::move(*planned));
    }
    return std::move(m_plan);
  }

 private:
  [[nodiscard]] Result<std::int64_t> evaluate(const LocatedExpression& located,
                                              std::string_view what) const {
    auto value = m_scope.evaluate(located.expression);
    if (!value) {
      return fail(value.error().with_context(what));
    }
    return value;
  }

  Result<void> arguments() {
    m_plan.arguments = caller_arguments(m_table, m_entry.types);
    m_sources.resize(m_table.arguments.size());
    std::size_t next_caller = 0;
    for (std::size_t i = 0; i < m_table.arguments.size(); ++i) {
      const Argument& argument = m_table.arguments[i];
      ParameterSource& source = m_sources[i];
      if (argument.kind == ArgumentKind::workspace) {
        TRY(workspace(argument, source));
      } else if (argument.is) {
        TRY(computed(argument, source));
      } else {
        CallerArgument& caller = m_plan.arguments[next_caller];
        source.index = next_caller++;
        source.size = caller.size;
        source.from = is_pointer(argument.kind) ? ParameterSource::From::caller_pointer
                                                : ParameterSource::From::caller_value;
        if (is_pointer(argument.kind)) {
          TRY_ASSIGN(caller.buffer_bytes, buffer_bytes(argument));
          caller.alignment = m_scope.find("align(" + argument.name + ")").value_or(1);
        }
      }
    }
    return {};
  }

  [[nodiscard]] Result<std::uint64_t> buffer_bytes(const Argument& argument) const {
    if (!argument.length) {
      return std::uint64_t{0};
    }
    TRY_ASSIGN(const std::int64_t length, evaluate(*argument.length, "len of " + argument.name));
    if (length < 0) {
      return fail(ErrorCode::expression,
                  "len of " + argument.name + " is " + std::to_string(length) + ": \"" +
                      argument.length->expression.text() + "\" must not be negative");
    }
    const DType* dtype = argument_dtype(argument, m_entry.types);
    std::uint64_t bytes = 0;
    if (dtype == nullptr ||
        __builtin_mul_overflow(static_cast<std::uint64_t>(length),
                               static_cast<std::uint64_t>(dtype->bytes), &bytes) ||
        bytes > k_max_buffer_bytes) {
      return fail(ErrorCode::too_large, "argument " + argument.name + ": " +
                                            std::to_string(length) +
                                            " elements are more bytes than can be counted");
    }
    return bytes;
  }

  Result<void> workspace(const Argument& argument, ParameterSource& source) {
    TRY_ASSIGN(const std::uint64_t bytes, buffer_bytes(argument));
    // The end of the last part is below 2^63 and a multiple of 256: no sum here can wrap.
    const std::uint64_t end = m_plan.workspace_bytes + bytes + k_workspace_alignment - 1;
    if (end > k_max_buffer_bytes) {
      return fail(ErrorCode::too_large, "the workspace is more bytes than can be counted");
    }
    source.from = ParameterSource::From::workspace;
    source.offset = m_plan.workspace_bytes;
    if (argument.zeroed && bytes > 0) {
      m_plan.zeroed.emplace_back(source.offset, bytes);
    }
    m_plan.workspace_bytes = end / k_workspace_alignment * k_workspace_alignment;
    return {};
  }

  Result<void> computed(const Argument& argument, ParameterSource& source) const {
    TRY_ASSIGN(const std::int64_t value, evaluate(*argument.is, "argument " + argument.name));
    const DType* dtype = argument_dtype(argument, m_entry.types);
    if (dtype == nullptr) {
      return fail(ErrorCode::internal, "argument " + argument.name + " has no dtype");
    }
    auto encoded = encode_scalar(*dtype, value);
    if (!encoded) {
      return fail(encoded.error().with_context("argument " + argument.name + " = " +
                                               argument.is->expression.text()));
    }
    source.from = ParameterSource::From::constant;
    source.size = static_cast<std::size_t>(dtype->bytes);
    source.value = *encoded;
    return {};
  }

  [[nodiscard]] tl::unexpected<Error> beyond(std::string message) const {
    return fail(ErrorCode::unsupported,
                "config " + to_display(m_entry.config) + ": " + std::move(message));
  }

  // Evaluates up to three dimensions; missing ones are 1. Values are at least `least`.
  [[nodiscard]] Result<Dimensions> dimensions(const std::vector<LocatedExpression>& expressions,
                                              std::string_view what, std::int64_t least,
                                              const Limits& most) const {
    Dimensions result{1, 1, 1};
    for (std::size_t i = 0; i < expressions.size() && i < result.size(); ++i) {
      const std::string name = std::string(what) + "." + k_dimension_names[i];
      TRY_ASSIGN(const std::int64_t value, evaluate(expressions[i], name));
      if (value < least || value > most[i]) {
        return beyond(name + " = " + expressions[i].expression.text() + " = " +
                      std::to_string(value) + " is not between " + std::to_string(least) + " and " +
                      std::to_string(most[i]));
      }
      result[i] = static_cast<std::uint32_t>(value);
    }
    return result;
  }

  Result<StepPlan> step(std::size_t index) const {
    const LaunchSpec& launch = m_table.steps[index].launch;
    StepPlan plan;
    plan.step = index;
    plan.cooperative = launch.cooperative;
    for (const std::size_t argument : m_table.steps[index].arguments) {
      plan.parameters.push_back(m_sources.at(argument));
    }
    TRY_ASSIGN(plan.grid, dimensions(launch.grid, "grid", 0, k_max_grid));
    plan.empty = std::ranges::count(plan.grid, 0U) > 0;
    if (plan.empty) {
      return plan;
    }
    TRY_ASSIGN(plan.block, dimensions(launch.block, "block", 1, k_max_block));
    TRY(check_threads(plan.block, m_entry.symbols[index]));
    TRY_ASSIGN(plan.dynamic_smem, dynamic_smem(launch, m_entry.symbols[index]));
    if (!launch.cluster.empty()) {
      TRY_ASSIGN(const Dimensions cluster, dimensions(launch.cluster, "cluster", 1, k_max_cluster));
      if (cluster != Dimensions{1, 1, 1}) {  // which is any block, on any silicon
        plan.cluster = cluster;
        TRY(check_cluster(plan));
      }
    }
    return plan;
  }

  [[nodiscard]] Result<void> check_threads(const Dimensions& block,
                                           const EntrySymbol& symbol) const {
    const std::int64_t threads = std::int64_t{block[0]} * block[1] * block[2];
    const std::int64_t most = std::min(symbol.max_threads, m_target.limits().max_threads);
    if (threads > most) {
      return beyond("a block of " + std::to_string(threads) + " threads is more than the " +
                    std::to_string(most) + " that " + symbol.symbol + " can have");
    }
    return {};
  }

  [[nodiscard]] Result<std::uint32_t> dynamic_smem(const LaunchSpec& launch,
                                                   const EntrySymbol& symbol) const {
    std::int64_t bytes = 0;
    if (launch.smem) {
      TRY_ASSIGN(bytes, evaluate(*launch.smem, "smem"));
    }
    if (bytes < 0 || bytes > m_smem_limit - symbol.static_smem) {
      return beyond("a block needs " + std::to_string(bytes) + " bytes of dynamic and " +
                    std::to_string(symbol.static_smem) + " of static shared memory; it can have " +
                    std::to_string(m_smem_limit) + " on " + m_target.text());
    }
    return static_cast<std::uint32_t>(bytes);
  }

  [[nodiscard]] Result<void> check_cluster(const StepPlan& plan) const {
    if (m_target.capability() < k_first_with_clusters) {
      return beyond("clusters need sm_90 or later, not " + m_target.text());
    }
    std::int64_t blocks = 1;
    for (std::size_t i = 0; i < plan.cluster.size(); ++i) {
      blocks *= plan.cluster[i];
      if (plan.grid[i] % plan.cluster[i] != 0) {
        return beyond("the grid's " + std::string(k_dimension_names[i]) + " of " +
                      std::to_string(plan.grid[i]) + " blocks cannot be divided into clusters of " +
                      std::to_string(plan.cluster[i]));
      }
    }
    if (blocks > k_max_cluster_blocks) {
      return beyond("a cluster of " + std::to_string(blocks) + " blocks is more than " +
                    std::to_string(k_max_cluster_blocks));
    }
    return {};
  }

  const KernelTable& m_table;
  const TableEntry& m_entry;
  const Target& m_target;
  std::int64_t m_smem_limit;
  const LaunchScope& m_scope;
  std::vector<ParameterSource> m_sources;  // one an argument of the table
  LaunchPlan m_plan;
};

}  // namespace

Result<LaunchPlan> plan_launch(const KernelTable& table, const TableEntry& entry,
                               const Shape& shape, const Alignments& alignments,
                               const Target& target, const DeviceFacts& device) {
  TRY_ASSIGN(const LaunchScope scope, LaunchScope::make(table, entry.types, entry.config, shape,
                                                        alignments, target, device));
  if (const RuleCheck rules = check_rules(scope); !rules.ok) {
    return fail(broken_rule(entry, scope, rules));
  }
  return plan_launch(entry, scope);
}

Result<LaunchPlan> plan_launch(const TableEntry& entry, const LaunchScope& scope) {
  const KernelTable& table = scope.table();
  if (entry.symbols.size() != table.steps.size()) {
    return fail(ErrorCode::corrupt,
                "kernel " + table.name + ": an entry does not name one function a step");
  }
  auto plan = Planner(entry, scope).run();
  if (!plan) {
    return fail(plan.error().with_context("kernel " + table.name));
  }
  return plan;
}

Error broken_rule(const TableEntry& entry, const LaunchScope& scope, const RuleCheck& rules) {
  return {ErrorCode::no_match, "kernel " + scope.table().name + ": config " +
                                   to_display(entry.config) + " does not serve " +
                                   to_display(scope.shape()) + ": the rule \"" + rules.broken +
                                   "\" does not hold"};
}

std::vector<CallerArgument> caller_arguments(const KernelTable& table, const Types& types) {
  std::vector<CallerArgument> result;
  for (const Argument& argument : table.arguments) {
    if (argument.is || argument.kind == ArgumentKind::workspace) {
      continue;
    }
    CallerArgument caller;
    caller.name = argument.name;
    caller.kind = argument.kind;
    caller.nullable = argument.nullable;
    const DType* dtype = argument_dtype(argument, types);
    if (dtype != nullptr) {
      caller.dtype = dtype->name;
      caller.alignment = is_pointer(argument.kind) ? dtype->bytes : 1;
    }
    if (argument.kind == ArgumentKind::scalar && dtype != nullptr) {
      caller.size = static_cast<std::size_t>(dtype->bytes);
      if (argument.default_value) {
        if (const auto encoded = encode_scalar(*dtype, *argument.default_value)) {
          caller.default_value = *encoded;
        }
      }
    } else if (argument.kind == ArgumentKind::bytes) {
      caller.size = static_cast<std::size_t>(argument.byte_size);
    }
    result.push_back(std::move(caller));
  }
  return result;
}

}  // namespace cubinary::core
