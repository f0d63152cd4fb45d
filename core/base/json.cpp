// SPDX-License-Identifier: Apache-2.0
#include "core/base/json.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include <nlohmann/json.hpp>

#include "core/base/json_text.hpp"

namespace cubinary::core::json {
namespace {

bool is_plain(std::string_view text) {
  return std::ranges::all_of(
      text, [](char c) { return c >= ' ' && c < '\x7f' && c != '"' && c != '\\'; });
}

void write_text(std::string& out, std::string_view text) {
  if (is_plain(text)) {
    out += '"';
    out += text;
    out += '"';
    return;
  }
  out += nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

template <typename T>
void write_number(std::string& out, T value) {
  std::array<char, 32> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  out.append(digits.data(), end);
}

void write(std::string& out, const Value& value);

struct Writer {
  std::string& out;

  void operator()(std::nullptr_t) const { out += "null"; }
  void operator()(bool value) const { out += value ? "true" : "false"; }
  void operator()(std::int64_t value) const { write_number(out, value); }
  void operator()(double value) const {
    if (std::isfinite(value)) {
      write_number(out, value);
    } else {
      out += "null";
    }
  }
  void operator()(const std::string& value) const { write_text(out, value); }
  void operator()(const Array& array) const {
    out += '[';
    for (std::size_t i = 0; i < array.size(); ++i) {
      if (i > 0) {
        out += ',';
      }
      write(out, array[i]);
    }
    out += ']';
  }
  void operator()(const Object& object) const {
    out += '{';
    bool first = true;
    for (const auto& [key, member] : object) {
      if (!first) {
        out += ',';
      }
      first = false;
      write_text(out, key);
      out += ':';
      write(out, member);
    }
    out += '}';
  }
};

void write(std::string& out, const Value& value) {
  std::visit(Writer{out}, value.storage());
}

template <typename T>
const T* get(const Value* value) {
  return value == nullptr ? nullptr : value->get_if<T>();
}

}  // namespace

std::string printable(std::string text) {
  std::ranges::replace_if(
      text, [](char c) { return static_cast<unsigned char>(c) < ' ' || c == '\x7f'; }, '?');
  return text;
}

std::string path_below(const std::string& parent, bool below_top, std::string_view key,
                       std::size_t index) {
  if (key.data() == nullptr) {
    return parent + "[" + std::to_string(index) + "]";
  }
  return parent + (below_top ? ": " : ".") + std::string(key);
}

Error error_at(const std::string& path, std::string_view message) {
  return Error{ErrorCode::corrupt, printable(path + ": " + std::string(message))};
}

std::string is_missing(std::string_view name) {
  return "\"" + std::string(name) + "\" is missing";
}

std::string is_not_between(std::int64_t value, std::int64_t low, std::int64_t high) {
  return std::to_string(value) + " is not between " + std::to_string(low) + " and " +
         std::to_string(high);
}

std::string to_text(const Value& value) {
  std::string out;
  write(out, value);
  return out;
}

Result<Node> Node::at(std::string_view name) const& {
  TRY_ASSIGN(Node node, find(name));
  if (!node.exists()) {
    return fail(error(is_missing(name)));
  }
  return node;
}

Result<Node> Node::find(std::string_view name) const& {
  const auto* object = get<Object>(m_value);
  if (object == nullptr) {
    return fail(kind_error("an object"));
  }
  const auto found = object->find(name);
  if (found == object->end()) {
    return Node(nullptr, this, name);
  }
  return Node(&found->second, this, found->first);
}

Result<std::vector<Node>> Node::elements() const& {
  const auto* array = get<Array>(m_value);
  if (array == nullptr) {
    return fail(kind_error("an array"));
  }
  std::vector<Node> nodes;
  nodes.reserve(array->size());
  for (std::size_t i = 0; i < array->size(); ++i) {
    nodes.push_back(Node(&(*array)[i], this, i));
  }
  return nodes;
}

Result<std::vector<Node>> Node::members() const& {
  const auto* object = get<Object>(m_value);
  if (object == nullptr) {
    return fail(kind_error("an object"));
  }
  std::vector<Node> nodes;
  nodes.reserve(object->size());
  for (const auto& [name, member] : *object) {
    nodes.push_back(Node(&member, this, std::string_view(name)));
  }
  return nodes;
}

Result<std::string> Node::text() const {
  if (const auto* found = get<std::string>(m_value)) {
    return *found;
  }
  return fail(kind_error("text"));
}

Result<bool> Node::boolean() const {
  if (const auto* found = get<bool>(m_value)) {
    return *found;
  }
  return fail(kind_error("true or false"));
}

Result<double> Node::number() const {
  if (const auto* found = get<double>(m_value)) {
    return *found;
  }
  if (const auto* found = get<std::int64_t>(m_value)) {
    return static_cast<double>(*found);
  }
  return fail(kind_error("a number"));
}

Result<std::int64_t> Node::integer(std::int64_t low, std::int64_t high) const {
  const auto* found = get<std::int64_t>(m_value);
  if (found == nullptr) {
    return fail(kind_error("an integer"));
  }
  if (*found < low || *found > high) {
    return fail(error(is_not_between(*found, low, high)));
  }
  return *found;
}

Result<std::map<std::string, std::string>> Node::text_map() const {
  TRY_ASSIGN(const std::vector<Node> nodes, members());
  std::map<std::string, std::string> map;
  for (const Node& node : nodes) {
    TRY_ASSIGN(std::string value, node.text());
    map.emplace(node.key(), std::move(value));
  }
  return map;
}

Result<std::string> Node::text(std::string_view name) const {
  TRY_ASSIGN(const Node node, at(name));
  return node.text();
}

Result<std::int64_t> Node::integer(std::string_view name, std::int64_t low,
                                   std::int64_t high) const {
  TRY_ASSIGN(const Node node, at(name));
  return node.integer(low, high);
}

Result<std::string> Node::text_or(std::string_view name, std::string_view otherwise) const {
  TRY_ASSIGN(const Node node, find(name));
  return node.exists() ? node.text() : Result<std::string>(std::string(otherwise));
}

Result<std::int64_t> Node::integer_or(std::string_view name, std::int64_t low, std::int64_t high,
                                      std::int64_t otherwise) const {
  TRY_ASSIGN(const Node node, find(name));
  return node.exists() ? node.integer(low, high) : Result<std::int64_t>(otherwise);
}

Result<bool> Node::boolean_or(std::string_view name, bool otherwise) const {
  TRY_ASSIGN(const Node node, find(name));
  return node.exists() ? node.boolean() : Result<bool>(otherwise);
}

std::string Node::path() const {
  return m_parent == nullptr
             ? std::string(m_key)
             : path_below(m_parent->path(), m_parent->m_parent == nullptr, m_key, m_index);
}

Error Node::error(std::string_view message) const {
  return error_at(path(), message);
}

Error Node::kind_error(std::string_view wanted) const {
  return error("must be " + std::string(wanted));
}

}  // namespace cubinary::core::json
