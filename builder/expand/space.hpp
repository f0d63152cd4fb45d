// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "builder/expand/count.hpp"
#include "core/manifest/manifest.hpp"
#include "core/model/target.hpp"

namespace cubinary::builder {

/// A manifest's search space on one target, ordered for early pruning: variables that change code
/// come first, and among them those that let a rule be tested soonest.
class Space {
 public:
  enum class Kind : std::uint8_t { type, axis, tunable };
  struct Variable {
    Kind kind = Kind::tunable;
    std::size_t index = 0;  ///< into the manifest's list of its kind
    std::size_t size = 0;   ///< values it may take
    bool changes_code = true;
    int slot = -1;                      ///< where rules read it; -1: no rule can
    std::vector<std::int64_t> numbers;  ///< what rules see, a value each
  };
  struct Rule {
    std::size_t index = 0;            ///< into the manifest's rules
    std::vector<std::size_t> lets;    ///< to compute first, in order
    std::vector<std::size_t> code;    ///< depths of its code-changing variables
    std::vector<std::size_t> launch;  ///< depths of its other variables
  };

  Space(const core::Manifest& manifest, const core::Target& target);

  [[nodiscard]] const std::vector<Variable>& variables() const { return m_variables; }
  /// How many of the variables change code; they come first.
  [[nodiscard]] std::size_t code_depth() const { return m_code_depth; }
  /// Whether rule `index` of the manifest can be judged without shape, alignment and device.
  [[nodiscard]] bool judged_here(std::size_t index) const { return m_judged[index]; }

  /// Calls `visit` with every choice of the code-changing variables that some choice of the others
  /// completes, until it returns false; `choice[d]` is the value index of variables()[d].
  void for_each_candidate(
      const std::function<bool(const std::vector<std::size_t>& choice)>& visit) const;

  struct Totals {
    Count raw;
    Count configs;
    Count candidates;
    std::vector<Count> killed;             ///< a rule of the manifest each
    std::vector<std::vector<bool>> alive;  ///< by depth and value
  };
  [[nodiscard]] Totals count() const;

  struct Code {
    core::Expression expression;
    std::vector<int> slots;  ///< a variable of the expression each
  };
  /// An expression of the manifest that no rule is.
  struct Formula {
    Code code;
    std::vector<std::size_t> lets;  ///< to compute first, in order
    bool judged_here = true;        ///< without shape, alignment and device
  };
  [[nodiscard]] Formula formula(const core::Expression& expression) const;

  using Evaluate = std::function<core::Result<std::int64_t>(const Formula&)>;
  /// Calls `visit` once with the code-changing variables at a choice: for formulas of these alone.
  void at(std::span<const std::size_t> code_choice,
          const std::function<void(const Evaluate& evaluate)>& visit) const;
  /// Calls `visit` with every choice of the other variables that completes a choice of the
  /// code-changing ones, until it returns false. `evaluate` is for formulas judged here.
  void for_each_launch(std::span<const std::size_t> code_choice,
                       const std::function<bool(const std::vector<std::size_t>& choice,
                                                const Evaluate& evaluate)>& visit) const;

 private:
  class Walk;
  struct Dependencies {
    std::vector<bool> variables;
    std::vector<bool> lets;
    bool judged_here = true;
  };

  void add_variables(const core::Manifest& manifest);
  void add_constants(const core::Target& target);
  Dependencies add_code(const core::Expression& expression, Code& code) const;
  /// The lets that `needs` names, in order.
  static std::vector<std::size_t> lets_of(const Dependencies& needs);
  void add_rules(const core::Manifest& manifest);
  void order();
  void schedule();

  std::vector<Variable> m_variables;
  std::size_t m_code_depth = 0;
  std::map<std::string, int, std::less<>> m_slot_of;
  std::vector<std::int64_t> m_slots;  ///< constants are set
  std::vector<Code> m_lets;
  std::vector<int> m_let_slots;
  std::vector<Dependencies> m_let_needs;
  std::vector<Code> m_rule_code;  ///< by Rule::index
  std::vector<Rule> m_rules;      ///< those judged here
  std::vector<bool> m_judged;
  // By depth d: what to test once the variables before d are bound.
  std::vector<std::vector<std::size_t>> m_check_code;  ///< rules whose code-changing ones are bound
  std::vector<std::vector<std::size_t>> m_check_launch;  ///< rules with other variables, all bound
  std::vector<bool> m_open;                              ///< whether any rule is tested after d
  std::vector<Count> m_below;  ///< combinations of the variables from d on
};

}  // namespace cubinary::builder
