// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <catch2/catch_test_macros.hpp>

#include "core/base/file.hpp"
#include "core/base/json.hpp"
#include "tests/core/wire_fixture.hpp"

using namespace cubinary::core;
using json::Array;
using json::Object;
using json::Value;

namespace {

// Walks a document along the schema: every required member is there, every member there is
// described, constants and enumerations hold. Problems are collected as paths.
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

Value load_schema() {
  const std::string path = std::string(CUBINARY_GOLDEN) + "/../../../schema/catalogue.schema.json";
  return json::parse(read_text_file(path, 1U << 20U).value()).value();
}

std::vector<std::string> problems(const std::string& document) {
  const Value schema = load_schema();
  SchemaWalk walk(schema);
  walk.check(json::parse(document).value(), schema, "");
  return walk.problems();
}

// A table with every optional member in use.
Catalogue full_catalogue() {
  Catalogue catalogue = test::sample_catalogue();
  KernelTable& table = catalogue.kernels[0];
  table.axes.push_back({"dim", {64}, Bucket::exact, true, {}});
  Argument scratch;
  scratch.name = "scratch";
  scratch.kind = ArgumentKind::workspace;
  scratch.type = "f32";
  scratch.length = test::expr("rows");
  scratch.zeroed = true;
  Argument blob;
  blob.name = "blob";
  blob.kind = ArgumentKind::bytes;
  blob.byte_size = 16;
  blob.byte_align = 8;
  table.arguments.insert(table.arguments.end(), {scratch, blob});
  table.arguments[1].nullable = true;
  table.steps[0].launch.cooperative = true;
  table.steps[0].launch.cluster = {test::expr("1")};
  return catalogue;
}

}  // namespace

TEST_CASE("what is written is what the schema describes") {
  CHECK(problems(test::golden("catalogue.v1.json")).empty());
  CHECK(problems(catalogue_to_json(full_catalogue())).empty());
}

TEST_CASE("the schema walk sees what is wrong") {
  std::string text = test::golden("catalogue.v1.json");
  text.replace(text.find("\"rank\""), 6, "\"tank\"");
  CHECK(problems(text) == std::vector<std::string>{".kernels[].entries[].tank is not described",
                                                   ".kernels[].entries[].rank"});
}

TEST_CASE("a schema's required members are those the reader cannot do without") {
  const Value document = json::parse(test::golden("catalogue.v1.json")).value();
  const Object& catalogue = *document.get_if<Object>();
  for (const auto& [key, value] : catalogue) {
    Object without = catalogue;
    without.erase(key);
    INFO(key);
    CHECK_FALSE(catalogue_from_json(json::to_text(without)));
  }
  const Object& kernel = *catalogue.at("kernels").get_if<Array>()->front().get_if<Object>();
  for (const auto& [key, value] : kernel) {
    Object without = kernel;
    without.erase(key);
    INFO(key);
    CHECK_FALSE(table_from_json(json::to_text(without)));
  }
  CHECK(table_from_json(json::to_text(kernel)));
}
