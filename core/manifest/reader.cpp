// SPDX-License-Identifier: Apache-2.0
#include "core/manifest/reader.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "core/base/nearest.hpp"

namespace cubinary::core {
namespace {

std::string_view kind_name(TomlNode::Kind kind) {
  switch (kind) {
    case TomlNode::Kind::table:
      return "a table";
    case TomlNode::Kind::list:
      return "a list";
    case TomlNode::Kind::text:
      return "text";
    case TomlNode::Kind::integer:
      return "an integer";
    case TomlNode::Kind::decimal:
      return "a decimal number";
    case TomlNode::Kind::boolean:
      return "true or false";
    case TomlNode::Kind::date:
      return "a date";
  }
  return "something else";
}

std::string join(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) {
    out += (out.empty() ? "" : ", ") + word;
  }
  return out;
}

/// Splits "what … at column N"; the column is 0 when there is none.
std::pair<std::string, std::size_t> split_column(const std::string& message) {
  constexpr std::string_view mark = " at column ";
  const std::size_t at = message.rfind(mark);
  std::size_t column = 0;
  if (at == std::string::npos) {
    return {message, 0};
  }
  const char* digits = message.data() + at + mark.size();
  std::from_chars(digits, message.data() + message.size(), column);
  return {message.substr(0, at), column};
}

}  // namespace

tl::unexpected<Error> ManifestReader::error(SourceLocation at, const std::string& sentence) const {
  return fail(ErrorCode::manifest, m_label + ":" + std::to_string(at.line) + ":" +
                                       std::to_string(at.column) + ": " + sentence);
}

tl::unexpected<Error> ManifestReader::wrong_kind(const TomlNode& value, std::string_view what,
                                                 std::string_view wanted) const {
  return error(value.location, std::string(what) + " must be " + std::string(wanted) + ", not " +
                                   std::string(kind_name(value.kind)));
}

