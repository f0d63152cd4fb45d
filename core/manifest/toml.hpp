// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.hpp"
#include "core/manifest/manifest.hpp"

/// Inside of the manifest room: TOML as a plain tree that keeps file order and positions.
namespace cubinary::core {

struct TomlEntry;

struct TomlNode {
  enum class Kind : std::uint8_t { table, list, text, integer, decimal, boolean, date };

  Kind kind = Kind::table;
  SourceLocation location;
  std::string text;
  std::int64_t integer = 0;
  double decimal = 0;
  bool boolean = false;
  std::vector<TomlNode> items;     ///< of a list
  std::vector<TomlEntry> entries;  ///< of a table, in file order

  /// The value of `key` in a table, or null.
  [[nodiscard]] const TomlNode* find(std::string_view key) const;
};

struct TomlEntry {
  std::string key;
  SourceLocation location;  ///< of the key
  TomlNode value;
};

/// Parses TOML 1.0; a byte order mark and CRLF are fine. Errors are `manifest` and begin
/// "LABEL:LINE:COLUMN: ".
[[nodiscard]] Result<TomlNode> parse_toml(std::string_view text, const std::string& label);

}  // namespace cubinary::core
