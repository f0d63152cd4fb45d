// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch_test_macros.hpp>

#include "core/base/json.hpp"
#include "tests/core/schema_walk.hpp"
#include "tests/core/wire_fixture.hpp"

using namespace cubinary::core;
using json::Array;
using json::Object;
using json::Value;

namespace {

std::vector<std::string> problems(const std::string& document) {
  return test::schema_problems("catalogue.schema.json", document);
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
