// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/result.hpp"
#include "core/manifest/manifest.hpp"
#include "core/manifest/reader.hpp"
#include "core/manifest/toml.hpp"

/// Inside of the manifest room: parsing fills a draft, validation finishes it.
namespace cubinary::core {

/// A manifest in the making, with the positions that the finished one does not keep.
struct ManifestDraft {
  Manifest manifest;
  std::map<std::string, std::string> kinds;        ///< declared name → "an axis", "a tunable", …
  std::map<std::string, SourceLocation> declared;  ///< declared name → its key
  std::map<std::string, SourceLocation> macros;    ///< macro → where it is asked for
  std::vector<SourceLocation> step_entries;        ///< of each step's entry text
  SourceLocation reference_entry;
  SourceLocation prepare_entry;
  SourceLocation tolerance;                          ///< the whole table
  std::map<std::string, SourceLocation> tolerances;  ///< dtype → its key
  std::vector<std::pair<std::string, LocatedExpression>>
      also_checked;  ///< fill's index(n): what, n
};

/// Types, axes, tunables and lets share one set of names: each is said once and hides nothing.
[[nodiscard]] Result<void> declare(const ManifestReader& reader, ManifestDraft& draft,
                                   const std::string& name, const std::string& kind,
                                   SourceLocation at);

/// manifest, name, summary, sources, include, flags, backend, targets.
[[nodiscard]] Result<void> parse_head(const ManifestReader& reader, const TomlNode& root,
                                      ManifestDraft& draft);
/// Refuses flags that would change what the builder itself decides.
[[nodiscard]] Result<void> check_flag(const ManifestReader& reader, const std::string& flag,
                                      SourceLocation at);
/// types, axes, tunables, rules, prefer.
[[nodiscard]] Result<void> parse_choices(const ManifestReader& reader, const TomlNode& root,
                                         ManifestDraft& draft);
/// args, launch, steps.
[[nodiscard]] Result<void> parse_launches(const ManifestReader& reader, const TomlNode& root,
                                          ManifestDraft& draft);
/// The argument list alone.
[[nodiscard]] Result<void> parse_arguments(const ManifestReader& reader, const TomlNode& list,
                                           ManifestDraft& draft);
/// grid … cooperative of a step or helper.
[[nodiscard]] Result<LaunchSpec> parse_launch_spec(const ManifestReader& reader,
                                                   const TomlNode& table, const std::string& what);
/// Names of declared arguments; `list` null: all of them.
[[nodiscard]] Result<std::vector<std::size_t>> parse_argument_names(const ManifestReader& reader,
                                                                    const TomlNode* list,
                                                                    const ManifestDraft& draft);
/// check, measure.
[[nodiscard]] Result<void> parse_checks(const ManifestReader& reader, const TomlNode& root,
                                        ManifestDraft& draft);
/// A fill as written, for an argument whose type may be any of `dtypes`.
[[nodiscard]] Result<void> parse_fill(const ManifestReader& reader, const TomlNode& value,
                                      const std::vector<std::string>& dtypes, ManifestDraft& draft);

/// Dtypes that a type name (parameter or dtype) may stand for; empty when it is neither.
[[nodiscard]] std::vector<std::string> dtypes_of(const Manifest& manifest, std::string_view type);

/// Checks scopes, uses and placeholders, orders the lets, and adds the rule each `vector` implies.
[[nodiscard]] Result<void> validate_manifest(const ManifestReader& reader, ManifestDraft& draft);

}  // namespace cubinary::core
