// SPDX-License-Identifier: Apache-2.0
#include "builder/expand/space.hpp"

#include <algorithm>
#include <numeric>

#include "core/model/dtype.hpp"

namespace cubinary::builder {

using core::Manifest;

namespace {

std::int64_t dtype_bytes(std::string_view name) {
  const core::DType* dtype = core::find_dtype(name);
  return dtype == nullptr ? 0 : dtype->bytes;
}

}  // namespace

Space::Space(const Manifest& manifest, const core::Target& target) {
  add_variables(manifest);
  add_constants(target);
  add_rules(manifest);
  order();
  schedule();
}

void Space::add_variables(const Manifest& manifest) {
  const auto add = [&](Variable variable, const std::string& name) {
    if (!variable.numbers.empty()) {
      variable.slot = static_cast<int>(m_slots.size());
      m_slot_of[name] = variable.slot;
      m_slots.push_back(0);
    }
    m_variables.push_back(std::move(variable));
  };
  for (std::size_t i = 0; i < manifest.types.size(); ++i) {
    const core::TypeParameter& type = manifest.types[i];
    Variable variable{Kind::type, i, type.values.size(), true, -1, {}};
    for (const std::string& value : type.values) {
      variable.numbers.push_back(dtype_bytes(value));
    }
    add(std::move(variable), "sizeof(" + type.name + ")");
  }
  for (std::size_t i = 0; i < manifest.axes.size(); ++i) {
    const core::Axis& axis = manifest.axes[i];
    if (axis.compile) {
      add({Kind::axis, i, axis.tune.size(), true, -1, axis.tune}, axis.name);
    }
  }
  for (std::size_t i = 0; i < manifest.tunables.size(); ++i) {
    const core::Tunable& tunable = manifest.tunables[i];
    Variable variable{
        Kind::tunable, i, tunable.values.size(), core::changes_code(tunable.use), -1, {}};
    for (const core::TunableValue& value : tunable.values) {
      if (const auto number = core::to_integer(value)) {
        variable.numbers.push_back(*number);
      }
    }
    add(std::move(variable), tunable.name);
  }
}

void Space::add_constants(const core::Target& target) {
  const auto add = [&](std::string name, std::int64_t value) {
    m_slot_of[std::move(name)] = static_cast<int>(m_slots.size());
    m_slots.push_back(value);
  };
  const core::TargetLimits& limits = target.limits();
  add("target.smem_optin", limits.smem_optin);
  add("target.max_threads", limits.max_threads);
  add("target.max_threads_per_sm", limits.max_threads_per_sm);
  add("target.regs", limits.regs);
  add("target.cc", target.cc());
  add("target.specific", target.suffix() == core::TargetSuffix::architecture ? 1 : 0);
  for (const core::DType& dtype : core::dtype_table()) {
    add("sizeof(" + std::string(dtype.name) + ")", dtype.bytes);
  }
}

Space::Dependencies Space::add_code(const core::Expression& expression, Code& code) const {
  const std::vector<Dependencies>& lets = m_let_needs;
  Dependencies needs{std::vector<bool>(m_variables.size()), std::vector<bool>(m_lets.size()), true};
  for (const std::string& name : expression.variables()) {
    const auto slot = m_slot_of.find(name);
    if (slot == m_slot_of.end()) {  // a run-time axis, an alignment or the device
      needs.judged_here = false;
      code.slots.push_back(0);
      continue;
    }
    code.slots.push_back(slot->second);
    for (std::size_t v = 0; v < m_variables.size(); ++v) {
      needs.variables[v] = needs.variables[v] || m_variables[v].slot == slot->second;
    }
    for (std::size_t l = 0; l < lets.size(); ++l) {
      if (m_let_slots[l] != slot->second) {
        continue;
      }
      needs.lets[l] = true;
      needs.judged_here = needs.judged_here && lets[l].judged_here;
      for (std::size_t v = 0; v < m_variables.size(); ++v) {
        needs.variables[v] = needs.variables[v] || lets[l].variables[v];
      }
      for (std::size_t inner = 0; inner < l; ++inner) {
        needs.lets[inner] = needs.lets[inner] || lets[l].lets[inner];
      }
    }
  }
  return needs;
}

std::vector<std::size_t> Space::lets_of(const Dependencies& needs) {
  std::vector<std::size_t> lets;
  for (std::size_t l = 0; l < needs.lets.size(); ++l) {
    if (needs.lets[l]) {
      lets.push_back(l);
    }
  }
  return lets;
}

Space::Formula Space::formula(const core::Expression& expression) const {
  Formula formula{{expression, {}}, {}, true};
  const Dependencies needs = add_code(expression, formula.code);
  formula.lets = lets_of(needs);
  formula.judged_here = needs.judged_here;
  return formula;
}

void Space::add_rules(const Manifest& manifest) {
  for (const auto& [name, located] : manifest.lets) {
    m_lets.push_back({located.expression, {}});
    Dependencies needs = add_code(located.expression, m_lets.back());
    m_let_slots.push_back(static_cast<int>(m_slots.size()));
    m_slot_of[name] = m_let_slots.back();
    m_slots.push_back(0);
    m_let_needs.push_back(std::move(needs));
  }
  for (std::size_t i = 0; i < manifest.rules.size(); ++i) {
    m_rule_code.push_back({manifest.rules[i].expression, {}});
    const Dependencies needs = add_code(manifest.rules[i].expression, m_rule_code.back());
    m_judged.push_back(needs.judged_here);
    if (!needs.judged_here) {
      continue;
    }
    Rule rule;
    rule.index = i;
    rule.lets = lets_of(needs);
    for (std::size_t v = 0; v < m_variables.size(); ++v) {
      if (needs.variables[v]) {
        (m_variables[v].changes_code ? rule.code : rule.launch).push_back(v);
      }
    }
    m_rules.push_back(std::move(rule));
  }
}

void Space::order() {
  std::vector<std::size_t> sequence;
  std::vector<bool> bound(m_variables.size());
  const auto bind = [&](std::vector<std::size_t> group) {
    std::stable_sort(group.begin(), group.end(), [&](std::size_t a, std::size_t b) {
      return m_variables[a].size < m_variables[b].size;
    });
    for (const std::size_t v : group) {
      bound[v] = true;
      sequence.push_back(v);
    }
  };
  for (const bool code : {true, false}) {
    for (;;) {
      // The rule that is cheapest to reach: fewest combinations of what it still needs.
      std::vector<std::size_t> best;
      double best_cost = 0;
      for (const Rule& rule : m_rules) {
        std::vector<std::size_t> open;
        double cost = 1;
        for (const std::size_t v : code ? rule.code : rule.launch) {
          if (!bound[v]) {
            open.push_back(v);
            cost *= static_cast<double>(m_variables[v].size);
          }
        }
        if (!open.empty() && (best.empty() || cost < best_cost)) {
          best = std::move(open);
          best_cost = cost;
        }
      }
      if (best.empty()) {
        break;
      }
      bind(std::move(best));
    }
    std::vector<std::size_t> rest;
    for (std::size_t v = 0; v < m_variables.size(); ++v) {
      if (!bound[v] && m_variables[v].changes_code == code) {
        rest.push_back(v);
      }
    }
    bind(std::move(rest));
    if (code) {
      m_code_depth = sequence.size();
    }
  }
  std::vector<std::size_t> depth_of(m_variables.size());
  std::vector<Variable> ordered;
  for (std::size_t d = 0; d < sequence.size(); ++d) {
    depth_of[sequence[d]] = d;
    ordered.push_back(std::move(m_variables[sequence[d]]));
  }
  m_variables = std::move(ordered);
  for (Rule& rule : m_rules) {
    for (std::vector<std::size_t>* list : {&rule.code, &rule.launch}) {
      std::transform(list->begin(), list->end(), list->begin(),
                     [&](std::size_t v) { return depth_of[v]; });
      std::sort(list->begin(), list->end());
    }
  }
}

void Space::schedule() {
  const std::size_t depths = m_variables.size() + 1;
  m_check_code.resize(depths);
  m_check_launch.resize(depths);
  for (std::size_t r = 0; r < m_rules.size(); ++r) {
    const Rule& rule = m_rules[r];
    m_check_code[rule.code.empty() ? 0 : rule.code.back() + 1].push_back(r);
    if (!rule.launch.empty()) {
      m_check_launch[rule.launch.back() + 1].push_back(r);
    }
  }
  m_open.assign(depths, false);
  m_below.assign(depths, Count(1));
  for (std::size_t d = depths - 1; d-- > 0;) {
    m_open[d] = m_open[d + 1] || !m_check_code[d + 1].empty() || !m_check_launch[d + 1].empty();
    m_below[d] = m_below[d + 1] * Count(m_variables[d].size);
  }
}

/// One traversal: owns the values, so that a Space may be walked by several threads.
class Space::Walk {
 public:
  explicit Walk(const Space& space)
      : m_space(space), m_slots(space.m_slots), m_choice(space.m_variables.size()) {}

