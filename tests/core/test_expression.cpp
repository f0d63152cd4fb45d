// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include "core/expression/expression.hpp"

using namespace cubinary::core;

namespace {

using Values = std::map<std::string, std::int64_t, std::less<>>;

Result<std::int64_t> eval(std::string_view text, const Values& values = {}) {
  auto parsed = Expression::parse(text);
  if (!parsed) {
    return fail(parsed.error());
  }
  return parsed->evaluate([&](std::string_view name) -> std::optional<std::int64_t> {
    const auto found = values.find(name);
    return found == values.end() ? std::nullopt : std::optional(found->second);
  });
}

std::string error(std::string_view text, const Values& values = {}) {
  const auto result = eval(text, values);
  if (result) {
    return "no error: " + std::to_string(*result);
  }
  CHECK(result.error().code == ErrorCode::expression);
  return result.error().message;
}

}  // namespace

TEST_CASE("arithmetic, precedence and association") {
  CHECK(*eval("1 + 2 * 3") == 7);
  CHECK(*eval("(1 + 2) * 3") == 9);
  CHECK(*eval("10 - 4 - 3") == 3);
  CHECK(*eval("100 / 10 / 5") == 2);
  CHECK(*eval("7 % 4 * 2") == 6);
  CHECK(*eval("-7 / 2") == -3);
  CHECK(*eval("-7 % 2") == -1);
  CHECK(*eval("7 % -2") == 1);
  CHECK(*eval("- 3 + 5") == 2);
  CHECK(*eval("2 - -3") == 5);
  CHECK(*eval("--3") == 3);
  CHECK(*eval("!3") == 0);
  CHECK(*eval("!!3") == 1);
  CHECK(*eval("!0 + 1") == 2);
  CHECK(*eval("1 + 1 == 2 && 3 < 4 || 0") == 1);
  CHECK(*eval("1 || 0 && 0") == 1);
  CHECK(*eval("0 ? 1 : 0 ? 2 : 3") == 3);
  CHECK(*eval("1 ? 2 : 1 ? 3 : 4") == 2);
  CHECK(*eval("1 ? 0 ? 5 : 6 : 7") == 6);
  CHECK(*eval("5 && 7") == 1);
  CHECK(*eval("0 || 7") == 1);
  CHECK(*eval("1 < 2 == 3 > 2") == 1);
  CHECK(*eval("\t1\n+\r\n2 ") == 3);
  CHECK(*eval("0") == 0);
}

TEST_CASE("functions") {
  CHECK(*eval("ceil_div(7, 2)") == 4);
  CHECK(*eval("ceil_div(-7, 2)") == -3);
  CHECK(*eval("ceil_div(7, -2)") == -3);
  CHECK(*eval("ceil_div(-7, -2)") == 4);
  CHECK(*eval("ceil_div(0, 5)") == 0);
  CHECK(*eval("ceil_div(9223372036854775807, 2)") == 4611686018427387904);
  CHECK(*eval("min(3)") == 3);
  CHECK(*eval("min(3, 1, 2)") == 1);
  CHECK(*eval("max(3, 1 + 8, 2)") == 9);
  CHECK(*eval("log2(1)") == 0);
  CHECK(*eval("log2(1023)") == 9);
  CHECK(*eval("log2(9223372036854775807)") == 62);
  CHECK(*eval("pow2_ceil(1)") == 1);
  CHECK(*eval("pow2_ceil(5)") == 8);
  CHECK(*eval("pow2_ceil(4611686018427387904)") == 4611686018427387904);
  CHECK(*eval("max(1 ? 2 : 3, 0)") == 2);
}

