// SPDX-License-Identifier: Apache-2.0
#include "server/range.hpp"

#include <algorithm>
#include <charconv>
#include <optional>

namespace cubinary::server {
namespace {

enum class Number : std::uint8_t { absent, valid, invalid };

/// Digits only; one beyond 64 bits counts as the largest, since it lies behind any end.
Number read_number(std::string_view text, std::uint64_t& value) {
  if (text.empty()) {
    return Number::absent;
  }
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (end != text.data() + text.size() || text.front() == '+' || text.front() == '-') {
    return Number::invalid;
  }
  if (error == std::errc::result_out_of_range) {
    value = UINT64_MAX;
    return Number::valid;
  }
  return error == std::errc() ? Number::valid : Number::invalid;
}

std::string_view trim(std::string_view text) {
  const auto begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) {
    return {};
  }
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

}  // namespace

RangeRequest parse_range(std::string_view header, std::uint64_t size) {
  constexpr std::string_view k_unit = "bytes=";
  if (!header.starts_with(k_unit)) {
    return {};
  }
  const std::string_view set = trim(header.substr(k_unit.size()));
  if (set.find(',') != std::string_view::npos) {
    return {.kind = RangeRequest::Kind::unsatisfiable};
  }
  const auto dash = set.find('-');
  if (dash == std::string_view::npos) {
    return {};
  }
  std::uint64_t first = 0;
  std::uint64_t last = 0;
  const Number has_first = read_number(set.substr(0, dash), first);
  const Number has_last = read_number(set.substr(dash + 1), last);
  if (has_first == Number::invalid || has_last == Number::invalid ||
      (has_first == Number::absent && has_last == Number::absent) ||
      (has_first == Number::valid && has_last == Number::valid && last < first)) {
    return {};
  }
  if (has_first == Number::absent) {
    const std::uint64_t length = std::min(last, size);
    if (length == 0) {
      return {.kind = RangeRequest::Kind::unsatisfiable};
    }
    return {RangeRequest::Kind::part, size - length, length};
  }
  if (first >= size) {
    return {.kind = RangeRequest::Kind::unsatisfiable};
  }
  const std::uint64_t end = has_last == Number::absent ? size - 1 : std::min(last, size - 1);
  return {RangeRequest::Kind::part, first, end - first + 1};
}

}  // namespace cubinary::server
