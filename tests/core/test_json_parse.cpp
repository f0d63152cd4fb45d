// SPDX-License-Identifier: Apache-2.0
// The reader of JSON against another one: what both take is the same value, and both refuse the
// same.
#include <cstdint>
#include <random>
#include <set>

#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>

#include "core/base/json.hpp"
#include "tests/core/changed_text.hpp"

using namespace cubinary::core;
using json::Value;

namespace {

/// Whether ours is the same value as theirs. `false` also for what ours refuses by rule.
bool same(const Value& ours, const nlohmann::json& theirs) {
  if (const auto* text = ours.get_if<std::string>()) {
    return theirs.is_string() && theirs.get_ref<const std::string&>() == *text;
  }
  if (const auto* integer = ours.get_if<std::int64_t>()) {
    return theirs.is_number_integer() && theirs.get<std::int64_t>() == *integer;
  }
  if (const auto* number = ours.get_if<double>()) {
    return theirs.is_number_float() && theirs.get<double>() == *number;
  }
  if (const auto* truth = ours.get_if<bool>()) {
    return theirs.is_boolean() && theirs.get<bool>() == *truth;
  }
  if (const auto* array = ours.get_if<json::Array>()) {
    if (!theirs.is_array() || theirs.size() != array->size()) {
      return false;
    }
    for (std::size_t i = 0; i < array->size(); ++i) {
      if (!same((*array)[i], theirs[i])) {
        return false;
      }
    }
    return true;
  }
  if (const auto* object = ours.get_if<json::Object>()) {
    if (!theirs.is_object() || theirs.size() != object->size()) {
      return false;
    }
    for (const auto& [key, member] : *object) {
      if (!theirs.contains(key) || !same(member, theirs[key])) {
        return false;
      }
    }
    return true;
  }
  return theirs.is_null();
}

void compare(const std::string& text) {
  CAPTURE(text);
  const auto ours = json::parse(text);
  const auto theirs = nlohmann::json::parse(text, nullptr, false);
  if (ours) {
    REQUIRE_FALSE(theirs.is_discarded());
    CHECK(same(*ours, theirs));
    return;
  }
  // Refused by a rule of ours; anything else the other reader must refuse as well.
  for (const char* rule : {"stands twice", "beyond 64 bits", "nested deeper", "byte order mark"}) {
    if (ours.error().message.find(rule) != std::string::npos) {
      return;
    }
  }
  CHECK(theirs.is_discarded());
}

}  // namespace

TEST_CASE("JSON's corners are read as another reader reads them") {
  for (const char* text : {"",
                           " ",
                           "null",
                           "nul",
                           "nulll",
                           "true",
                           "tru",
                           "false",
                           "0",
                           "-0",
                           "-",
                           "01",
                           "1.",
                           ".5",
                           "1.5",
                           "-1.5e3",
                           "1e",
                           "1e+",
                           "1E-2",
                           "1e999",
                           "-1e999",
                           "1e-999",
                           "4.9e-324",
                           "0.1",
                           "123456789012345678",
                           "9223372036854775807",
                           "-9223372036854775808",
                           "1 ",
                           " 1",
                           "1 1",
                           "[]",
                           "[ ]",
                           "[1,2]",
                           "[1,]",
                           "[,1]",
                           "[1 2]",
                           "[",
                           "]",
                           "[[",
                           "{}",
                           "{ }",
                           "{\"a\":1}",
                           "{\"a\":1,}",
                           "{\"a\"}",
                           "{a:1}",
                           "{\"a\":1 \"b\":2}",
                           "{\"a\" : 1 , \"b\" : [ ] }",
                           "{",
                           "\"\"",
                           "\"a",
                           "\"\\\"\"",
                           "\"\\x\"",
                           "\"\\u0041\"",
                           "\"\\u00e9\"",
                           "\"\\u20ac\"",
                           "\"\\ud83d\\ude00\"",
                           "\"\\ud83d\"",
                           "\"\\ude00\"",
                           "\"\\ud83d\\u0041\"",
                           "\"\\u12\"",
                           "\"\\u 123\"",
                           "\"\\u+123\"",
                           "\"\\b\\f\\n\\r\\t\\/\\\\\"",
                           "\"\t\"",
                           "\"\n\"",
                           "\"\x7f\"",
                           "\"\xc3\xa9\"",
                           "\"\xe2\x82\xac\"",
                           "\"\xf0\x9f\x98\x80\"",
                           "\"\xc0\x80\"",
                           "\"\xc3\"",
                           "\"\xe0\x80\x80\"",
                           "\"\xed\xa0\x80\"",
                           "\"\xf4\x90\x80\x80\"",
                           "\"\xff\"",
                           "\"\x80\"",
                           "/**/1",
                           "1//",
                           "'a'",
                           "NaN",
                           "Infinity",
                           "+1",
                           "0x1",
                           "\v1",
                           "\f1",
                           "1\0"}) {
    compare(text);
  }
  compare(std::string("\"a\0b\"", 5));
  CHECK_FALSE(json::parse(std::string("1\0", 2)));  // the other reader takes a zero for the end
}

TEST_CASE("changed JSON is refused or read as another reader does it") {
  const std::vector<std::string> seeds = {
      R"({"kernels":[{"name":"rms\u00e9","n":[1,-2,3.5e-2],"ok":true,"no":null}],"z":{"a":{"b":[[],{}]}}})",
      R"(["\ud83d\ude00","é€",0.1,1e300,-0,[[[1]]],{"":""},"\\\"\/\b"])",
  };
  std::mt19937 random(20261130);
  for (int round = 0; round < 4000; ++round) {
    const std::string& seed = seeds[random() % seeds.size()];
    const std::string text = cubinary::tests::changed_json(seed, 1 + random() % 3, random);
    compare(text);
  }
}
