// SPDX-License-Identifier: Apache-2.0
#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>

#include "core/manifest/keys.hpp"
#include "core/model/dtype.hpp"
#include "core/model/target.hpp"

// The schema, the parser's keys and the reference page must not drift apart.

using namespace cubinary::core;

namespace {

std::string read(const std::string& name) {
  std::ifstream file(std::string(CUBINARY_SOURCE) + "/" + name);
  REQUIRE(file.good());
  return {std::istreambuf_iterator<char>(file), {}};
}

std::set<std::string> keys_of(const nlohmann::json& object) {
  std::set<std::string> keys;
  for (const auto& [key, value] : object.items()) {
    keys.insert(key);
  }
  return keys;
}

}  // namespace

TEST_CASE("the schema has exactly the keys that the parser accepts") {
  const auto schema = nlohmann::json::parse(read("schema/manifest.schema.json"));
  const nlohmann::json& definitions = schema.at("$defs");
  std::set<std::string> closed;
  for (const auto& [name, definition] : definitions.items()) {
    if (definition.contains("properties")) {
      closed.insert(name);
      CHECK(definition.at("additionalProperties") == false);
    }
  }
  std::set<std::string> sections;
  for (const ManifestSection& section : manifest_sections()) {
    INFO(section.name);
    sections.insert(std::string(section.name));
    REQUIRE(definitions.contains(section.name));
    CHECK(keys_of(definitions.at(std::string(section.name)).at("properties")) ==
          std::set<std::string>(section.keys.begin(), section.keys.end()));
  }
  CHECK(closed == sections);
}

TEST_CASE("the schema knows every dtype") {
  const auto schema = nlohmann::json::parse(read("schema/manifest.schema.json"));
  std::set<std::string> names;
  for (const DType& dtype : dtype_table()) {
    names.emplace(dtype.name);
  }
  const nlohmann::json& listed = schema.at("$defs").at("dtype").at("enum");
  CHECK(std::set<std::string>(listed.begin(), listed.end()) == names);
}

TEST_CASE("every reference in the schema leads somewhere") {
  const std::string text = read("schema/manifest.schema.json");
  const auto schema = nlohmann::json::parse(text);
  const std::string mark = "\"#/$defs/";
  int count = 0;
  for (std::size_t at = 0; (at = text.find(mark, at)) != std::string::npos; ++count) {
    at += mark.size();
    CHECK(schema.at("$defs").contains(text.substr(at, text.find('"', at) - at)));
  }
  CHECK(count > 50);
}

TEST_CASE("the reference page names every key") {
  const std::string page = read("docs/manifest.md");
  for (const ManifestSection& section : manifest_sections()) {
    for (const std::string& key : section.keys) {
      INFO(section.name << "." << key);
      CHECK(page.find("`" + key + "`") != std::string::npos);
    }
  }
  for (const DType& dtype : dtype_table()) {
    CHECK(page.find("`" + std::string(dtype.name) + "` | " + std::to_string(dtype.bytes) + " | `" +
                    std::string(dtype.c_name) + "`") != std::string::npos);
  }
}
