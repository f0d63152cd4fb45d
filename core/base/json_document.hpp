// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.hpp"

/// JSON read where it lies: for the large documents that stand before a program's first launch.
namespace cubinary::core::json {

class View;

struct ReadLimits {
  int max_depth = 32;  ///< deeper nesting is refused
  /// Deeper containers (the top is 1) are not looked into, only for where they end: what is in them
  /// is checked and there once their text (`View::raw`) is parsed.
  int kept_depth = std::numeric_limits<int>::max();
};

/// One checked document as a flat list of its values, which point into its text: no copies, no
/// tree. Refuses what `parse` refuses, in the same words.
class Document {
 public:
  /// `text` must outlive the document and everything read from it.
  [[nodiscard]] static Result<Document> parse(std::string_view text, ReadLimits limits = {});

  enum class Kind : std::uint8_t { null, truth, falsehood, integer, number, text, array, object };

  /// A value. What is in an object alternates between keys and values.
  struct Token {
    const char* begin = nullptr;  ///< of its text; a text's content, escapes resolved
    std::uint32_t size = 0;       ///< bytes
    std::uint32_t count = 0;      ///< elements or members, where kept
    std::uint32_t end = 0;        ///< the token after it and all that is in it
    Kind kind = Kind::null;
    bool kept = true;  ///< false: a container whose content is only text

    [[nodiscard]] std::string_view view() const { return {begin, size}; }
  };
  /// The top first, then what is in it, in order.
  [[nodiscard]] const std::vector<Token>& tokens() const { return m_tokens; }

 private:
  friend class DocumentReader;
  Document() = default;
  std::vector<Token> m_tokens;
  std::deque<std::string> m_unescaped;  ///< texts that are not in the source as they are
};

/// A place in a document that knows its path, for reading with checks, as Node is one in a tree:
/// the same messages. Neither the document nor the View it was reached from may go away before it.
class View {
 public:
  /// The document's top, called `name` in messages ("the catalogue").
  View(const Document& document, std::string_view name) : m_document(&document), m_key(name) {}
  /// The top of `document`, which was parsed from the `raw` text at this place.
  [[nodiscard]] View in(const Document& document) const;

  /// An object's member; a missing one is an error.
  [[nodiscard]] Result<View> at(std::string_view key) const&;
  Result<View> at(std::string_view key) const&& = delete;
  /// An object's member; a missing one is a View for which `exists` is false.
  [[nodiscard]] Result<View> find(std::string_view key) const&;
  Result<View> find(std::string_view key) const&& = delete;
  [[nodiscard]] bool exists() const { return m_document != nullptr; }

  class Children;
  /// Elements of an array, members of an object (names through `key`; not sorted). The container's
  /// content must have been kept.
  [[nodiscard]] Result<Children> elements() const&;
  Result<Children> elements() const&& = delete;
  [[nodiscard]] Result<Children> members() const&;
  Result<Children> members() const&& = delete;
  [[nodiscard]] std::string_view key() const { return m_key; }

  [[nodiscard]] Document::Kind kind() const { return token().kind; }
  /// The value as the document has it.
  [[nodiscard]] std::string_view raw() const { return token().view(); }
  [[nodiscard]] Result<std::string_view> text() const;
  [[nodiscard]] Result<bool> boolean() const;
  [[nodiscard]] Result<double> number() const;
  [[nodiscard]] Result<std::int64_t> integer(
      std::int64_t low = std::numeric_limits<std::int64_t>::min(),
      std::int64_t high = std::numeric_limits<std::int64_t>::max()) const;

  [[nodiscard]] Result<std::string_view> text(std::string_view key) const;
  [[nodiscard]] Result<std::int64_t> integer(std::string_view key, std::int64_t low,
                                             std::int64_t high) const;
  /// As above, with a value for a member that is not there.
  [[nodiscard]] Result<std::string_view> text_or(std::string_view key,
                                                 std::string_view otherwise) const;
  [[nodiscard]] Result<std::int64_t> integer_or(std::string_view key, std::int64_t low,
                                                std::int64_t high, std::int64_t otherwise) const;
  [[nodiscard]] Result<bool> boolean_or(std::string_view key, bool otherwise) const;

  [[nodiscard]] std::string path() const;
  /// An error at this place.
  [[nodiscard]] Error error(std::string_view message) const;

 private:
  View() = default;
  [[nodiscard]] const Document::Token& token() const { return m_document->tokens()[m_token]; }
  [[nodiscard]] Error kind_error(std::string_view wanted) const;
  [[nodiscard]] Result<Children> children(Document::Kind kind, std::string_view wanted) const&;

  const Document* m_document = nullptr;
  const View* m_parent = nullptr;
  std::string_view m_key;     ///< no data: an element
  std::uint32_t m_token = 0;  ///< in the document
  std::uint32_t m_index = 0;  ///< of an element
};

/// What is in a container, for a range-based for.
class View::Children {
 public:
  class Iterator {
   public:
    Iterator(const View& parent, std::uint32_t token, std::uint32_t index)
        : m_parent(&parent), m_token(token), m_index(index) {}
    [[nodiscard]] View operator*() const;
    Iterator& operator++();
    friend bool operator==(const Iterator& a, const Iterator& b) { return a.m_index == b.m_index; }

   private:
    [[nodiscard]] const Document::Token& at(std::uint32_t token) const {
      return m_parent->m_document->tokens()[token];
    }
    [[nodiscard]] bool has_keys() const { return m_parent->kind() == Document::Kind::object; }
    const View* m_parent;
    std::uint32_t m_token;
    std::uint32_t m_index;
  };

  [[nodiscard]] Iterator begin() const { return {*m_parent, m_parent->m_token + 1, 0}; }
  [[nodiscard]] Iterator end() const { return {*m_parent, 0, m_count}; }
  [[nodiscard]] std::size_t size() const { return m_count; }

 private:
  friend class View;
  Children() = default;
  Children(const View& parent, std::uint32_t count) : m_parent(&parent), m_count(count) {}
  const View* m_parent = nullptr;
  std::uint32_t m_count = 0;
};

}  // namespace cubinary::core::json
