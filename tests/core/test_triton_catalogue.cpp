// SPDX-License-Identifier: Apache-2.0
#include <functional>
#include <utility>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "core/base/json.hpp"
#include "tests/core/schema_walk.hpp"
#include "tests/core/triton_fixture.hpp"
#include "tests/core/wire_fixture.hpp"

using namespace cubinary::core;
using Catch::Matchers::ContainsSubstring;

namespace {

const char* const k_golden = "triton-catalogue.v1.json";

/// The error of a catalogue that `change` was done to.
Error error_after(const std::function<void(TritonCatalogue&)>& change) {
  TritonCatalogue catalogue = test::sample_triton_catalogue();
  change(catalogue);
  const auto read = triton_catalogue_from_json(triton_catalogue_to_json(catalogue));
  REQUIRE_FALSE(read);
  return read.error();
}

}  // namespace

TEST_CASE("a Triton catalogue is the golden bytes, and reads back") {
  const std::string text = triton_catalogue_to_json(test::sample_triton_catalogue());
  CHECK(text == test::golden(k_golden));
  const auto read = triton_catalogue_from_json(text);
  REQUIRE(read);
  CHECK(triton_catalogue_to_json(*read) == text);
  CHECK(read->release == "r1");
  CHECK(read->target.text() == "sm_90");
  REQUIRE(read->kernels.size() == 2);
  CHECK(read->kernels[0].key == "AAA");
  CHECK(read->kernels[0].files.at("add_kernel.cubin") == sha256("cubin"));
  CHECK(read->kernels[0].key_parts.at("ptxas") == "12.8.93");
  REQUIRE(read->host.size() == 2);
  CHECK(read->host[0].source.empty());
  CHECK(read->host[1].keys == std::vector<std::string>{"HOST1", "HOST2"});
  CHECK(read->host[1].glibc_floor == "2.14");
  CHECK(read->autotune.at(0).device_class == "sm90-s132-l50M-b6144-m144G");
  CHECK(read->packs.at(1).files.at(2).size == 8);
}

TEST_CASE("what is written of Triton is what its schema describes") {
  CHECK(test::schema_problems("triton-catalogue.schema.json", test::golden(k_golden)).empty());
  std::string text = test::golden(k_golden);
  text.replace(text.find("\"group\""), 7, "\"grope\"");
  CHECK(test::schema_problems("triton-catalogue.schema.json", text) ==
        std::vector<std::string>{".kernels[].grope is not described", ".kernels[].group"});
}

TEST_CASE("every member of a Triton catalogue is needed") {
  const json::Value document = json::parse(test::golden(k_golden)).value();
  const auto& catalogue = *document.get_if<json::Object>();
  for (const auto& [key, value] : catalogue) {
    json::Object without = catalogue;
    without.erase(key);
    INFO(key);
    CHECK_FALSE(triton_catalogue_from_json(json::to_text(without)));
  }
  for (const char* list : {"kernels", "host", "autotune", "packs"}) {
    const json::Array& items = *catalogue.at(list).get_if<json::Array>();
    for (const auto& [key, value] : *items.front().get_if<json::Object>()) {
      json::Object item = *items.front().get_if<json::Object>();
      item.erase(key);
      json::Object changed = catalogue;
      changed[list] = json::Array{item};
      INFO(list << "." << key);
      CHECK_FALSE(triton_catalogue_from_json(json::to_text(changed)));
    }
  }
}

TEST_CASE("a catalogue cannot name a place outside the cache") {
  for (const char* key : {"", "..", "a/b", "/etc", ".hidden", "a b"}) {
    INFO(key);
    CHECK_THAT(error_after([&](auto& c) { c.kernels[1].key = key; }).message,
               ContainsSubstring("is no key of a Triton cache"));
    CHECK_FALSE(is_triton_key(key));
  }
  for (const char* file : {"", ".", "..", "../x", "a/b", "tmp.x", ".x"}) {
    INFO(file);
    CHECK_THAT(error_after([&](auto& c) { c.host[0].file = file; }).message,
               ContainsSubstring("is no file name of a Triton cache"));
    CHECK_THAT(error_after([&](auto& c) { c.kernels[0].files[file] = sha256("cubin"); }).message,
               ContainsSubstring("is no file name of a Triton cache"));
    CHECK_THAT(error_after([&](auto& c) { c.kernels[0].group = file; }).message,
               ContainsSubstring("is no file name of a Triton cache"));
  }
  CHECK_THAT(error_after([](auto& c) { c.host[0].origin.python_abi = "../cp312"; }).message,
             ContainsSubstring("is no Python ABI or machine"));
  CHECK_FALSE(is_triton_file(std::string(256, 'a')));
  CHECK_FALSE(is_triton_file(std::string_view("a\0b", 3)));
  CHECK(is_triton_file("__grp__add_kernel.json"));
}

TEST_CASE("every file of a catalogue lies in exactly one pack") {
  CHECK_THAT(error_after([](auto& c) { c.kernels[0].files["x"] = sha256("elsewhere"); }).message,
             ContainsSubstring("lies in no pack"));
  CHECK_THAT(error_after([](auto& c) { c.host[0].digest = sha256("elsewhere"); }).message,
             ContainsSubstring("lies in no pack"));
  CHECK_THAT(error_after([](auto& c) { c.packs.push_back(c.packs[0]); }).message,
             ContainsSubstring("stands twice"));
  CHECK_THAT(error_after([](auto& c) { c.packs[0].raw_size += 1; }).message,
             ContainsSubstring("do not add up"));
  CHECK_THAT(error_after([](auto& c) { c.packs[0].raw_size -= 1; }).message,
             ContainsSubstring("outside of the pack"));
  CHECK_FALSE(triton_catalogue_from_json(triton_catalogue_to_json([] {
    TritonCatalogue catalogue = test::sample_triton_catalogue();
    catalogue.packs[0].raw_size = k_max_triton_pack_bytes + 1;
    catalogue.packs[0].files[0].size = k_max_triton_pack_bytes - 5;
    return catalogue;
  }())));
}

TEST_CASE("entries of a catalogue stand once, and can be found") {
  CHECK_THAT(error_after([](auto& c) { c.kernels.push_back(c.kernels[0]); }).message,
             ContainsSubstring("each once"));
  CHECK_THAT(error_after([](auto& c) { c.autotune.push_back(c.autotune[0]); }).message,
             ContainsSubstring("each once"));
  CHECK_THAT(error_after([](auto& c) { c.host[1].keys.clear(); }).message,
             ContainsSubstring("nobody could find it"));
  CHECK_THAT(error_after([](auto& c) { c.host[0].keys = {"B", "A"}; }).message,
             ContainsSubstring("must ascend"));
  CHECK_THAT(error_after([](auto& c) { c.kernels[0].files.clear(); }).message,
             ContainsSubstring("must hold 1 to"));
  CHECK_THAT(error_after([](auto& c) {
               c.kernels[0].files[c.kernels[0].group] = sha256("cubin");
             }).message,
             ContainsSubstring("not shipped"));
  CHECK(error_after([](auto& c) { c.autotune[0].device_class = "H200"; }).code ==
        ErrorCode::corrupt);
}

TEST_CASE("a later format is said to be one") {
  std::string text = test::golden(k_golden);
  text.replace(text.find("\"triton\":1"), 10, "\"triton\":2");
  const auto read = triton_catalogue_from_json(text);
  REQUIRE_FALSE(read);
  CHECK(read.error().code == ErrorCode::newer_format);
}
