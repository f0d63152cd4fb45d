// SPDX-License-Identifier: Apache-2.0
#include "core/manifest/toml.hpp"

#include <algorithm>
#include <tuple>

#include <toml++/impl/preprocessor.h>
// The library takes some of what a file may hold for granted ("[[[" reaches such a place): without
// NDEBUG it aborts there, with it the compiler may assume the impossible. It also checks what
// matters and reports it, once these are gone.
#undef TOML_ASSERT_ASSUME
#define TOML_ASSERT_ASSUME(expr) static_assert(true)
#include <toml++/toml.h>

namespace cubinary::core {
namespace {

SourceLocation location_of(const toml::source_position& position) {
  return {static_cast<int>(position.line), static_cast<int>(position.column)};
}

TomlNode convert(const toml::node& node) {
  using Kind = TomlNode::Kind;
  TomlNode out;
  out.location = location_of(node.source().begin);
  if (const auto* table = node.as_table()) {
    out.kind = Kind::table;
    for (const auto& [key, value] : *table) {
      out.entries.push_back(
          {std::string(key.str()), location_of(key.source().begin), convert(value)});
    }
    // The library sorts by name; people expect their own order.
    std::ranges::stable_sort(out.entries, {}, [](const TomlEntry& entry) {
      return std::tuple(entry.location.line, entry.location.column);
    });
  } else if (const auto* list = node.as_array()) {
    out.kind = Kind::list;
    for (const auto& item : *list) {
      out.items.push_back(convert(item));
    }
  } else if (const auto* text = node.as_string()) {
    out.kind = Kind::text;
    out.text = text->get();
  } else if (const auto* integer = node.as_integer()) {
    out.kind = Kind::integer;
    out.integer = integer->get();
  } else if (const auto* decimal = node.as_floating_point()) {
    out.kind = Kind::decimal;
    out.decimal = decimal->get();
  } else if (const auto* boolean = node.as_boolean()) {
    out.kind = Kind::boolean;
    out.boolean = boolean->get();
  } else {
    out.kind = Kind::date;
  }
  return out;
}

std::string_view line_of(std::string_view text, int line) {
  for (int i = 1; i < line; ++i) {
    const std::size_t end = text.find('\n');
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  text = text.substr(0, text.find('\n'));
  return text.ends_with('\r') ? text.substr(0, text.size() - 1) : text;
}

/// The library reports a duplicate where it noticed; this is where the second key stands.
SourceLocation duplicate_location(std::string_view text, const std::string& key,
                                  SourceLocation noticed) {
  const std::string_view line = line_of(text, noticed.line);
  const std::string_view before = line.substr(
      0, std::min(line.size(), static_cast<std::size_t>(std::max(noticed.column, 1)) + key.size()));
  const std::size_t found = before.rfind(key);
  const bool ascii =
      std::ranges::all_of(before, [](char c) { return static_cast<unsigned char>(c) < 0x80; });
  if (found == std::string_view::npos || !ascii) {
    return noticed;
  }
  return {noticed.line, static_cast<int>(found) + 1};
}

tl::unexpected<Error> syntax_error(const toml::parse_error& error, std::string_view text,
                                   const std::string& label) {
  SourceLocation at = location_of(error.source().begin);
  std::string what(error.description());
  if (what.find("cannot redefine existing") != std::string::npos && what.ends_with('\'')) {
    const std::size_t open = what.find('\'');
    const std::string key = what.substr(open + 1, what.size() - open - 2);
    at = duplicate_location(text, key, at);
    what = "\"" + key + "\" is given twice; keep one";
  } else {
    constexpr std::string_view prefix = "Error while parsing ";
    if (what.starts_with(prefix)) {
      what.erase(0, prefix.size());
    }
    const bool at_line_end = static_cast<std::size_t>(at.column) > line_of(text, at.line).size();
    if (at_line_end && what.find("control characters") != std::string::npos) {
      what = "the text has no closing quote on its line";
    } else {
      what = "not valid TOML: " + what;
    }
  }
  return fail(ErrorCode::manifest, label + ":" + std::to_string(at.line) + ":" +
                                       std::to_string(at.column) + ": " + what);
}

}  // namespace

const TomlNode* TomlNode::find(std::string_view key) const {
  const auto found = std::ranges::find(entries, key, &TomlEntry::key);
  return found == entries.end() ? nullptr : &found->value;
}

Result<TomlNode> parse_toml(std::string_view text, const std::string& label) {
  const toml::parse_result result = toml::parse(text, label);
  if (!result) {
    return syntax_error(result.error(), text, label);
  }
  TomlNode root = convert(result.table());
  root.location = {1, 1};
  return root;
}

}  // namespace cubinary::core
