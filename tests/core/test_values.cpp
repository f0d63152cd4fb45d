// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <string>

#include <catch2/catch_test_macros.hpp>

#include "core/model/values.hpp"

using namespace cubinary::core;

TEST_CASE("values as integers and as code") {
  CHECK(*to_integer(TunableValue(true)) == 1);
  CHECK(*to_integer(TunableValue(false)) == 0);
  CHECK(*to_integer(TunableValue(std::int64_t{-7})) == -7);
  CHECK_FALSE(to_integer(TunableValue(std::string("row"))).has_value());
  CHECK(to_code(TunableValue(true)) == "true");
  CHECK(to_code(TunableValue(INT64_MIN)) == "-9223372036854775808");
  CHECK(to_code(TunableValue(std::string("P<int, 2>"))) == "P<int, 2>");
}

TEST_CASE("JSON is canonical and returns the same value") {
  const Config config = {{"VEC", std::int64_t{8}},
                         {"ALIGNED", true},
                         {"LAYOUT", std::string("a \"b\"\n")},
                         {"BIG", INT64_MIN}};
  CHECK(to_json(config) ==
        R"({"ALIGNED":true,"BIG":-9223372036854775808,"LAYOUT":"a \"b\"\n","VEC":8})");
  CHECK(*config_from_json(to_json(config)) == config);

  const Shape shape = {{"rows", 3}, {"cols", INT64_MAX}};
  CHECK(to_json(shape) == R"({"cols":9223372036854775807,"rows":3})");
  CHECK(*shape_from_json(to_json(shape)) == shape);

  const Types types = {{"T", "bf16"}, {"A", "f32"}};
  CHECK(to_json(types) == R"({"A":"f32","T":"bf16"})");
  CHECK(*types_from_json(to_json(types)) == types);

  CHECK(to_json(Config()) == "{}");
  CHECK(to_json(Shape()) == "{}");
  CHECK(to_json(Types()) == "{}");
  CHECK(config_from_json("{}")->empty());
}

TEST_CASE("a bool, an integer and a text of one spelling stay different") {
  CHECK(to_json(Config{{"A", true}}) != to_json(Config{{"A", std::int64_t{1}}}));
  CHECK(to_json(Config{{"A", std::string("1")}}) != to_json(Config{{"A", std::int64_t{1}}}));
  CHECK(std::holds_alternative<bool>(config_from_json(R"({"A":true})")->at("A")));
  CHECK(std::holds_alternative<std::string>(config_from_json(R"({"A":"1"})")->at("A")));
}

TEST_CASE("JSON that is no such value is corrupt") {
  for (const char* text : {"", "[]", "{", R"({"A":1.5})", R"({"A":null})", R"({"A":[1]})",
                           R"({"A":9223372036854775808})", R"({"A":{}})", "1", R"({"A":1}x)"}) {
    INFO(text);
    const auto config = config_from_json(text);
    REQUIRE_FALSE(config.has_value());
    CHECK(config.error().code == ErrorCode::corrupt);
    CHECK_FALSE(shape_from_json(text).has_value());
    CHECK_FALSE(types_from_json(text).has_value());
  }
  CHECK_FALSE(shape_from_json(R"({"rows":true})").has_value());
  CHECK_FALSE(types_from_json(R"({"T":1})").has_value());
}

TEST_CASE("values for people") {
  CHECK(to_display(Config{{"VEC", std::int64_t{4}}, {"F", false}, {"L", std::string("row")}}) ==
        "F=false L=row VEC=4");
  CHECK(to_display(Shape{{"rows", 64}, {"cols", 8}}) == "cols=8 rows=64");
  CHECK(to_display(Types{{"T", "f16"}}) == "T=f16");
  CHECK(to_display(Config()) == "-");
  CHECK(to_display(Types()) == "-");
}