Result<std::string> ManifestReader::text(const TomlNode& value, std::string_view what) const {
  if (value.kind != TomlNode::Kind::text) {
    return wrong_kind(value, what, "text");
  }
  // Texts end up in paths, flags, code and C strings.
  const bool plain = std::ranges::none_of(value.text, [](char c) {
    return (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t' && c != '\r') ||
           c == 0x7f;
  });
  if (!plain) {
    return error(value.location, std::string(what) + " contains a control character");
  }
  return value.text;
}

Result<bool> ManifestReader::boolean(const TomlNode& value, std::string_view what) const {
  if (value.kind != TomlNode::Kind::boolean) {
    return wrong_kind(value, what, "true or false");
  }
  return value.boolean;
}

Result<std::int64_t> ManifestReader::integer(const TomlNode& value, std::string_view what,
                                             std::int64_t least, std::int64_t most) const {
  if (value.kind != TomlNode::Kind::integer) {
    return wrong_kind(value, what, "an integer");
  }
  if (value.integer < least || value.integer > most) {
    const std::string range = most == INT64_MAX
                                  ? std::to_string(least) + " or more"
                                  : std::to_string(least) + " to " + std::to_string(most);
    return error(value.location, std::string(what) + " must be " + range + ", not " +
                                     std::to_string(value.integer));
  }
  return value.integer;
}

Result<double> ManifestReader::number(const TomlNode& value, std::string_view what) const {
  if (value.kind == TomlNode::Kind::integer) {
    return static_cast<double>(value.integer);
  }
  if (value.kind != TomlNode::Kind::decimal) {
    return wrong_kind(value, what, "a number");
  }
  if (!std::isfinite(value.decimal)) {
    return error(value.location, std::string(what) + " must be finite");
  }
  return value.decimal;
}

Result<void> ManifestReader::expect_table(const TomlNode& value, std::string_view what) const {
  if (value.kind != TomlNode::Kind::table) {
    return wrong_kind(value, what, "a table");
  }
  return {};
}

Result<void> ManifestReader::expect_list(const TomlNode& value, std::string_view what) const {
  if (value.kind != TomlNode::Kind::list) {
    return wrong_kind(value, what, "a list");
  }
  return {};
}

Result<void> ManifestReader::expect_section(const TomlNode& value, std::string_view what,
                                            std::string_view section) const {
  TRY(expect_table(value, what));
  const std::vector<std::string>& keys = manifest_section(section).keys;
  for (const TomlEntry& entry : value.entries) {
    if (std::ranges::find(keys, entry.key) != keys.end()) {
      continue;
    }
    std::string hint = did_you_mean(entry.key, keys);
    if (hint.empty()) {
      hint = "; known keys: " + join(keys);
    }
    return error(entry.location,
                 "unknown key \"" + entry.key + "\" in " + std::string(what) + hint);
  }
  return {};
}

Result<std::size_t> ManifestReader::word(const TomlNode& value, std::string_view what,
                                         const std::vector<std::string>& words) const {
  TRY_ASSIGN(const std::string given, text(value, what));
  const auto found = std::ranges::find(words, given);
  if (found != words.end()) {
    return static_cast<std::size_t>(found - words.begin());
  }
  std::string hint = did_you_mean(given, words);
  if (hint.empty()) {
    hint = "; it may be " + join(words);
  }
  return error(value.location, std::string(what) + " cannot be \"" + given + "\"" + hint);
}

Result<std::vector<std::string>> ManifestReader::texts(const TomlNode& value,
                                                       std::string_view what) const {
  std::vector<std::string> out;
  const auto add = [&](const TomlNode& item) -> Result<void> {
    TRY_ASSIGN(out.emplace_back(), text(item, what));
    if (out.back().empty()) {
      return error(item.location, std::string(what) + " must not be empty text");
    }
    return {};
  };
  if (value.kind == TomlNode::Kind::text) {
    TRY(add(value));
    return out;
  }
  if (value.kind != TomlNode::Kind::list) {
    return wrong_kind(value, what, "text or a list of texts");
  }
  for (const TomlNode& item : value.items) {
    TRY(add(item));
  }
  return out;
}

Result<LocatedExpression> ManifestReader::expression(const TomlNode& value,
                                                     std::string_view what) const {
  std::string source;
  if (value.kind == TomlNode::Kind::integer) {
    source = std::to_string(value.integer);
  } else if (value.kind == TomlNode::Kind::text) {
    source = value.text;
  } else {
    return wrong_kind(value, what, "an expression or an integer");
  }
  auto parsed = Expression::parse(source);
  if (!parsed) {
    const auto [sentence, column] = split_column(parsed.error().message);
    const SourceLocation at = column == 0 || value.kind == TomlNode::Kind::integer
                                  ? value.location
                                  : inside(value.location, value.text, column - 1);
    return error(at, std::string(what) + ": " + sentence);
  }
  return LocatedExpression{std::move(*parsed), value.location};
}

Result<void> ManifestReader::expect_identifier(std::string_view name, std::string_view what,
                                               SourceLocation at) const {
  const auto letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  const auto rest = [&](char c) { return letter(c) || (c >= '0' && c <= '9'); };
  if (name.empty() || name.size() > 64 || !letter(name.front()) ||
      !std::ranges::all_of(name, rest)) {
    return error(at, std::string(what) + " \"" + std::string(name) +
                         "\" must be a name of letters, digits and _, at most 64 long");
  }
  return {};
}

Result<const TomlNode*> ManifestReader::required(const TomlNode& table, std::string_view key,
                                                 std::string_view what) const {
  const TomlNode* value = table.find(key);
  if (value == nullptr) {
    return error(table.location, std::string(what) + " needs the key \"" + std::string(key) + "\"");
  }
  return value;
}

SourceLocation ManifestReader::inside(SourceLocation value, std::string_view content,
                                      std::size_t offset) const {
  std::string_view rest = m_text;
  if (rest.starts_with("\xEF\xBB\xBF")) {
    rest.remove_prefix(3);
  }
  for (int line = 1; line < value.line; ++line) {
    rest.remove_prefix(std::min(rest.size(), rest.find('\n') + 1));
  }
  // Columns count characters, not bytes.
  for (int column = 1; column < value.column && !rest.empty(); ++column) {
    rest.remove_prefix(1);
    while (!rest.empty() && (static_cast<unsigned char>(rest.front()) & 0xC0U) == 0x80U) {
      rest.remove_prefix(1);
    }
  }
  const bool quoted = rest.starts_with('"') || rest.starts_with('\'');
  const bool several_lines = rest.starts_with("\"\"\"") || rest.starts_with("'''");
  offset = std::min(offset, content.size());
  if (!quoted || several_lines || !rest.substr(1).starts_with(content.substr(0, offset))) {
    return value;
  }
  return {value.line, value.column + 1 + static_cast<int>(offset)};
}

}  // namespace cubinary::core