TEST_CASE("the edges of 64 bits") {
  CHECK(*eval("9223372036854775807") == INT64_MAX);
  CHECK(*eval("-9223372036854775808") == INT64_MIN);
  CHECK(*eval("-  9223372036854775808") == INT64_MIN);
  CHECK(*eval("-9223372036854775808 % -1") == 0);
  CHECK(error("9223372036854775808") == "the number does not fit 64 bits at column 1");
  CHECK(error("1 + 99999999999999999999") == "the number does not fit 64 bits at column 5");
  CHECK(error("-9223372036854775809") == "the number does not fit 64 bits at column 1");
  CHECK(error("0 - 9223372036854775808") == "the number does not fit 64 bits at column 5");
  CHECK(error("-(-9223372036854775808)") ==
        "-(-9223372036854775808) overflows 64 bits at column 1");
  CHECK(error("--9223372036854775808") == "-(-9223372036854775808) overflows 64 bits at column 1");
  CHECK(error("9223372036854775807 + 1") ==
        "9223372036854775807 + 1 overflows 64 bits at column 21");
  CHECK(error("a - b", {{"a", INT64_MIN}, {"b", 1}}) ==
        "-9223372036854775808 - 1 overflows 64 bits at column 3");
  CHECK(error("a*b", {{"a", 4294967296}, {"b", 4294967296}}) ==
        "4294967296 * 4294967296 overflows 64 bits at column 2");
  CHECK(error("-9223372036854775808 / -1") ==
        "-9223372036854775808 / -1 overflows 64 bits at column 22");
  CHECK(error("ceil_div(-9223372036854775808, -1)") ==
        "ceil_div(-9223372036854775808, -1) overflows 64 bits at column 1");
  CHECK(error("pow2_ceil(4611686018427387905)") ==
        "pow2_ceil(4611686018427387905) overflows 64 bits at column 1");
}

TEST_CASE("undefined results are errors at their column") {
  CHECK(error("1 + 2 / 0") == "2 / 0 divides by zero at column 7");
  CHECK(error("5 % (2 - 2)") == "5 % 0 divides by zero at column 3");
  CHECK(error("1 + ceil_div(1, 0)") == "ceil_div(1, 0) divides by zero at column 5");
  CHECK(error("log2(0)") == "log2(0) is not defined at column 1");
  CHECK(error("pow2_ceil(-3)") == "pow2_ceil(-3) is not defined at column 1");
}

TEST_CASE("only what is needed is evaluated") {
  CHECK(*eval("0 && 1 / 0") == 0);
  CHECK(*eval("1 || 1 / 0") == 1);
  CHECK(*eval("1 ? 2 : 1 / 0") == 2);
  CHECK(*eval("0 ? 1 / 0 : 3") == 3);
  CHECK(error("1 && 1 / 0") == "1 / 0 divides by zero at column 8");
  CHECK(error("min(1, 1 / 0)") == "1 / 0 divides by zero at column 10");
}

TEST_CASE("variables, in order of first appearance") {
  const auto parsed = Expression::parse("b + sizeof( T ) * b + target.cc - align(x) + a_1");
  REQUIRE(parsed.has_value());
  CHECK(parsed->variables() ==
        std::vector<std::string>{"b", "sizeof(T)", "target.cc", "align(x)", "a_1"});
  CHECK(parsed->variable_column(0) == 1);
  CHECK(parsed->variable_column(1) == 5);
  CHECK(parsed->variable_column(2) == 23);
  CHECK(parsed->variable_column(4) == 46);
  const std::vector<std::int64_t> values = {2, 4, 90, 16, 1};
  CHECK(*parsed->evaluate(values) == 2 + 4 * 2 + 90 - 16 + 1);
  const auto short_of_one = parsed->evaluate(std::span(values).first(4));
  REQUIRE_FALSE(short_of_one.has_value());
  CHECK(short_of_one.error().code == ErrorCode::internal);
  CHECK(error("1 + nobody") == "unknown name \"nobody\" at column 5");
  CHECK(parsed->text() == "b + sizeof( T ) * b + target.cc - align(x) + a_1");
}

