// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "core/base/result.hpp"

/// JSON as our wire formats use it: strict when read, canonical when written.
namespace cubinary::core::json {

class Value;
using Array = std::vector<Value>;
using Object = std::map<std::string, Value, std::less<>>;

/// One JSON value. Integers are int64 and apart from other numbers.
class Value {
 public:
  using Storage =
      std::variant<std::nullptr_t, bool, std::int64_t, double, std::string, Array, Object>;

  Value() = default;
  Value(std::nullptr_t) {}
  Value(bool value) : m_storage(value) {}
  Value(double value) : m_storage(value) {}
  Value(std::string value) : m_storage(std::move(value)) {}
  Value(std::string_view value) : m_storage(std::string(value)) {}
  Value(const char* value) : m_storage(std::string(value)) {}
  Value(Array value) : m_storage(std::move(value)) {}
  Value(Object value) : m_storage(std::move(value)) {}
  /// Unsigned values must fit int64, as every size and count of ours does.
  template <std::integral T>
    requires(!std::same_as<T, bool>)
  Value(T value) : m_storage(static_cast<std::int64_t>(value)) {}

  template <typename T>
  [[nodiscard]] const T* get_if() const {
    return std::get_if<T>(&m_storage);
  }
  [[nodiscard]] const Storage& storage() const { return m_storage; }

  friend bool operator==(const Value&, const Value&) = default;

 private:
  Storage m_storage;
};

/// The canonical text: compact, keys in byte order, shortest digits that read back to the same
/// number, UTF-8 as it is (bytes that are not UTF-8 become U+FFFD). A number that is not finite
/// becomes null.
[[nodiscard]] std::string to_text(const Value& value);

/// Parses one document. Refuses, as `corrupt`: malformed text, a byte order mark, trailing data,
/// duplicate keys, integers beyond int64, numbers beyond double, nesting deeper than `max_depth`.
[[nodiscard]] Result<Value> parse(std::string_view text, int max_depth = 32);

/// A place in a document that knows its path, for reading with checks: every error is `corrupt` and
/// begins with the path ("kernels[3].entries[0].offset: …"). A view: neither the document nor the
/// Node it was reached from may go away or move before it.
class Node {
 public:
  /// The document's top, called `name` in messages ("the catalogue").
  Node(const Value& document, std::string_view name) : m_value(&document), m_key(name) {}

  /// An object's member; a missing one is an error.
  [[nodiscard]] Result<Node> at(std::string_view key) const&;
  Result<Node> at(std::string_view key) const&& = delete;
  /// An object's member; a missing one is a Node for which `exists` is false.
  [[nodiscard]] Result<Node> find(std::string_view key) const&;
  Result<Node> find(std::string_view key) const&& = delete;
  [[nodiscard]] bool exists() const { return m_value != nullptr; }

  /// Elements of an array, members of an object (names through `key`).
  [[nodiscard]] Result<std::vector<Node>> elements() const&;
  Result<std::vector<Node>> elements() const&& = delete;
  [[nodiscard]] Result<std::vector<Node>> members() const&;
  Result<std::vector<Node>> members() const&& = delete;
  [[nodiscard]] std::string_view key() const { return m_key; }

  [[nodiscard]] Result<std::string> text() const;
  [[nodiscard]] Result<bool> boolean() const;
  [[nodiscard]] Result<double> number() const;
  [[nodiscard]] Result<std::int64_t> integer(
      std::int64_t low = std::numeric_limits<std::int64_t>::min(),
      std::int64_t high = std::numeric_limits<std::int64_t>::max()) const;
  /// An object whose members are all text.
  [[nodiscard]] Result<std::map<std::string, std::string>> text_map() const;

  [[nodiscard]] Result<std::string> text(std::string_view key) const;
  [[nodiscard]] Result<std::int64_t> integer(std::string_view key, std::int64_t low,
                                             std::int64_t high) const;
  /// As above, with a value for a member that is not there.
  [[nodiscard]] Result<std::string> text_or(std::string_view key, std::string_view otherwise) const;
  [[nodiscard]] Result<std::int64_t> integer_or(std::string_view key, std::int64_t low,
                                                std::int64_t high, std::int64_t otherwise) const;
  [[nodiscard]] Result<bool> boolean_or(std::string_view key, bool otherwise) const;

  [[nodiscard]] const Value& value() const { return *m_value; }
  [[nodiscard]] std::string path() const;
  /// An error at this place.
  [[nodiscard]] Error error(std::string_view message) const;

 private:
  Node(const Value* value, const Node* parent, std::string_view key)
      : m_value(value), m_parent(parent), m_key(key) {}
  Node(const Value* value, const Node* parent, std::size_t index)
      : m_value(value), m_parent(parent), m_index(index) {}
  [[nodiscard]] Error kind_error(std::string_view wanted) const;

  const Value* m_value;
  const Node* m_parent = nullptr;
  std::string_view m_key;
  std::size_t m_index = 0;
};

}  // namespace cubinary::core::json