  void candidates(std::size_t depth,
                  const std::function<bool(const std::vector<std::size_t>&)>& visit) {
    if (depth == 0 && broken_rule(0)) {
      return;
    }
    if (depth == m_space.m_code_depth) {
      if (completes(depth)) {
        m_stopped = !visit(m_choice);
      }
      return;
    }
    for (std::size_t v = 0; v < m_space.m_variables[depth].size && !m_stopped; ++v) {
      bind(depth, v);
      if (!broken_rule(depth + 1)) {
        candidates(depth + 1, visit);
      }
    }
  }

  void bind_code(std::span<const std::size_t> code_choice) {
    for (std::size_t d = 0; d < code_choice.size(); ++d) {
      bind(d, code_choice[d]);
    }
  }

  core::Result<std::int64_t> evaluate(const Formula& formula) {
    TRY(compute(formula.lets));
    return evaluate(formula.code);
  }

  /// Every valid choice of the variables from `depth` on.
  void launches(std::size_t depth,
                const std::function<bool(const std::vector<std::size_t>&)>& visit) {
    if (depth == m_space.m_variables.size()) {
      m_stopped = !visit(m_choice);
      return;
    }
    for (std::size_t v = 0; v < m_space.m_variables[depth].size && !m_stopped; ++v) {
      bind(depth, v);
      if (!broken_rule(depth + 1)) {
        launches(depth + 1, visit);
      }
    }
  }

