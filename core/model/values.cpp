// SPDX-License-Identifier: Apache-2.0
#include "core/model/values.hpp"

#include <nlohmann/json.hpp>

namespace cubinary::core {
namespace {

using nlohmann::json;

std::string dump(const json& object) {
  return object.dump(-1, ' ', false, json::error_handler_t::replace);
}

json to_node(const TunableValue& value) {
  return std::visit([](const auto& v) { return json(v); }, value);
}

Result<json> parse_object(std::string_view text, const char* what) {
  json object = json::parse(text, nullptr, false);
  if (!object.is_object()) {
    return fail(ErrorCode::corrupt, std::string(what) + " is no JSON object");
  }
  return object;
}

Result<std::int64_t> integer_of(const json& node, const std::string& key, const char* what) {
  if (node.is_number_integer() &&
      !(node.is_number_unsigned() && node.get<std::uint64_t>() > INT64_MAX)) {
    return node.get<std::int64_t>();
  }
  return fail(ErrorCode::corrupt, std::string(what) + ": \"" + key + "\" is no 64-bit integer");
}

template <typename Map, typename Text>
std::string display(const Map& map, Text text) {
  std::string out;
  for (const auto& [key, value] : map) {
    out += (out.empty() ? "" : " ") + key + "=" + text(value);
  }
  return out.empty() ? "-" : out;
}

}  // namespace

Result<std::int64_t> to_integer(const TunableValue& value) {
  if (const auto* flag = std::get_if<bool>(&value)) {
    return *flag ? 1 : 0;
  }
  if (const auto* number = std::get_if<std::int64_t>(&value)) {
    return *number;
  }
  return fail(ErrorCode::expression,
              "the text value \"" + std::get<std::string>(value) + "\" is no number");
}

std::string to_code(const TunableValue& value) {
  if (const auto* flag = std::get_if<bool>(&value)) {
    return *flag ? "true" : "false";
  }
  if (const auto* number = std::get_if<std::int64_t>(&value)) {
    return std::to_string(*number);
  }
  return std::get<std::string>(value);
}

std::string to_json(const Config& config) {
  json object = json::object();
  for (const auto& [name, value] : config) {
    object[name] = to_node(value);
  }
  return dump(object);
}

std::string to_json(const Shape& shape) {
  return dump(shape.empty() ? json::object() : json(shape));
}

std::string to_json(const Types& types) {
  return dump(types.empty() ? json::object() : json(types));
}

Result<Config> config_from_json(std::string_view text) {
  TRY_ASSIGN(const json object, parse_object(text, "config"));
  Config config;
  for (const auto& [name, node] : object.items()) {
    if (node.is_boolean()) {
      config[name] = node.get<bool>();
    } else if (node.is_string()) {
      config[name] = node.get<std::string>();
    } else {
      TRY_ASSIGN(config[name], integer_of(node, name, "config"));
    }
  }
  return config;
}

Result<Shape> shape_from_json(std::string_view text) {
  TRY_ASSIGN(const json object, parse_object(text, "shape"));
  Shape shape;
  for (const auto& [name, node] : object.items()) {
    TRY_ASSIGN(shape[name], integer_of(node, name, "shape"));
  }
  return shape;
}

Result<Types> types_from_json(std::string_view text) {
  TRY_ASSIGN(const json object, parse_object(text, "types"));
  Types types;
  for (const auto& [name, node] : object.items()) {
    if (!node.is_string()) {
      return fail(ErrorCode::corrupt, "types: \"" + name + "\" is no text");
    }
    types[name] = node.get<std::string>();
  }
  return types;
}

std::string to_display(const Config& config) {
  return display(config, to_code);
}

std::string to_display(const Shape& shape) {
  return display(shape, [](std::int64_t value) { return std::to_string(value); });
}

std::string to_display(const Types& types) {
  return display(types, [](const std::string& value) { return value; });
}

}  // namespace cubinary::core