TEST_CASE("text outside the grammar is refused at its column") {
  struct Row {
    const char* text;
    const char* message;
  };
  const Row rows[] = {
      {"", "the expression is empty at column 1"},
      {"   ", "the expression ends too early at column 4"},
      {"1 +", "the expression ends too early at column 4"},
      {"1 2", "unexpected \"2\" at column 3"},
      {"(1", "expected \")\" at column 3"},
      {"1)", "unexpected \")\" at column 2"},
      {"a = 1", "unexpected \"=\"; equality is \"==\" at column 3"},
      {"a & b", "unexpected \"&\"; logic is \"&&\" at column 3"},
      {"a | b", "unexpected \"|\"; logic is \"||\" at column 3"},
      {"1.5", "unexpected \".\"; numbers are integers at column 2"},
      {"007", "a decimal number does not start with 0 at column 1"},
      {"0x10", "a name does not start with a digit, and numbers are decimal at column 1"},
      {"1e6", "a name does not start with a digit, and numbers are decimal at column 1"},
      {"a < b < c", "comparisons do not chain; write \"a < b && b < c\" at column 7"},
      {"a < 1 << 30", "there are no shifts: multiply or divide by a power of two at column 7"},
      {"a >> 3", "there are no shifts: multiply or divide by a power of two at column 3"},
      {"1 ? 2", "expected \":\" after \"?\" at column 6"},
      {"cel_div(1, 2)", "unknown function \"cel_div\" (did you mean \"ceil_div\"?) at column 1"},
      {"ceil_div(1)", "ceil_div takes 2 arguments, not 1 at column 1"},
      {"log2(1, 2)", "log2 takes 1 argument, not 2 at column 1"},
      {"min()", "unexpected \")\" at column 5"},
      {"min", "the function \"min\" needs \"(\" at column 1"},
      {"sizeof", "the function \"sizeof\" needs \"(\" at column 1"},
      {"sizeof()", "expected a name in \"sizeof(…)\" at column 8"},
      {"sizeof(1)", "expected a name in \"sizeof(…)\" at column 8"},
      {"align(x", "expected \")\" at column 8"},
      {"target.", "expected a name after \".\" at column 8"},
      {"a.b.c", "unexpected \".\" at column 4"},
      {"#", "unexpected \"#\" at column 1"},
      {"a + \xC3\xA9", "unexpected character at column 5"},
      {"!", "the expression ends too early at column 2"},
  };
  for (const Row& row : rows) {
    INFO(row.text);
    const auto parsed = Expression::parse(row.text);
    REQUIRE_FALSE(parsed.has_value());
    CHECK(parsed.error().message == row.message);
    CHECK(parsed.error().code == ErrorCode::expression);
  }
  CHECK_FALSE(Expression::parse(std::string_view("1\0", 2)).has_value());
  CHECK_FALSE(Expression::parse(std::string_view("a\0b", 3)).has_value());
}

TEST_CASE("hostile sizes are refused, large honest ones are not") {
  const auto nested = [](int depth) {
    return std::string(static_cast<std::size_t>(depth), '(') + "1" +
           std::string(static_cast<std::size_t>(depth), ')');
  };
  CHECK(*eval(nested(30)) == 1);
  CHECK(error(nested(2000)).starts_with("nesting deeper than 64 at column"));
  CHECK(error(std::string(2000, '-') + "1").starts_with("nesting deeper than 64"));
  CHECK(error(std::string(2000, '!') + "1").starts_with("nesting deeper than 64"));
  std::string chain = "1";
  for (int i = 0; i < 900; ++i) {
    chain += " + 1";
  }
  CHECK(*eval(chain) == 901);
  CHECK(error(std::string(4097, ' ')) == "text longer than 4096 bytes at column 1");
  std::string ternary = "0";
  for (int i = 0; i < 200; ++i) {
    ternary = "0 ? 1 : " + ternary;
  }
  CHECK(error(ternary).starts_with("nesting deeper than 64"));
  std::string wide = "min(0";
  for (int i = 1; i < 1000; ++i) {
    wide += "," + std::to_string(i);
  }
  CHECK(*eval(wide + ")") == 0);
}