  struct Sum {
    Count configs;
    Count candidates;
  };
  Sum count(std::size_t depth, Totals& totals) {
    if (depth == 0) {
      if (const Rule* rule = broken_rule(0)) {
        totals.killed[rule->index] += m_space.m_below[0];
        return {};
      }
    }
    if (!m_space.m_open[depth]) {
      return all_valid(depth, totals);
    }
    Sum sum;
    for (std::size_t v = 0; v < m_space.m_variables[depth].size; ++v) {
      bind(depth, v);
      if (const Rule* rule = broken_rule(depth + 1)) {
        totals.killed[rule->index] += m_space.m_below[depth + 1];
        continue;
      }
      const Sum inner = count(depth + 1, totals);
      if (!inner.configs.is_zero()) {
        totals.alive[depth][v] = true;
      }
      sum.configs += inner.configs;
      sum.candidates += inner.candidates;
    }
    if (depth >= m_space.m_code_depth) {
      sum.candidates = sum.configs.is_zero() ? 0 : 1;
    }
    return sum;
  }

 private:
  void bind(std::size_t depth, std::size_t value) {
    const Variable& variable = m_space.m_variables[depth];
    m_choice[depth] = value;
    if (variable.slot >= 0) {
      m_slots[static_cast<std::size_t>(variable.slot)] = variable.numbers[value];
    }
  }

  Sum all_valid(std::size_t depth, Totals& totals) {
    Sum sum{m_space.m_below[depth], 1};
    for (std::size_t d = depth; d < m_space.m_code_depth; ++d) {
      sum.candidates *= Count(m_space.m_variables[d].size);
    }
    if (depth < m_alive_from) {
      m_alive_from = depth;
      for (std::size_t d = depth; d < totals.alive.size(); ++d) {
        totals.alive[d].assign(totals.alive[d].size(), true);
      }
    }
    return sum;
  }

