// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <limits>
#include <optional>

#include "core/base/nearest.hpp"
#include "core/expression/expression_code.hpp"

namespace cubinary::core {
namespace {

constexpr int k_max_depth = 64;
constexpr std::size_t k_max_text = 4096;

struct Function {
  std::string_view name;
  Op op;
  int arguments;  ///< 0: one or more, folded from the left
};
constexpr std::array k_functions = {Function{"ceil_div", Op::ceil_div, 2},
                                    Function{"min", Op::minimum, 0},
                                    Function{"max", Op::maximum, 0}, Function{"log2", Op::log2, 1},
                                    Function{"pow2_ceil", Op::pow2_ceil, 1}};

struct BinaryOperator {
  std::string_view symbol;
  Op op;
  int precedence;
};
constexpr int k_or = 1;
constexpr int k_and = 2;
constexpr int k_equality = 3;
constexpr int k_relation = 4;
// Longer symbols first, so that `<=` is not read as `<`.
constexpr std::array k_operators = {BinaryOperator{"||", Op::or_else, k_or},
                                    BinaryOperator{"&&", Op::and_then, k_and},
                                    BinaryOperator{"==", Op::equal, k_equality},
                                    BinaryOperator{"!=", Op::not_equal, k_equality},
                                    BinaryOperator{"<=", Op::less_equal, k_relation},
                                    BinaryOperator{">=", Op::greater_equal, k_relation},
                                    BinaryOperator{"<", Op::less, k_relation},
                                    BinaryOperator{">", Op::greater, k_relation},
                                    BinaryOperator{"+", Op::add, 5},
                                    BinaryOperator{"-", Op::subtract, 5},
                                    BinaryOperator{"*", Op::multiply, 6},
                                    BinaryOperator{"/", Op::divide, 6},
                                    BinaryOperator{"%", Op::remainder, 6}};

constexpr bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
constexpr bool is_name_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
constexpr bool is_name(char c) {
  return is_name_start(c) || is_digit(c);
}
constexpr bool is_space(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

class Compiler {
 public:
  Compiler(std::string_view text, std::vector<std::string>& variables, std::vector<int>& columns,
           std::vector<Instruction>& code)
      : m_text(text), m_variables(variables), m_columns(columns), m_code(code) {}

  Result<void> compile() {
    TRY(conditional());
    skip_space();
    if (m_at != m_text.size()) {
      return unexpected();
    }
    return {};
  }

 private:
  using Status = Result<void>;

  // --- Text ---

  int column() const { return static_cast<int>(m_at) + 1; }
  char peek() const { return m_at < m_text.size() ? m_text[m_at] : '\0'; }
  void skip_space() {
    while (m_at < m_text.size() && is_space(m_text[m_at])) {
      ++m_at;
    }
  }
  bool take(char c) {
    skip_space();
    if (peek() != c || m_at == m_text.size()) {
      return false;
    }
    ++m_at;
    return true;
  }
  std::string_view take_name() {
    const std::size_t start = m_at;
    while (m_at < m_text.size() && is_name(m_text[m_at])) {
      ++m_at;
    }
    return m_text.substr(start, m_at - start);
  }

  static tl::unexpected<Error> error(const std::string& what, int column) {
    return fail(ErrorCode::expression, what + " at column " + std::to_string(column));
  }
  tl::unexpected<Error> unexpected() const {
    if (m_at >= m_text.size()) {
      return error(m_text.empty() ? "the expression is empty" : "the expression ends too early",
                   column());
    }
    const char c = m_text[m_at];
    if (c == '=') {
      return error("unexpected \"=\"; equality is \"==\"", column());
    }
    if (c == '&' || c == '|') {
      return error(std::string("unexpected \"") + c + "\"; logic is \"" + c + c + "\"", column());
    }
    if (c == '.' && m_at > 0 && is_digit(m_text[m_at - 1])) {
      return error("unexpected \".\"; numbers are integers", column());
    }
    if (static_cast<unsigned char>(c) >= 0x20 && static_cast<unsigned char>(c) < 0x7f) {
      return error(std::string("unexpected \"") + c + "\"", column());
    }
    return error("unexpected character", column());
  }

  // --- Code ---

  void emit(Op op, int at_column, std::int64_t argument = 0) {
    m_code.push_back({argument, at_column, op});
  }
  std::size_t emit_jump(Op op, int at_column) {
    emit(op, at_column);
    return m_code.size() - 1;
  }
  void land(std::size_t jump) { m_code[jump].argument = static_cast<std::int64_t>(m_code.size()); }

  Status push(Op op, int at_column, std::int64_t argument) {
    if (++m_stack > k_max_stack) {
      return error("the expression is too deep", at_column);
    }
    emit(op, at_column, argument);
    return {};
  }
  void push_binary(Op op, int at_column) {
    emit(op, at_column);
    --m_stack;
  }
  Status push_variable(std::string name, int at_column) {
    const auto found = std::ranges::find(m_variables, name);
    const auto index = found - m_variables.begin();
    if (found == m_variables.end()) {
      m_variables.push_back(std::move(name));
      m_columns.push_back(at_column);
    }
    return push(Op::variable, at_column, index);
  }

  // --- Grammar ---

  /// Counts recursion, which is what a hostile text could exhaust.
  class Depth {
   public:
    explicit Depth(int& depth) : m_depth(depth) { ++m_depth; }
    ~Depth() { --m_depth; }
    Depth(const Depth&) = delete;
    Depth& operator=(const Depth&) = delete;
    [[nodiscard]] bool too_deep() const { return m_depth > k_max_depth; }

   private:
    int& m_depth;
  };

  Status conditional() {
    const Depth depth(m_depth);
    if (depth.too_deep()) {
      return error("nesting deeper than 64", column());
    }
    TRY(binary(k_or));
    skip_space();
    const int at_column = column();
    if (!take('?')) {
      return {};
    }
    const std::size_t to_else = emit_jump(Op::jump_if_zero, at_column);
    --m_stack;
    TRY(conditional());
    if (!take(':')) {
      return m_at == m_text.size() ? error("expected \":\" after \"?\"", column()) : unexpected();
    }
    const std::size_t to_end = emit_jump(Op::jump, at_column);
    land(to_else);
    --m_stack;
    TRY(conditional());
    land(to_end);
    return {};
  }

  const BinaryOperator* peek_operator() {
    skip_space();
    const std::string_view rest = m_text.substr(m_at);
    for (const BinaryOperator& op : k_operators) {
      if (rest.starts_with(op.symbol)) {
        return &op;
      }
    }
    return nullptr;
  }

  Status binary(int precedence) {
    if (precedence > 6) {
      return unary();
    }
    TRY(binary(precedence + 1));
    bool compared = false;
    while (true) {
      const BinaryOperator* op = peek_operator();
      if (op == nullptr || op->precedence != precedence) {
        return {};
      }
      const int at_column = column();
      if (const auto two = m_text.substr(m_at, 2); two == "<<" || two == ">>") {
        return error("there are no shifts: multiply or divide by a power of two", at_column);
      }
      const bool comparison = precedence == k_equality || precedence == k_relation;
      if (comparison && compared) {
        return error("comparisons do not chain; write \"a < b && b < c\"", at_column);
      }
      compared = comparison;
      m_at += op->symbol.size();
      if (precedence == k_or || precedence == k_and) {
        const std::size_t shortcut = emit_jump(op->op, at_column);
        --m_stack;
        TRY(binary(precedence + 1));
        emit(Op::to_bool, at_column);
        land(shortcut);
      } else {
        TRY(binary(precedence + 1));
        push_binary(op->op, at_column);
      }
    }
  }

  Status unary() {
    const Depth depth(m_depth);
    if (depth.too_deep()) {
      return error("nesting deeper than 64", column());
    }
    skip_space();
    const int at_column = column();
    if (take('!')) {
      TRY(unary());
      emit(Op::logical_not, at_column);
      return {};
    }
    if (take('-')) {
      skip_space();
      if (is_digit(peek())) {
        return number(true, at_column);
      }
      TRY(unary());
      emit(Op::negate, at_column);
      return {};
    }
    return primary();
  }

  Status number(bool negative, int at_column) {
    const std::size_t start = m_at;
    constexpr auto limit = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    std::uint64_t value = 0;
    while (is_digit(peek())) {
      const auto digit = static_cast<std::uint64_t>(peek() - '0');
      if (value > (limit + 1 - digit) / 10) {
        return error("the number does not fit 64 bits", at_column);
      }
      value = value * 10 + digit;
      ++m_at;
    }
    if (value == limit + 1 && !negative) {
      return error("the number does not fit 64 bits", at_column);
    }
    if (m_at - start > 1 && m_text[start] == '0') {
      return error("a decimal number does not start with 0", at_column);
    }
    if (is_name(peek())) {
      return error("a name does not start with a digit, and numbers are decimal", at_column);
    }
    return push(Op::constant, at_column, static_cast<std::int64_t>(negative ? 0 - value : value));
  }

  Status primary() {
    skip_space();
    const int at_column = column();
    if (take('(')) {
      TRY(conditional());
      return close();
    }
    if (is_digit(peek())) {
      return number(false, at_column);
    }
    if (!is_name_start(peek()) || m_at == m_text.size()) {
      return unexpected();
    }
    std::string name(take_name());
    if (peek() == '.') {
      ++m_at;
      if (!is_name_start(peek())) {
        return error("expected a name after \".\"", column());
      }
      name += '.';
      name += take_name();
      return push_variable(std::move(name), at_column);
    }
    const auto function = std::ranges::find(k_functions, name, &Function::name);
    const bool query = name == "sizeof" || name == "align";
    if (!take('(')) {
      if (function != k_functions.end() || query) {
        return error("the function \"" + name + "\" needs \"(\"", at_column);
      }
      return push_variable(std::move(name), at_column);
    }
    if (query) {
      return name_query(name, at_column);
    }
    if (function == k_functions.end()) {
      std::vector<std::string> known = {"sizeof", "align"};
      for (const Function& f : k_functions) {
        known.emplace_back(f.name);
      }
      return error("unknown function \"" + name + "\"" + did_you_mean(name, known), at_column);
    }
    return call(*function, at_column);
  }

  Status close() {
    if (take(')')) {
      return {};
    }
    return m_at == m_text.size() ? error("expected \")\"", column()) : unexpected();
  }

  Status name_query(const std::string& query, int at_column) {
    skip_space();
    if (!is_name_start(peek())) {
      return error("expected a name in \"" + query + "(…)\"", column());
    }
    const std::string name(take_name());
    TRY(close());
    return push_variable(query + "(" + name + ")", at_column);
  }

  Status call(const Function& function, int at_column) {
    int count = 0;
    do {
      TRY(conditional());
      ++count;
      if (function.arguments == 0 && count > 1) {
        push_binary(function.op, at_column);
      }
    } while (take(','));
    TRY(close());
    if (function.arguments == 0) {
      return {};
    }
    if (count != function.arguments) {
      return error(std::string(function.name) + " takes " + std::to_string(function.arguments) +
                       (function.arguments == 1 ? " argument" : " arguments") + ", not " +
                       std::to_string(count),
                   at_column);
    }
    if (function.arguments == 2) {
      push_binary(function.op, at_column);
    } else {
      emit(function.op, at_column);
    }
    return {};
  }

  std::string_view m_text;
  std::vector<std::string>& m_variables;
  std::vector<int>& m_columns;
  std::vector<Instruction>& m_code;
  std::size_t m_at = 0;
  int m_depth = 0;
  int m_stack = 0;
};

}  // namespace

Result<void> compile_expression(std::string_view text, std::vector<std::string>& variables,
                                std::vector<int>& columns, std::vector<Instruction>& code) {
  if (text.size() > k_max_text) {
    return fail(ErrorCode::expression, "text longer than 4096 bytes at column 1");
  }
  return Compiler(text, variables, columns, code).compile();
}

}  // namespace cubinary::core
