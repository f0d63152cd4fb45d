// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include "core/expression/expression.hpp"

// Random expressions, their meaning computed in 128 bits by a tree walk that shares nothing with
// the evaluator: value, or the column of the first failing operator, must agree.

using namespace cubinary::core;

namespace {

__extension__ typedef __int128 Wide;

constexpr std::array<std::int64_t, 18> k_edges = {0,         1,
                                                  -1,        2,
                                                  3,         -3,
                                                  7,         64,
                                                  1000,      INT64_MAX,
                                                  INT64_MIN, 1LL << 31,
                                                  1LL << 62, -(1LL << 62),
                                                  1LL << 32, 10,
                                                  -64,       INT64_MAX - 1};
constexpr std::array<const char*, 4> k_names = {"a", "b", "rows", "sizeof(T)"};

struct Node {
  std::string op;  ///< "number", "name", "()", an operator, or a function's name
  std::int64_t number = 0;
  std::size_t name = 0;
  std::vector<std::unique_ptr<Node>> parts;
  int column = 0;
};

int precedence(const Node& node) {
  const std::string& op = node.op;
  if (op == "?") {
    return 0;
  }
  if (node.parts.size() == 2) {
    if (op == "||") {
      return 1;
    }
    if (op == "&&") {
      return 2;
    }
    if (op == "==" || op == "!=") {
      return 3;
    }
    if (op == "<" || op == "<=" || op == ">" || op == ">=") {
      return 4;
    }
    if (op == "+" || op == "-") {
      return 5;
    }
    if (op == "*" || op == "/" || op == "%") {
      return 6;
    }
  }
  if (op == "!" || op == "neg" || (op == "number" && node.number < 0)) {
    return 7;
  }
  return 8;
}

class Generator {
 public:
  explicit Generator(std::uint32_t seed) : m_random(seed) {}

  std::unique_ptr<Node> make(int depth) {
    auto node = std::make_unique<Node>();
    if (depth == 0 || pick(5) == 0) {
      if (pick(2) == 0) {
        node->op = "name";
        node->name = pick(k_names.size());
      } else {
        node->op = "number";
        node->number = k_edges[pick(k_edges.size())];
      }
      return node;
    }
    constexpr std::array<const char*, 13> binary = {"||", "&&", "==", "!=", "<", "<=", ">",
                                                    ">=", "+",  "-",  "*",  "/", "%"};
    std::size_t count = 2;
    switch (pick(8)) {
      case 0:
        node->op = pick(2) == 0 ? "!" : "neg";
        count = 1;
        break;
      case 1:
        node->op = "?";
        count = 3;
        break;
      case 2:
        node->op = pick(2) == 0 ? "log2" : "pow2_ceil";
        count = 1;
        break;
      case 3:
        node->op = pick(3) == 0 ? "ceil_div" : pick(2) == 0 ? "min" : "max";
        count = node->op == "ceil_div" ? 2 : 1 + pick(3);
        break;
      default:
        node->op = binary[pick(binary.size())];
    }
    for (std::size_t i = 0; i < count; ++i) {
      node->parts.push_back(make(depth - 1));
    }
    return node;
  }

  std::size_t pick(std::size_t count) { return m_random() % count; }

 private:
  std::mt19937 m_random;
};

/// Writes with as few parentheses as the grammar allows, now and then one more; notes columns.
class Writer {
 public:
  explicit Writer(Generator& random) : m_random(random) {}

  std::string write(Node& node) {
    part(node, 0);
    return m_text;
  }

 private:
  void part(Node& node, int least) {
    const bool wrap = precedence(node) < least || m_random.pick(8) == 0;
    if (wrap) {
      m_text += "(";
    }
    bare(node);
    if (wrap) {
      m_text += ")";
    }
  }
  void here(Node& node) { node.column = static_cast<int>(m_text.size()) + 1; }
  void space() { m_text += m_random.pick(3) == 0 ? "" : " "; }

  void bare(Node& node) {
    const int own = precedence(node);
    if (node.op == "number") {
      here(node);
      m_text += std::to_string(node.number);
    } else if (node.op == "name") {
      here(node);
      m_text += k_names[node.name];
    } else if (node.op == "?") {
      part(*node.parts[0], 1);
      space();
      m_text += "?";
      part(*node.parts[1], 0);
      m_text += ":";
      part(*node.parts[2], 0);
    } else if (own == 7) {
      here(node);
      m_text += node.op == "neg" ? "-" : "!";
      // `-5` would be read as one number, which is the same value.
      part(*node.parts[0], 7);
    } else if (own < 7) {
      const bool comparison = own == 3 || own == 4;
      part(*node.parts[0], comparison ? own + 1 : own);
      space();
      here(node);
      m_text += node.op;
      space();
      part(*node.parts[1], own + 1);
    } else {
      here(node);
      m_text += node.op + "(";
      for (std::size_t i = 0; i < node.parts.size(); ++i) {
        m_text += i == 0 ? "" : ", ";
        part(*node.parts[i], 0);
      }
      m_text += ")";
    }
  }

