// SPDX-License-Identifier: Apache-2.0
// The reader of JSON. A catalogue is most of what a client reads before its first launch, so that
// its speed is felt: one pass, values built in place, keys that arrive sorted go straight to their
// place.
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "core/base/json.hpp"
#include "core/base/json_text.hpp"

namespace cubinary::core::json {
namespace {

class Parser {
 public:
  Parser(std::string_view text, int max_depth)
      : m_at(text.data()),
        m_begin(text.data()),
        m_end(text.data() + text.size()),
        m_max_depth(max_depth) {}

  Result<Value> document() {
    Value value;
    skip_space();
    if (!parse_value(value)) {
      return failure();
    }
    skip_space();
    if (m_at != m_end) {
      (void)no_json();
      return failure();
    }
    return value;
  }

 private:
  /// Where the parser stands, for messages: an array's index, or an object's key.
  struct Level {
    const Array* array;  ///< null: an object
    std::string_view key;
  };

  bool stop(std::string why) {
    if (m_why.empty()) {
      m_why = std::move(why);
      if (const std::string place = path(); !place.empty()) {
        m_why += " (inside " + place + ")";
      }
    }
    return false;
  }
  bool no_json() {
    return stop("the text is no JSON at byte " + std::to_string(m_at - m_begin + 1));
  }
  [[nodiscard]] tl::unexpected<Error> failure() const {
    return fail(ErrorCode::corrupt, printable("malformed JSON: " + m_why));
  }
  [[nodiscard]] std::string path() const {
    std::string text;
    for (const Level& level : m_open) {
      if (level.array != nullptr) {
        text += "[" + std::to_string(level.array->size()) + "]";
      } else if (!level.key.empty()) {
        text += (text.empty() ? "" : ".") + std::string(level.key);
      }
    }
    return text;
  }

  void skip_space() {
    while (m_at != m_end && (*m_at == ' ' || *m_at == '\n' || *m_at == '\t' || *m_at == '\r')) {
      ++m_at;
    }
  }
  [[nodiscard]] char peek() const { return m_at == m_end ? '\0' : *m_at; }
  bool literal(std::string_view word, Value value, Value& out) {
    if (static_cast<std::size_t>(m_end - m_at) < word.size() ||
        std::string_view(m_at, word.size()) != word) {
      return no_json();
    }
    m_at += word.size();
    out = std::move(value);
    return true;
  }

  bool parse_value(Value& out) {
    switch (peek()) {
      case '{':
        return parse_object(out);
      case '[':
        return parse_array(out);
      case '"': {
        std::string text;
        if (!parse_text(text)) {
          return false;
        }
        out = Value(std::move(text));
        return true;
      }
      case 't':
        return literal("true", true, out);
      case 'f':
        return literal("false", false, out);
      case 'n':
        return literal("null", nullptr, out);
      default:
        return parse_number(out);
    }
  }

  bool open() {
    if (m_open.size() >= static_cast<std::size_t>(m_max_depth)) {
      return stop("it is nested deeper than " + std::to_string(m_max_depth) + " levels");
    }
    return true;
  }

  bool parse_array(Value& out) {
    if (!open()) {
      return false;
    }
    Array array;
    m_open.push_back({&array, {}});
    ++m_at;
    skip_space();
    if (peek() == ']') {
      ++m_at;
    } else {
      while (true) {
        Value element;
        if (!parse_value(element)) {
          return false;
        }
        array.push_back(std::move(element));
        skip_space();
        const char next = peek();
        if (next != ',' && next != ']') {
          return no_json();
        }
        ++m_at;
        if (next == ']') {
          break;
        }
        skip_space();
      }
    }
    m_open.pop_back();
    out = Value(std::move(array));
    return true;
  }

  bool parse_member(Object& object) {
    std::string key;
    if (peek() != '"') {
      return no_json();
    }
    if (!parse_text(key)) {
      return false;
    }
    skip_space();
    if (peek() != ':') {
      return no_json();
    }
    ++m_at;
    skip_space();
    const std::size_t before = object.size();
    const auto place = object.emplace_hint(object.end(), std::move(key), Value());
    if (object.size() == before) {
      return stop("the key \"" + place->first + "\" stands twice in one object");
    }
    m_open.back().key = place->first;
    return parse_value(place->second);
  }

  bool parse_object(Value& out) {
    if (!open()) {
      return false;
    }
    Object object;
    m_open.push_back({nullptr, {}});
    ++m_at;
    skip_space();
    if (peek() == '}') {
      ++m_at;
    } else {
      while (true) {
        if (!parse_member(object)) {
          return false;
        }
        skip_space();
        const char next = peek();
        if (next != ',' && next != '}') {
          return no_json();
        }
        ++m_at;
        if (next == '}') {
          break;
        }
        skip_space();
      }
    }
    m_open.pop_back();
    out = Value(std::move(object));
    return true;
  }

  bool digits() {
    const char* const before = m_at;
    while (m_at != m_end && *m_at >= '0' && *m_at <= '9') {
      ++m_at;
    }
    return m_at != before || no_json();
  }

