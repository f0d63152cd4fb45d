// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "core/expression/expression.hpp"

// Any text parses or is refused at a column inside it (or just behind); what parses evaluates, to a
// value or an error, and parses again to the same.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using cubinary::core::Expression;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto parsed = Expression::parse(text);
  if (!parsed) {
    if (parsed.error().message.find(" at column ") == std::string::npos) {
      std::abort();
    }
    return 0;
  }
  std::vector<std::int64_t> values;
  for (std::size_t i = 0; i < parsed->variables().size(); ++i) {
    values.push_back(i % 3 == 0 ? INT64_MAX : static_cast<std::int64_t>(i) - 2);
  }
  const auto first = parsed->evaluate(values);
  const auto again = Expression::parse(parsed->text());
  if (!again) {
    std::abort();
  }
  const auto second = again->evaluate(values);
  if (first.has_value() != second.has_value() || (first && *first != *second)) {
    std::abort();
  }
  return 0;
}