  Generator& m_random;
  std::string m_text;
};

struct Outcome {
  Wide value = 0;
  int failed_at = 0;  ///< column; 0: it has a value
};

class Oracle {
 public:
  explicit Oracle(const std::vector<std::int64_t>& names) : m_names(names) {}

  Outcome operator()(const Node& node) const {
    const std::string& op = node.op;
    if (op == "number") {
      return {node.number};
    }
    if (op == "name") {
      return {m_names[node.name]};
    }
    const Outcome first = (*this)(*node.parts[0]);
    if (first.failed_at != 0) {
      return first;
    }
    const Wide a = first.value;
    if (op == "?") {
      return (*this)(*node.parts[a != 0 ? 1 : 2]);
    }
    if (op == "&&" || op == "||") {
      if ((a != 0) == (op == "||")) {
        return {op == "||" ? 1 : 0};
      }
      const Outcome second = (*this)(*node.parts[1]);
      return second.failed_at != 0 ? second : Outcome{second.value != 0 ? 1 : 0};
    }
    if (op == "!") {
      return {a == 0 ? 1 : 0};
    }
    if (op == "neg") {
      return fit(-a, node);
    }
    if (op == "log2" || op == "pow2_ceil") {
      if (a < 1) {
        return {0, node.column};
      }
      Wide power = 1;
      int exponent = 0;
      while (power * 2 <= a) {
        power *= 2;
        ++exponent;
      }
      return op == "log2" ? Outcome{exponent} : fit(power == a ? power : power * 2, node);
    }
    Wide result = a;
    for (std::size_t i = 1; i < node.parts.size(); ++i) {
      const Outcome next = (*this)(*node.parts[i]);
      if (next.failed_at != 0) {
        return next;
      }
      const Outcome folded = binary(node, result, next.value);
      if (folded.failed_at != 0) {
        return folded;
      }
      result = folded.value;
    }
    return {result};
  }

 private:
  static Outcome fit(Wide value, const Node& node) {
    return value < INT64_MIN || value > INT64_MAX ? Outcome{0, node.column} : Outcome{value};
  }
  static Outcome binary(const Node& node, Wide a, Wide b) {
    const std::string& op = node.op;
    if (op == "+") {
      return fit(a + b, node);
    }
    if (op == "-") {
      return fit(a - b, node);
    }
    if (op == "*") {
      return fit(a * b, node);
    }
    if ((op == "/" || op == "%" || op == "ceil_div") && b == 0) {
      return {0, node.column};
    }
    if (op == "/") {
      return fit(a / b, node);
    }
    if (op == "%") {
      return {a % b};
    }
    if (op == "ceil_div") {
      const Wide down = a / b;
      return fit(down * b != a && (a > 0) == (b > 0) ? down + 1 : down, node);
    }
    if (op == "min") {
      return {a < b ? a : b};
    }
    if (op == "max") {
      return {a > b ? a : b};
    }
    const bool truth = op == "=="   ? a == b
                       : op == "!=" ? a != b
                       : op == "<"  ? a < b
                       : op == "<=" ? a <= b
                       : op == ">"  ? a > b
                                    : a >= b;
    return {truth ? 1 : 0};
  }

  const std::vector<std::int64_t>& m_names;
};

}  // namespace

TEST_CASE("random expressions agree with a 128-bit oracle") {
  Generator random(20240611);
  int with_value = 0;
  int with_error = 0;
  for (int i = 0; i < 20000; ++i) {
    const std::unique_ptr<Node> tree = random.make(2 + static_cast<int>(random.pick(4)));
    const std::string text = Writer(random).write(*tree);
    std::vector<std::int64_t> names;
    for (std::size_t n = 0; n < k_names.size(); ++n) {
      names.push_back(k_edges[random.pick(k_edges.size())]);
    }
    const auto parsed = Expression::parse(text);
    if (!parsed) {
      FAIL(text << ": " << parsed.error().message);
    }
    std::vector<std::int64_t> values;
    for (const std::string& variable : parsed->variables()) {
      for (std::size_t n = 0; n < k_names.size(); ++n) {
        if (variable == k_names[n]) {
          values.push_back(names[n]);
        }
      }
    }
    const auto result = parsed->evaluate(values);
    const Outcome expected = Oracle(names)(*tree);
    if (expected.failed_at != 0) {
      ++with_error;
      const std::string end = " at column " + std::to_string(expected.failed_at);
      if (result || !result.error().message.ends_with(end)) {
        FAIL(text << ": expected an error" << end << ", got "
                  << (result ? std::to_string(*result) : result.error().message));
      }
    } else {
      ++with_value;
      if (!result || *result != static_cast<std::int64_t>(expected.value)) {
        FAIL(text << ": expected " << static_cast<std::int64_t>(expected.value) << ", got "
                  << (result ? std::to_string(*result) : result.error().message));
      }
    }
  }
  CHECK(with_value > 5000);
  CHECK(with_error > 2000);
}