  bool parse_number(Value& out) {
    const char* const begin = m_at;
    if (peek() == '-') {
      ++m_at;
    }
    if (peek() == '0') {
      ++m_at;
    } else if (!digits()) {
      return false;
    }
    bool integer = true;
    if (peek() == '.') {
      integer = false;
      ++m_at;
      if (!digits()) {
        return false;
      }
    }
    if (peek() == 'e' || peek() == 'E') {
      integer = false;
      ++m_at;
      if (peek() == '+' || peek() == '-') {
        ++m_at;
      }
      if (!digits()) {
        return false;
      }
    }
    if (integer) {
      std::int64_t value = 0;
      if (std::from_chars(begin, m_at, value).ec != std::errc()) {
        return stop("an integer is beyond 64 bits");
      }
      out = Value(value);
      return true;
    }
    double value = 0;
    if (std::from_chars(begin, m_at, value).ec == std::errc::result_out_of_range) {
      value = std::strtod(std::string(begin, m_at).c_str(), nullptr);  // too small is fine, it is 0
    }
    if (!std::isfinite(value)) {
      return stop("a number is beyond what 64-bit floating point holds");
    }
    out = Value(value);
    return true;
  }

  bool parse_text(std::string& out) {
    ++m_at;
    const char* plain = m_at;
    while (true) {
      if (m_at == m_end) {
        return no_json();
      }
      const auto byte = static_cast<unsigned char>(*m_at);
      if (byte == '"') {
        out.append(plain, m_at);
        ++m_at;
        return true;
      }
      if (byte == '\\') {
        out.append(plain, m_at);
        ++m_at;
        if (!parse_escape(out)) {
          return false;
        }
        plain = m_at;
      } else {
        const std::size_t length = byte < 0x20 ? 0 : byte < 0x80 ? 1 : utf8_length();
        if (length == 0) {
          return no_json();
        }
        m_at += length;
      }
    }
  }

  /// Bytes of the well-formed UTF-8 sequence at this place; 0: there is none.
  [[nodiscard]] std::size_t utf8_length() const {
    const auto at = [this](std::ptrdiff_t i) {
      return i < m_end - m_at ? static_cast<unsigned char>(m_at[i]) : 0U;
    };
    const auto follows = [&](std::ptrdiff_t i) { return (at(i) & 0xC0U) == 0x80U; };
    const unsigned first = at(0);
    const unsigned second = at(1);
    if (first >= 0xC2 && first <= 0xDF) {
      return follows(1) ? 2 : 0;
    }
    if (first >= 0xE0 && first <= 0xEF) {
      const bool shortest = first != 0xE0 || second >= 0xA0;
      const bool no_surrogate = first != 0xED || second <= 0x9F;
      return follows(1) && follows(2) && shortest && no_surrogate ? 3 : 0;
    }
    if (first >= 0xF0 && first <= 0xF4) {
      const bool in_range = (first != 0xF0 || second >= 0x90) && (first != 0xF4 || second <= 0x8F);
      return follows(1) && follows(2) && follows(3) && in_range ? 4 : 0;
    }
    return 0;
  }

  bool parse_hex(unsigned& out) {
    out = 0;
    if (m_end - m_at < 4) {
      return no_json();
    }
    const auto [end, error] = std::from_chars(m_at, m_at + 4, out, 16);
    if (error != std::errc() || end != m_at + 4) {
      return no_json();
    }
    m_at += 4;
    return true;
  }

  bool parse_escape(std::string& out) {
    const char kind = peek();
    if (m_at != m_end) {
      ++m_at;
    }
    switch (kind) {
      case '"':
      case '\\':
      case '/':
        out += kind;
        return true;
      case 'b':
        out += '\b';
        return true;
      case 'f':
        out += '\f';
        return true;
      case 'n':
        out += '\n';
        return true;
      case 'r':
        out += '\r';
        return true;
      case 't':
        out += '\t';
        return true;
      case 'u':
        return parse_code_point(out);
      default:
        return no_json();
    }
  }

  bool parse_code_point(std::string& out) {
    unsigned code = 0;
    if (!parse_hex(code)) {
      return false;
    }
    if (code >= 0xD800 && code <= 0xDBFF) {
      unsigned low = 0;
      if (m_end - m_at < 2 || m_at[0] != '\\' || m_at[1] != 'u') {
        return no_json();
      }
      m_at += 2;
      if (!parse_hex(low)) {
        return false;
      }
      if (low < 0xDC00 || low > 0xDFFF) {
        return no_json();
      }
      code = 0x10000 + ((code - 0xD800) << 10U) + (low - 0xDC00);
    } else if (code >= 0xDC00 && code <= 0xDFFF) {
      return no_json();
    }
    const auto put = [&](unsigned byte) { out += static_cast<char>(byte); };
    if (code < 0x80) {
      put(code);
    } else if (code < 0x800) {
      put(0xC0U | (code >> 6U));
      put(0x80U | (code & 0x3FU));
    } else if (code < 0x10000) {
      put(0xE0U | (code >> 12U));
      put(0x80U | ((code >> 6U) & 0x3FU));
      put(0x80U | (code & 0x3FU));
    } else {
      put(0xF0U | (code >> 18U));
      put(0x80U | ((code >> 12U) & 0x3FU));
      put(0x80U | ((code >> 6U) & 0x3FU));
      put(0x80U | (code & 0x3FU));
    }
    return true;
  }

  const char* m_at;
  const char* m_begin;
  const char* m_end;
  const int m_max_depth;
  std::vector<Level> m_open;
  std::string m_why;
};

}  // namespace

Result<Value> parse(std::string_view text, int max_depth) {
  // Some readers skip it silently.
  if (text.starts_with("\xEF\xBB\xBF")) {
    return fail(ErrorCode::corrupt, "the JSON begins with a byte order mark");
  }
  return Parser(text, max_depth).document();
}

}  // namespace cubinary::core::json