  /// The first rule that what is bound before `depth` breaks, or null.
  const Rule* broken_rule(std::size_t depth) {
    for (const std::size_t r : m_space.m_check_code[depth]) {
      if (!can_hold(m_space.m_rules[r])) {
        return &m_space.m_rules[r];
      }
    }
    for (const std::size_t r : m_space.m_check_launch[depth]) {
      if (!holds(m_space.m_rules[r])) {
        return &m_space.m_rules[r];
      }
    }
    return nullptr;
  }

  bool completes(std::size_t depth) {
    if (!m_space.m_open[depth]) {
      return true;
    }
    for (std::size_t v = 0; v < m_space.m_variables[depth].size; ++v) {
      bind(depth, v);
      if (!broken_rule(depth + 1) && completes(depth + 1)) {
        return true;
      }
    }
    return false;
  }

  /// Whether some choice of the rule's other variables satisfies it, or there are too many to try.
  bool can_hold(const Rule& rule) {
    constexpr std::size_t k_most = 4096;
    std::size_t combinations = 1;
    for (const std::size_t d : rule.launch) {
      combinations *= m_space.m_variables[d].size;
      if (combinations > k_most) {
        return true;
      }
    }
    for (std::size_t n = 0; n < combinations; ++n) {
      std::size_t rest = n;
      for (const std::size_t d : rule.launch) {
        bind(d, rest % m_space.m_variables[d].size);
        rest /= m_space.m_variables[d].size;
      }
      if (holds(rule)) {
        return true;
      }
    }
    return false;
  }

  bool holds(const Rule& rule) {
    if (!compute(rule.lets)) {
      return false;
    }
    const auto value = evaluate(m_space.m_rule_code[rule.index]);
    return value && *value != 0;
  }

  core::Result<void> compute(const std::vector<std::size_t>& lets) {
    for (const std::size_t l : lets) {
      TRY_ASSIGN(const std::int64_t value, evaluate(m_space.m_lets[l]));
      m_slots[static_cast<std::size_t>(m_space.m_let_slots[l])] = value;
    }
    return {};
  }

  core::Result<std::int64_t> evaluate(const Code& code) {
    m_values.clear();
    for (const int slot : code.slots) {
      m_values.push_back(m_slots[static_cast<std::size_t>(slot)]);
    }
    return code.expression.evaluate(m_values);
  }

  const Space& m_space;
  std::vector<std::int64_t> m_slots;
  std::vector<std::int64_t> m_values;
  std::vector<std::size_t> m_choice;
  std::size_t m_alive_from = SIZE_MAX;
  bool m_stopped = false;
};

void Space::for_each_candidate(
    const std::function<bool(const std::vector<std::size_t>&)>& visit) const {
  Walk(*this).candidates(0, visit);
}

void Space::at(std::span<const std::size_t> code_choice,
               const std::function<void(const Evaluate&)>& visit) const {
  Walk walk(*this);
  walk.bind_code(code_choice);
  visit([&walk](const Formula& formula) { return walk.evaluate(formula); });
}

void Space::for_each_launch(
    std::span<const std::size_t> code_choice,
    const std::function<bool(const std::vector<std::size_t>&, const Evaluate&)>& visit) const {
  Walk walk(*this);
  walk.bind_code(code_choice);
  const Evaluate evaluate = [&walk](const Formula& formula) { return walk.evaluate(formula); };
  walk.launches(m_code_depth,
                [&](const std::vector<std::size_t>& choice) { return visit(choice, evaluate); });
}

Space::Totals Space::count() const {
  Totals totals;
  totals.raw = m_below[0];
  totals.killed.resize(m_judged.size());
  for (const Variable& variable : m_variables) {
    totals.alive.emplace_back(variable.size);
  }
  const Walk::Sum sum = Walk(*this).count(0, totals);
  totals.configs = sum.configs;
  totals.candidates = sum.candidates;
  return totals;
}

}  // namespace cubinary::builder
