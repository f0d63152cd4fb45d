// SPDX-License-Identifier: Apache-2.0
#include "core/base/json_document.hpp"

#include <cassert>
#include <charconv>
#include <cstdlib>

#include "core/base/json_text.hpp"

namespace cubinary::core::json {

using Kind = Document::Kind;

View View::in(const Document& document) const {
  View view(*this);
  view.m_document = &document;
  view.m_token = 0;
  return view;
}

Result<View> View::at(std::string_view name) const& {
  TRY_ASSIGN(View view, find(name));
  if (!view.exists()) {
    return fail(error(is_missing(name)));
  }
  return view;
}

Result<View> View::find(std::string_view name) const& {
  TRY(members());
  View view;
  view.m_parent = this;
  view.m_key = name;
  const auto& tokens = m_document->tokens();
  for (std::uint32_t at = m_token + 1; at < token().end; at = tokens[at + 1].end) {
    if (tokens[at].view() == name) {
      view.m_document = m_document;
      view.m_token = at + 1;
      break;
    }
  }
  return view;
}

Result<View::Children> View::children(Kind kind, std::string_view wanted) const& {
  if (m_document == nullptr || token().kind != kind) {
    return fail(kind_error(wanted));
  }
  assert(token().kept);
  return Children(*this, token().kept ? token().count : 0);
}

Result<View::Children> View::elements() const& {
  return children(Kind::array, "an array");
}

Result<View::Children> View::members() const& {
  return children(Kind::object, "an object");
}

Result<std::string_view> View::text() const {
  if (m_document == nullptr || token().kind != Kind::text) {
    return fail(kind_error("text"));
  }
  return token().view();
}

Result<bool> View::boolean() const {
  if (m_document == nullptr || (kind() != Kind::truth && kind() != Kind::falsehood)) {
    return fail(kind_error("true or false"));
  }
  return kind() == Kind::truth;
}

Result<double> View::number() const {
  if (m_document == nullptr || (kind() != Kind::integer && kind() != Kind::number)) {
    return fail(kind_error("a number"));
  }
  if (kind() == Kind::integer) {
    return integer().map([](std::int64_t value) { return static_cast<double>(value); });
  }
  return number_of(raw());
}

Result<std::int64_t> View::integer(std::int64_t low, std::int64_t high) const {
  if (m_document == nullptr || kind() != Kind::integer) {
    return fail(kind_error("an integer"));
  }
  std::int64_t value = 0;
  (void)std::from_chars(raw().data(), raw().data() + raw().size(), value);  // checked when parsed
  if (value < low || value > high) {
    return fail(error(is_not_between(value, low, high)));
  }
  return value;
}

Result<std::string_view> View::text(std::string_view name) const {
  TRY_ASSIGN(const View view, at(name));
  return view.text();
}

Result<std::int64_t> View::integer(std::string_view name, std::int64_t low,
                                   std::int64_t high) const {
  TRY_ASSIGN(const View view, at(name));
  return view.integer(low, high);
}

Result<std::string_view> View::text_or(std::string_view name, std::string_view otherwise) const {
  TRY_ASSIGN(const View view, find(name));
  return view.exists() ? view.text() : Result<std::string_view>(otherwise);
}

Result<std::int64_t> View::integer_or(std::string_view name, std::int64_t low, std::int64_t high,
                                      std::int64_t otherwise) const {
  TRY_ASSIGN(const View view, find(name));
  return view.exists() ? view.integer(low, high) : Result<std::int64_t>(otherwise);
}

Result<bool> View::boolean_or(std::string_view name, bool otherwise) const {
  TRY_ASSIGN(const View view, find(name));
  return view.exists() ? view.boolean() : Result<bool>(otherwise);
}

std::string View::path() const {
  return m_parent == nullptr
             ? std::string(m_key)
             : path_below(m_parent->path(), m_parent->m_parent == nullptr, m_key, m_index);
}

Error View::error(std::string_view message) const {
  return error_at(path(), message);
}

Error View::kind_error(std::string_view wanted) const {
  return error("must be " + std::string(wanted));
}

View View::Children::Iterator::operator*() const {
  View view;
  view.m_document = m_parent->m_document;
  view.m_parent = m_parent;
  view.m_token = m_token;
  if (has_keys()) {
    view.m_key = at(m_token).view();
    ++view.m_token;
  } else {
    view.m_index = m_index;
  }
  return view;
}

View::Children::Iterator& View::Children::Iterator::operator++() {
  m_token = at(has_keys() ? m_token + 1 : m_token).end;
  ++m_index;
  return *this;
}

}  // namespace cubinary::core::json
