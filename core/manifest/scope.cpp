// SPDX-License-Identifier: Apache-2.0
#include "core/manifest/scope.hpp"

#include <algorithm>
#include <vector>

#include "core/base/nearest.hpp"
#include "core/model/dtype.hpp"

namespace cubinary::core {
namespace {

const std::vector<std::string>& machine_names() {
  static const std::vector<std::string> names = {
      "target.smem_optin", "target.max_threads", "target.max_threads_per_sm",
      "target.regs",       "target.cc",          "target.specific",
      "device.sm_count"};
  return names;
}

std::string_view use_name(unsigned use) {
  switch (use) {
    case k_use_axes:
      return "axes";
    case k_use_tunables:
      return "tunables";
    case k_use_alignment:
      return "the alignment of arguments";
    case k_use_target:
      return "the target";
    default:
      return "the device";
  }
}

/// `NAME` of `query(NAME)`, or empty.
std::string_view queried(std::string_view variable, std::string_view query) {
  if (!variable.starts_with(query) || !variable.ends_with(')')) {
    return {};
  }
  return variable.substr(query.size(), variable.size() - query.size() - 1);
}

bool is_caller_pointer(const Argument& argument) {
  return argument.kind == ArgumentKind::in || argument.kind == ArgumentKind::out ||
         argument.kind == ArgumentKind::inout;
}

}  // namespace

SourceLocation ManifestScope::place(const LocatedExpression& expression, std::size_t index) const {
  return m_reader.inside(
      expression.location, expression.expression.text(),
      static_cast<std::size_t>(expression.expression.variable_column(index) - 1));
}

unsigned ManifestScope::variable_uses(std::string_view variable) const {
  if (variable.starts_with("align(")) {
    return k_use_alignment;
  }
  if (variable.starts_with("target.")) {
    return k_use_target;
  }
  if (variable.starts_with("device.")) {
    return k_use_device;
  }
  if (m_draft.manifest.find_axis(variable) != nullptr) {
    return k_use_axes;
  }
  if (m_draft.manifest.find_tunable(variable) != nullptr) {
    return k_use_tunables;
  }
  const auto let = m_let_uses.find(variable);
  return let == m_let_uses.end() ? 0 : let->second;
}

unsigned ManifestScope::uses(const Expression& expression) const {
  unsigned all = 0;
  for (const std::string& variable : expression.variables()) {
    all |= variable_uses(variable);
  }
  return all;
}

std::set<std::string> ManifestScope::names(const Expression& expression) const {
  std::set<std::string> all;
  for (const std::string& variable : expression.variables()) {
    all.insert(variable);
    if (const auto let = m_let_names.find(variable); let != m_let_names.end()) {
      all.insert(let->second.begin(), let->second.end());
    }
  }
  return all;
}

Result<void> ManifestScope::check_variable(const LocatedExpression& expression, std::size_t index,
                                           const std::string& what) {
  const Manifest& manifest = m_draft.manifest;
  const std::string& variable = expression.expression.variables()[index];
  const auto refuse = [&](const std::string& sentence) -> Result<void> {
    return m_reader.error(place(expression, index), what + ": " + sentence);
  };
  if (const std::string_view type = queried(variable, "sizeof("); !type.empty()) {
    if (!dtypes_of(manifest, type).empty()) {
      return {};
    }
    std::vector<std::string> known;
    for (const TypeParameter& parameter : manifest.types) {
      known.push_back(parameter.name);
    }
    for (const DType& dtype : dtype_table()) {
      known.emplace_back(dtype.name);
    }
    return refuse("unknown type in \"" + variable + "\"" + did_you_mean_type(type, known));
  }
  if (const std::string_view name = queried(variable, "align("); !name.empty()) {
    const Argument* argument = manifest.find_argument(name);
    if (argument != nullptr && is_caller_pointer(*argument)) {
      return {};
    }
    std::vector<std::string> known;
    for (const Argument& other : manifest.arguments) {
      if (is_caller_pointer(other)) {
        known.push_back(other.name);
      }
    }
    return refuse(argument != nullptr
                      ? "\"" + variable + "\": \"" + std::string(name) +
                            "\" is no pointer that the caller passes"
                      : "unknown argument in \"" + variable + "\"" + did_you_mean(name, known));
  }
  if (variable.find('.') != std::string::npos) {
    if (std::ranges::find(machine_names(), variable) != machine_names().end()) {
      return {};
    }
    return refuse("unknown name \"" + variable + "\"" + did_you_mean(variable, machine_names()));
  }
  if (const Tunable* tunable = manifest.find_tunable(variable);
      tunable != nullptr && std::holds_alternative<std::string>(tunable->default_value)) {
    return refuse("the values of \"" + variable + "\" are text, which expressions cannot use");
  }
  const auto kind = m_draft.kinds.find(variable);
  if (kind != m_draft.kinds.end() && kind->second != "a type") {
    m_used.insert(variable);
    return {};
  }
  if (kind != m_draft.kinds.end() || find_dtype(variable) != nullptr) {
    return refuse("\"" + variable + "\" is a type; its size is \"sizeof(" + variable + ")\"");
  }
  std::vector<std::string> known;
  for (const auto& [name, of] : m_draft.kinds) {
    if (of != "a type") {
      known.push_back(name);
    }
  }
  std::string hint = did_you_mean(variable, known);
  if (hint.empty() && manifest.find_argument(variable) != nullptr) {
    hint = "; it is an argument, of which only align(…) can be used";
  }
  return refuse("unknown name \"" + variable + "\"" + hint);
}

Result<void> ManifestScope::check(const LocatedExpression& expression, const std::string& what,
                                  unsigned allowed) {
  const std::vector<std::string>& variables = expression.expression.variables();
  for (std::size_t i = 0; i < variables.size(); ++i) {
    TRY(check_variable(expression, i, what));
    const unsigned outside = variable_uses(variables[i]) & ~allowed;
    if (outside != 0) {
      return m_reader.error(place(expression, i),
                            what + " may not depend on " +
                                std::string(use_name(outside & (~outside + 1))) + ", as \"" +
                                variables[i] + "\" does");
    }
  }
  return {};
}

Result<void> ManifestScope::order_lets() {
  auto& lets = m_draft.manifest.lets;
  for (const auto& [name, value] : lets) {
    TRY(check(value, "let \"" + name + "\"", k_use_all));
  }
  std::vector<std::pair<std::string, LocatedExpression>> ordered;
  enum class Mark { fresh, open, done };
  std::vector<Mark> marks(lets.size(), Mark::fresh);
  std::vector<std::size_t> path;

  const auto visit = [&](const auto& self, std::size_t at) -> Result<void> {
    const auto& [name, value] = lets[at];
    if (marks[at] == Mark::done) {
      return {};
    }
    if (marks[at] == Mark::open) {
      std::string cycle;
      for (auto i = std::ranges::find(path, at); i != path.end(); ++i) {
        cycle += lets[*i].first + " -> ";
      }
      return m_reader.error(m_draft.declared[name],
                            "let \"" + name + "\" depends on itself: " + cycle + name);
    }
    marks[at] = Mark::open;
    path.push_back(at);
    for (const std::string& variable : value.expression.variables()) {
      const auto found =
          std::ranges::find_if(lets, [&](const auto& let) { return let.first == variable; });
      if (found != lets.end()) {
        TRY(self(self, static_cast<std::size_t>(found - lets.begin())));
      }
    }
    path.pop_back();
    marks[at] = Mark::done;
    m_let_uses[name] = uses(value.expression);
    m_let_names[name] = names(value.expression);
    ordered.push_back(lets[at]);
    return {};
  };
  // The recursion is as deep as the longest chain.
  if (lets.size() > 1000) {
    return m_reader.error(lets.back().second.location, "more than 1000 lets");
  }
  for (std::size_t i = 0; i < lets.size(); ++i) {
    TRY(visit(visit, i));
  }
  lets = std::move(ordered);
  return {};
}

}  // namespace cubinary::core
