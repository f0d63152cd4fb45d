// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.hpp"
#include "core/manifest/keys.hpp"
#include "core/manifest/manifest.hpp"
#include "core/manifest/toml.hpp"

/// Inside of the manifest room: typed reads from the tree, every error with file, line and column.
namespace cubinary::core {

class ManifestReader {
 public:
  /// `text` must outlive the reader.
  ManifestReader(std::string label, std::string_view text)
      : m_label(std::move(label)), m_text(text) {}

  /// "FILE:LINE:COLUMN: sentence".
  [[nodiscard]] tl::unexpected<Error> error(SourceLocation at, const std::string& sentence) const;

  /// `value` of kind text, list, …; `what` names it in the error (`"grid"`).
  [[nodiscard]] Result<std::string> text(const TomlNode& value, std::string_view what) const;
  [[nodiscard]] Result<bool> boolean(const TomlNode& value, std::string_view what) const;
  [[nodiscard]] Result<std::int64_t> integer(const TomlNode& value, std::string_view what,
                                             std::int64_t least, std::int64_t most) const;
  /// An integer or a finite decimal.
  [[nodiscard]] Result<double> number(const TomlNode& value, std::string_view what) const;
  [[nodiscard]] Result<void> expect_table(const TomlNode& value, std::string_view what) const;
  [[nodiscard]] Result<void> expect_list(const TomlNode& value, std::string_view what) const;
  /// A table with only the section's keys.
  [[nodiscard]] Result<void> expect_section(const TomlNode& value, std::string_view what,
                                            std::string_view section) const;
  /// One of `words`, as its index.
  [[nodiscard]] Result<std::size_t> word(const TomlNode& value, std::string_view what,
                                         const std::vector<std::string>& words) const;
  /// A text, or a list of texts; none may be empty.
  [[nodiscard]] Result<std::vector<std::string>> texts(const TomlNode& value,
                                                       std::string_view what) const;
  /// A text in the expression language, or an integer.
  [[nodiscard]] Result<LocatedExpression> expression(const TomlNode& value,
                                                     std::string_view what) const;
  /// `[A-Za-z_][A-Za-z0-9_]*`, at most 64 bytes.
  [[nodiscard]] Result<void> expect_identifier(std::string_view name, std::string_view what,
                                               SourceLocation at) const;
  /// The value of a key that must be there.
  [[nodiscard]] Result<const TomlNode*> required(const TomlNode& table, std::string_view key,
                                                 std::string_view what) const;
  /// Where character `offset` (0-based, ASCII before it) of a text value stands in the file; where
  /// the value begins when the two do not correspond (escapes, several lines).
  [[nodiscard]] SourceLocation inside(SourceLocation value, std::string_view content,
                                      std::size_t offset) const;

 private:
  [[nodiscard]] tl::unexpected<Error> wrong_kind(const TomlNode& value, std::string_view what,
                                                 std::string_view wanted) const;
  std::string m_label;
  std::string_view m_text;
};

}  // namespace cubinary::core
