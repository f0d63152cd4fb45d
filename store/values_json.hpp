// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "core/base/digest.hpp"
#include "core/base/json.hpp"
#include "core/base/result.hpp"
#include "core/model/device_class.hpp"
#include "core/model/values.hpp"

/// The values that many documents share, as members of JSON objects.
namespace cubinary::store {

[[nodiscard]] inline core::json::Object values_to_json(const core::Config& config) {
  core::json::Object object;
  for (const auto& [name, value] : config) {
    object.emplace(name, std::visit([](const auto& v) { return core::json::Value(v); }, value));
  }
  return object;
}
template <typename T>
[[nodiscard]] core::json::Object values_to_json(const std::map<std::string, T>& map) {
  return {map.begin(), map.end()};
}

/// A member that is an object of values, read by their own strict parser
/// (`core::config_from_json`).
template <typename T>
[[nodiscard]] core::Result<T> values_at(const core::json::Node& parent, std::string_view key,
                                        core::Result<T> (*parse)(std::string_view)) {
  TRY_ASSIGN(const core::json::Node node, parent.at(key));
  auto value = parse(core::json::to_text(node.value()));
  if (!value) {
    return core::fail(node.error(value.error().message));
  }
  return value;
}

[[nodiscard]] inline core::Result<core::Digest> digest_at(const core::json::Node& parent,
                                                          std::string_view key) {
  TRY_ASSIGN(const core::json::Node node, parent.at(key));
  TRY_ASSIGN(const std::string text, node.text());
  const auto parsed = core::Digest::parse(text);
  if (!parsed) {
    return core::fail(node.error(parsed.error().message));
  }
  return *parsed;
}

[[nodiscard]] inline core::Result<core::DeviceClass> device_class_at(const core::json::Node& parent,
                                                                     std::string_view key) {
  TRY_ASSIGN(const core::json::Node node, parent.at(key));
  TRY_ASSIGN(const std::string text, node.text());
  const auto parsed = core::DeviceClass::parse(text);
  if (!parsed) {
    return core::fail(node.error(parsed.error().message));
  }
  return *parsed;
}

/// A finite number, at least 0.
[[nodiscard]] inline core::Result<double> amount_at(const core::json::Node& parent,
                                                    std::string_view key) {
  TRY_ASSIGN(const core::json::Node node, parent.at(key));
  TRY_ASSIGN(const double value, node.number());
  if (!(value >= 0)) {
    return core::fail(node.error("must not be negative"));
  }
  return value;
}

}  // namespace cubinary::store
