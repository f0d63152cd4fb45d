// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>

#include "core/manifest/parse.hpp"
#include "core/manifest/reader.hpp"

/// Inside of the manifest room: which names an expression may use where it stands.
namespace cubinary::core {

/// What a value depends on; a bit each. `sizeof` may stand everywhere.
enum Use : unsigned {
  k_use_axes = 1,
  k_use_tunables = 2,
  k_use_alignment = 4,
  k_use_target = 8,
  k_use_device = 16,
  k_use_all = 31,
};

/// Resolves names, through lets, and remembers what was used.
class ManifestScope {
 public:
  /// Both must outlive the scope.
  ManifestScope(const ManifestReader& reader, ManifestDraft& draft)
      : m_reader(reader), m_draft(draft) {}

  /// Checks all lets and puts them into dependency order; before any `check`.
  [[nodiscard]] Result<void> order_lets();
  /// Every name is known and depends on nothing outside `allowed`; `what` names the expression.
  [[nodiscard]] Result<void> check(const LocatedExpression& expression, const std::string& what,
                                   unsigned allowed);
  /// What the expression depends on, through lets; its names are known.
  [[nodiscard]] unsigned uses(const Expression& expression) const;
  /// The axes, tunables and lets the expression names, through lets.
  [[nodiscard]] std::set<std::string> names(const Expression& expression) const;

  /// Axes, tunables and lets that some checked expression names.
  [[nodiscard]] const std::set<std::string>& used() const { return m_used; }

 private:
  [[nodiscard]] Result<void> check_variable(const LocatedExpression& expression, std::size_t index,
                                            const std::string& what);
  [[nodiscard]] unsigned variable_uses(std::string_view variable) const;
  [[nodiscard]] SourceLocation place(const LocatedExpression& expression, std::size_t index) const;

  const ManifestReader& m_reader;
  ManifestDraft& m_draft;
  std::map<std::string, unsigned, std::less<>> m_let_uses;
  std::map<std::string, std::set<std::string>, std::less<>> m_let_names;
  std::set<std::string> m_used;
};

}  // namespace cubinary::core
