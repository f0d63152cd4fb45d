// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "core/base/file.hpp"
#include "core/base/json.hpp"

namespace cubinary::core::test {

using json::Array;
using json::Object;
using json::Value;

/// Walks a document along the schema: every required member is there, every member there is
/// described, constants and enumerations hold. Problems are collected as paths.
class SchemaWalk {
 public:
  explicit SchemaWalk(const Value& schema) : m_root(schema) {}

  void check(const Value& value, const Value& schema, const std::string& path) {
    const Object& rules = object(resolved(schema));
    if (const auto constant = rules.find("const"); constant != rules.end()) {
      expect(constant->second == value, path);
    }
    if (const auto allowed = rules.find("enum"); allowed != rules.end()) {
      expect(std::ranges::count(*allowed->second.get_if<Array>(), value) == 1, path);
    }
    if (const auto* members = value.get_if<Object>()) {
      check_object(*members, rules, path);
    }
    if (const auto* items = value.get_if<Array>()) {
      expect(rules.contains("items"), path);
      for (const Value& item : *items) {
        check(item, rules.at("items"), path + "[]");
      }
    }
  }

  [[nodiscard]] const std::vector<std::string>& problems() const { return m_problems; }

 private:
  static const Object& object(const Value& value) { return *value.get_if<Object>(); }

  const Value& resolved(const Value& schema) const {
    const auto reference = object(schema).find("$ref");
    if (reference == object(schema).end()) {
      return schema;
    }
    const std::string& name = *reference->second.get_if<std::string>();
    return object(object(m_root).at("$defs")).at(name.substr(std::string("#/$defs/").size()));
  }

  void check_object(const Object& members, const Object& rules, const std::string& path) {
    if (const auto any = rules.find("additionalProperties"); any != rules.end()) {
      for (const auto& [key, member] : members) {
        check(member, any->second, path + ".*");
      }
      return;
    }
    const Object& known = object(rules.at("properties"));
    for (const auto& [key, member] : members) {
      if (const auto found = known.find(key); found != known.end()) {
        check(member, found->second, path + "." + key);
      } else {
        m_problems.push_back(path + "." + key + " is not described");
      }
    }
    for (const Value& key : *rules.at("required").get_if<Array>()) {
      expect(members.contains(*key.get_if<std::string>()), path + "." + *key.get_if<std::string>());
    }
  }

  void expect(bool holds, const std::string& path) {
    if (!holds) {
      m_problems.push_back(path);
    }
  }

  const Value& m_root;
  std::vector<std::string> m_problems;
};

/// What of `document` the schema of this name in schema/ does not allow.
inline std::vector<std::string> schema_problems(const std::string& name,
                                                const std::string& document) {
  const std::string path = std::string(CUBINARY_GOLDEN) + "/../../../schema/" + name;
  const Value schema = json::parse(read_text_file(path, 1U << 20U).value()).value();
  SchemaWalk walk(schema);
  walk.check(json::parse(document).value(), schema, "");
  return walk.problems();
}

}  // namespace cubinary::core::test
