// SPDX-License-Identifier: Apache-2.0
// The reader of JSON. A catalogue is most of what a client reads before its first launch, so that
// its speed is felt: one pass, nothing copied, keys that arrive sorted are compared with their
// predecessor only.
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/base/json.hpp"
#include "core/base/json_document.hpp"
#include "core/base/json_text.hpp"

namespace cubinary::core::json {

/// Fills a Document.
class DocumentReader {
 public:
  using Kind = Document::Kind;

  DocumentReader(std::string_view text, ReadLimits limits)
      : m_at(text.data()),
        m_begin(text.data()),
        m_end(text.data() + text.size()),
        m_limits(limits) {}

  Result<Document> read() {
    // More than most documents have, where all is kept.
    m_document.m_tokens.reserve(static_cast<std::size_t>(m_end - m_begin) /
                                (m_limits.kept_depth < m_limits.max_depth ? 512 : 16));
    skip_space();
    if (!parse_value()) {
      return failure();
    }
    skip_space();
    if (m_at != m_end) {
      (void)no_json();
      return failure();
    }
    return std::move(m_document);
  }

 private:
  /// A container that is open.
  struct Level {
    std::string_view key;       ///< of the member at hand
    std::size_t first_key = 0;  ///< in m_keys
    std::uint32_t count = 0;    ///< elements or members that are complete
    bool array = false;
    bool sorted = true;  ///< its keys, so far; else they are in m_unsorted
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
      if (level.array) {
        text += "[" + std::to_string(level.count) + "]";
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

  void emit(Kind kind, std::string_view text) {
    auto& tokens = m_document.m_tokens;
    tokens.push_back({text.data(), static_cast<std::uint32_t>(text.size()), 0,
                      static_cast<std::uint32_t>(tokens.size() + 1), kind, true});
  }

  bool literal(std::string_view word, Kind kind) {
    if (static_cast<std::size_t>(m_end - m_at) < word.size() ||
        std::string_view(m_at, word.size()) != word) {
      return no_json();
    }
    emit(kind, {m_at, word.size()});
    m_at += word.size();
    return true;
  }

  bool parse_value() {
    switch (peek()) {
      case '{':
        return parse_container(false);
      case '[':
        return parse_container(true);
      case '"': {
        std::string_view text;
        if (!parse_text(text)) {
          return false;
        }
        emit(Kind::text, text);
        return true;
      }
      case 't':
        return literal("true", Kind::truth);
      case 'f':
        return literal("false", Kind::falsehood);
      case 'n':
        return literal("null", Kind::null);
      default:
        return parse_number();
    }
  }

  bool parse_container(bool array) {
    if (m_open.size() >= static_cast<std::size_t>(m_limits.max_depth)) {
      return stop("it is nested deeper than " + std::to_string(m_limits.max_depth) + " levels");
    }
    const char* const begin = m_at;
    const std::size_t token = m_document.m_tokens.size();
    emit(array ? Kind::array : Kind::object, {begin, 1});
    const bool kept = m_open.size() < static_cast<std::size_t>(m_limits.kept_depth);
    m_open.push_back({.key = {}, .first_key = m_keys.size(), .array = array});
    if (!(kept ? parse_content(array ? ']' : '}') : skip_container())) {
      return false;
    }
    Document::Token& self = m_document.m_tokens[token];
    self.size = static_cast<std::uint32_t>(m_at - begin);
    self.count = m_open.back().count;
    self.end = static_cast<std::uint32_t>(m_document.m_tokens.size());
    self.kept = kept;
    if (!m_open.back().sorted) {
      m_unsorted.erase(m_open.size());
    }
    m_keys.resize(m_open.back().first_key);
    m_open.pop_back();
    return true;
  }

  bool parse_content(char closing) {
    ++m_at;
    skip_space();
    if (peek() == closing) {
      ++m_at;
      return true;
    }
    while (true) {
      if (!(closing == ']' ? parse_value() : parse_member())) {
        return false;
      }
      ++m_open.back().count;
      skip_space();
      const char next = peek();
      if (next != ',' && next != closing) {
        return no_json();
      }
      ++m_at;
      if (next == closing) {
        return true;
      }
      skip_space();
    }
  }

  /// To the end of a container whose content is not looked at: as many brackets closed as opened,
  /// outside of texts.
  bool skip_container() {
    std::size_t open = 0;
    do {
      if (m_at == m_end) {
        return no_json();
      }
      switch (*m_at++) {
        case '"':
          if (!skip_text()) {
            return no_json();
          }
          break;
        case '{':
        case '[':
          ++open;
          break;
        case '}':
        case ']':
          --open;
          break;
        default:
          break;
      }
    } while (open != 0);
    return true;
  }

  /// Past the closing quote of a text whose content is not looked at.
  bool skip_text() {
    while (true) {
      while (eight_follow()) {
        const std::uint64_t bytes = next_eight();
        const std::uint64_t quote = bytes ^ (k_ones * '"');
        const std::uint64_t escape = bytes ^ (k_ones * '\\');
        const std::uint64_t stops =
            (((quote - k_ones) & ~quote) | ((escape - k_ones) & ~escape)) & k_tops;
        if (stops != 0) {
          m_at += std::countr_zero(stops) / 8;
          break;
        }
        m_at += 8;
      }
      if (m_at == m_end) {
        return false;
      }
      const char byte = *m_at++;
      if (byte == '"') {
        return true;
      }
      if (byte == '\\') {
        if (m_at == m_end) {
          return false;
        }
        ++m_at;
      }
    }
  }

  bool parse_member() {
    std::string_view key;
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
    Level& level = m_open.back();
    if (!is_new(level, key)) {
      return stop("the key \"" + std::string(key) + "\" stands twice in one object");
    }
    m_keys.push_back(key);
    level.key = key;
    emit(Kind::text, key);
    return parse_value();
  }

  bool is_new(Level& level, std::string_view key) {
    if (level.sorted) {
      if (m_keys.size() == level.first_key || m_keys.back() < key) {
        return true;
      }
      level.sorted = false;
      m_unsorted[m_open.size()].insert(
          m_keys.begin() + static_cast<std::ptrdiff_t>(level.first_key), m_keys.end());
    }
    return m_unsorted[m_open.size()].insert(key).second;
  }

  bool digits() {
    const char* const before = m_at;
    while (m_at != m_end && *m_at >= '0' && *m_at <= '9') {
      ++m_at;
    }
    return m_at != before || no_json();
  }

  bool parse_number() {
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
    const std::string_view text(begin, static_cast<std::size_t>(m_at - begin));
    if (integer) {
      std::int64_t value = 0;
      if (text.size() >= k_digits_of_int64 &&
          std::from_chars(begin, m_at, value).ec != std::errc()) {
        return stop("an integer is beyond 64 bits");
      }
    } else if (!std::isfinite(number_of(text))) {
      return stop("a number is beyond what 64-bit floating point holds");
    }
    emit(integer ? Kind::integer : Kind::number, text);
    return true;
  }

  static constexpr std::uint64_t k_ones = 0x0101010101010101;
  static constexpr std::uint64_t k_tops = 0x8080808080808080;
  [[nodiscard]] bool eight_follow() const {
    return std::endian::native == std::endian::little && m_end - m_at >= 8;
  }
  [[nodiscard]] std::uint64_t next_eight() const {
    std::uint64_t bytes = 0;
    std::memcpy(&bytes, m_at, sizeof bytes);
    return bytes;
  }

  /// Moves past what needs no look: neither the end of the text, nor an escape, nor a byte outside
  /// of printable ASCII. Eight bytes at once; in each the top bit is set where the byte stops it. A
  /// borrow may mark bytes that do not, but only above the first that does.
  void skip_plain() {
    while (eight_follow()) {
      const std::uint64_t bytes = next_eight();
      const std::uint64_t quote = bytes ^ (k_ones * '"');
      const std::uint64_t escape = bytes ^ (k_ones * '\\');
      const std::uint64_t stops =
          ((bytes - k_ones * 0x20) | (quote - k_ones) | (escape - k_ones) | bytes) & k_tops;
      if (stops != 0) {
        m_at += std::countr_zero(stops) / 8;
        return;
      }
      m_at += 8;
    }
  }

  /// The content at this opening quote, escapes resolved.
  bool parse_text(std::string_view& out) {
    ++m_at;
    const char* plain = m_at;
    std::string* resolved = nullptr;
    while (true) {
      skip_plain();
      if (m_at == m_end) {
        return no_json();
      }
      const auto byte = static_cast<unsigned char>(*m_at);
      if (byte == '"') {
        if (resolved != nullptr) {
          out = resolved->append(plain, m_at);
        } else {
          out = {plain, static_cast<std::size_t>(m_at - plain)};
        }
        ++m_at;
        return true;
      }
      if (byte == '\\') {
        if (resolved == nullptr) {
          resolved = &m_document.m_unescaped.emplace_back();
        }
        resolved->append(plain, m_at);
        ++m_at;
        if (!parse_escape(*resolved)) {
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

  /// Fewer characters always fit.
  static constexpr std::size_t k_digits_of_int64 = std::numeric_limits<std::int64_t>::digits10 + 1;

  const char* m_at;
  const char* m_begin;
  const char* m_end;
  const ReadLimits m_limits;
  Document m_document;
  std::vector<Level> m_open;
  std::vector<std::string_view> m_keys;  ///< of all objects that are open, so far
  std::map<std::size_t, std::set<std::string_view>> m_unsorted;  ///< keys of those, by depth
  std::string m_why;
};

Result<Document> Document::parse(std::string_view text, ReadLimits limits) {
  // Some readers skip it silently.
  if (text.starts_with("\xEF\xBB\xBF")) {
    return fail(ErrorCode::corrupt, "the JSON begins with a byte order mark");
  }
  if (text.size() > std::numeric_limits<std::uint32_t>::max()) {
    return fail(ErrorCode::too_large, "the JSON has " + std::to_string(text.size()) + " bytes");
  }
  return DocumentReader(text, limits).read();
}

double number_of(std::string_view text) {
  double value = 0;
  if (std::from_chars(text.data(), text.data() + text.size(), value).ec ==
      std::errc::result_out_of_range) {
    value = std::strtod(std::string(text).c_str(), nullptr);  // too small is fine, it is 0
  }
  return value;
}

namespace {

/// The tree of the value at `at`, which is moved past it.
Value tree_of(const std::vector<Document::Token>& tokens, std::uint32_t& at) {
  const Document::Token& token = tokens[at++];
  switch (token.kind) {
    case Document::Kind::null:
      return nullptr;
    case Document::Kind::truth:
      return true;
    case Document::Kind::falsehood:
      return false;
    case Document::Kind::integer: {
      std::int64_t value = 0;
      (void)std::from_chars(token.begin, token.begin + token.size, value);
      return value;
    }
    case Document::Kind::number:
      return number_of(token.view());
    case Document::Kind::text:
      return token.view();
    case Document::Kind::array: {
      Array array;
      array.reserve(token.count);
      for (std::uint32_t i = 0; i < token.count; ++i) {
        array.push_back(tree_of(tokens, at));
      }
      return array;
    }
    case Document::Kind::object:
      break;
  }
  Object object;
  for (std::uint32_t i = 0; i < token.count; ++i) {
    const std::string_view key = tokens[at++].view();
    const auto place = object.emplace_hint(object.end(), key, Value());
    place->second = tree_of(tokens, at);
  }
  return object;
}

}  // namespace

Result<Value> parse(std::string_view text, int max_depth) {
  TRY_ASSIGN(const Document document, Document::parse(text, {.max_depth = max_depth}));
  std::uint32_t top = 0;
  return tree_of(document.tokens(), top);
}

}  // namespace cubinary::core::json
