// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch_test_macros.hpp>

#include "core/base/json.hpp"

using namespace cubinary::core;
using json::Array;
using json::Node;
using json::Object;
using json::Value;

namespace {

std::string why(std::string_view text) {
  const auto parsed = json::parse(text);
  REQUIRE_FALSE(parsed);
  CHECK(parsed.error().code == ErrorCode::corrupt);
  return parsed.error().message;
}

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("JSON is written compact, sorted and exactly") {
  const Value value = Object{{"b", Array{1, -2, 0.1, 1e300, 4.0}},
                             {"a", nullptr},
                             {"A", true},
                             {"ä", "q\"\\\n\x01é"},
                             {"m", std::int64_t{9223372036854775807}}};
  CHECK(json::to_text(value) ==
        "{\"A\":true,\"a\":null,\"b\":[1,-2,0.1,1e+300,4],\"m\":9223372036854775807,"
        "\"ä\":\"q\\\"\\\\\\n\\u0001é\"}");
  CHECK(json::to_text(std::string("\xff!")) == "\"\xEF\xBF\xBD!\"");
  CHECK(json::to_text(1.0 / 0.0) == "null");
}

TEST_CASE("what is written is read again as it was") {
  const std::string text = R"({"a":[{},[],"x",1,-1,0.5,true,false,null],"b":{"c":{"d":"é"}}})";
  CHECK(json::to_text(json::parse(text).value()) == text);
}

TEST_CASE("JSON that could be read two ways is refused") {
  CHECK(contains(why(R"({"a":1,"b":{"c":1,"c":2}})"), "\"c\" stands twice"));
  CHECK(contains(why(R"({"a":1} x)"), "no JSON"));
  CHECK(contains(why("\xEF\xBB\xBF{}"), "byte order mark"));
  CHECK(contains(why(R"({"n":9223372036854775808})"), "beyond 64 bits"));
  CHECK(contains(why(R"({"n":[0,18446744073709551616]})"), "inside n[1]"));
  CHECK(contains(why(R"([-9223372036854775809])"), "beyond 64 bits"));
  CHECK_FALSE(json::parse("1e999"));
  CHECK_FALSE(json::parse("NaN"));
  CHECK_FALSE(json::parse(""));
  CHECK_FALSE(json::parse("{\"a\":\"\xff\"}"));
  CHECK_FALSE(json::parse("{'a':1}"));
  CHECK_FALSE(json::parse("[1,]"));
  CHECK_FALSE(json::parse("// comment\n1"));
  CHECK(json::parse("-9223372036854775808"));
}

TEST_CASE("depth is bounded") {
  CHECK(json::parse("[[[]]]", 3));
  CHECK(contains(why(std::string(100'000, '[')), "nested deeper than 32"));
}

TEST_CASE("errors name the place") {
  const Value value = json::parse(R"({"list":[{"n":1},{"n":"x","big":300}]})").value();
  const Node top(value, "the thing");
  const Node list = top.at("list").value();
  const std::vector<Node> nodes = list.elements().value();
  REQUIRE(nodes.size() == 2);
  CHECK(nodes[0].integer("n", 0, 10).value() == 1);
  CHECK(nodes[1].integer("n", 0, 10).error().message == "the thing: list[1].n: must be an integer");
  CHECK(nodes[1].integer("big", 0, 255).error().message ==
        "the thing: list[1].big: 300 is not between 0 and 255");
  CHECK(nodes[0].text("m").error().message == "the thing: list[0]: \"m\" is missing");
  CHECK(top.text().error().message == "the thing: must be text");
  CHECK(nodes[0].text_or("m", "d").value() == "d");
  CHECK(nodes[1].integer_or("n", 0, 1, 0).error().code == ErrorCode::corrupt);
  CHECK_FALSE(nodes[0].find("m").value().exists());
  CHECK_FALSE(list.find("m"));
}

TEST_CASE("messages carry no control characters") {
  CHECK_FALSE(contains(why("{\"\\u001b[2J\":1,\"\\u001b[2J\":1}"), "\x1b"));
}
