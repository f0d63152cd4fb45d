// SPDX-License-Identifier: Apache-2.0
#include "cli/answer.hpp"

#include <cstdio>

namespace cubinary::cli {
namespace {

namespace json = core::json;

template <typename T>
const T* find(const json::Value& object, std::string_view key) {
  const auto* members = object.get_if<json::Object>();
  if (members == nullptr) {
    return nullptr;
  }
  const auto found = members->find(key);
  return found == members->end() ? nullptr : found->second.get_if<T>();
}

}  // namespace

std::string text_at(const json::Value& object, std::string_view key) {
  const auto* text = find<std::string>(object, key);
  return text == nullptr ? std::string() : *text;
}

std::int64_t integer_at(const json::Value& object, std::string_view key) {
  const auto* number = find<std::int64_t>(object, key);
  return number == nullptr ? 0 : *number;
}

double number_at(const json::Value& object, std::string_view key) {
  const auto* number = find<double>(object, key);
  return number == nullptr ? static_cast<double>(integer_at(object, key)) : *number;
}

bool flag_at(const json::Value& object, std::string_view key) {
  const auto* flag = find<bool>(object, key);
  return flag != nullptr && *flag;
}

const json::Array& array_of(const json::Value& value) {
  static const json::Array k_empty;
  const auto* array = value.get_if<json::Array>();
  return array == nullptr ? k_empty : *array;
}

const json::Array& array_at(const json::Value& object, std::string_view key) {
  static const json::Array k_empty;
  const auto* array = find<json::Array>(object, key);
  return array == nullptr ? k_empty : *array;
}

std::string list_at(const json::Value& object, std::string_view key) {
  std::string text;
  for (const json::Value& item : array_at(object, key)) {
    if (const auto* word = item.get_if<std::string>()) {
      text += (text.empty() ? "" : ", ") + *word;
    }
  }
  return text;
}

std::string display_at(const json::Value& object, std::string_view key) {
  const auto* members = find<json::Object>(object, key);
  std::string text;
  if (members != nullptr) {
    for (const auto& [name, value] : *members) {
      const auto* word = value.get_if<std::string>();
      text += (text.empty() ? "" : " ") + name + "=" + (word ? *word : json::to_text(value));
    }
  }
  return text.empty() ? "-" : text;
}

void print_json(const json::Value& value) {
  std::printf("%s\n", json::to_text(value).c_str());
}

}  // namespace cubinary::cli
