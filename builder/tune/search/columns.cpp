// SPDX-License-Identifier: Apache-2.0
#include "builder/tune/search/columns.hpp"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace cubinary::builder {
namespace {

using Column = ModelColumns::Column;

std::optional<double> to_number(const core::TunableValue& value) {
  if (const auto* whole = std::get_if<std::int64_t>(&value)) {
    return static_cast<double>(*whole);
  }
  if (const auto* flag = std::get_if<bool>(&value)) {
    return *flag ? 1 : 0;
  }
  const auto& text = std::get<std::string>(value);
  double parsed = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), parsed);
  return error == std::errc{} && end == text.data() + text.size() && std::isfinite(parsed)
             ? std::optional(parsed)
             : std::nullopt;
}

/// All values as numbers; empty when one is none.
std::vector<double> to_numbers(const SearchTunable& tunable) {
  std::vector<double> numbers;
  for (const core::TunableValue& value : tunable.values) {
    const auto number = to_number(value);
    if (!number) {
      return {};
    }
    numbers.push_back(*number);
  }
  return numbers;
}

Column value_column(const SearchTunable& tunable) {
  const std::vector<double> numbers = to_numbers(tunable);
  const std::size_t count = tunable.values.size();
  if (numbers.empty()) {
    return {std::vector<double>(count, 0), false};
  }
  std::vector<double> sorted = numbers;
  std::sort(sorted.begin(), sorted.end());
  const double low = sorted.front();
  const double high = sorted.back();
  Column column;
  for (const double number : numbers) {
    const auto place = std::lower_bound(sorted.begin(), sorted.end(), number) - sorted.begin();
    const double rank = static_cast<double>(place) / static_cast<double>(count - 1);
    const double scale =
        low >= 0 ? std::log2((number + 1) / (low + 1)) / std::log2((high + 1) / (low + 1))
                 : (number - low) / (high - low);
    column.coordinates.push_back((rank + scale) / 2);
  }
  return column;
}

/// Powers of two that divide the values, up to 64, and for each value which; none when they say
/// nothing that the values' order does not.
std::optional<std::pair<Column, std::vector<std::uint16_t>>> alignment_column(
    const SearchTunable& tunable) {
  constexpr int k_most = 6;
  constexpr std::size_t k_enough = 4;  // of fewer values each is its own case anyway
  std::vector<std::uint16_t> powers;
  bool mixed = false;
  for (const core::TunableValue& value : tunable.values) {
    const auto* whole = std::get_if<std::int64_t>(&value);
    if (whole == nullptr || *whole <= 0) {
      return std::nullopt;
    }
    const auto number = static_cast<std::uint64_t>(*whole);
    mixed = mixed || !std::has_single_bit(number);
    powers.push_back(static_cast<std::uint16_t>(std::min(std::countr_zero(number), k_most)));
  }
  if (!mixed || powers.size() < k_enough) {
    return std::nullopt;
  }
  const int low = *std::min_element(powers.begin(), powers.end());
  const int high = *std::max_element(powers.begin(), powers.end());
  if (low == high) {
    return std::nullopt;
  }
  Column column;
  for (int power = low; power <= high; ++power) {
    column.coordinates.push_back(static_cast<double>(power - low) / (high - low));
  }
  for (std::uint16_t& power : powers) {
    power = static_cast<std::uint16_t>(power - low);
  }
  return std::pair(std::move(column), std::move(powers));
}

}  // namespace

double ModelColumns::Column::distance(std::size_t a, std::size_t b) const {
  if (!ordered) {
    return a == b ? 0 : 1;
  }
  return std::abs(coordinates[a] - coordinates[b]);
}

ModelColumns model_columns(const SearchSpace& space) {
  ModelColumns model;
  struct Source {
    std::size_t dimension;
    std::vector<std::uint16_t> level;  ///< by value index
  };
  std::vector<Source> sources;
  for (std::size_t d = 0; d < space.dimensions(); ++d) {
    const SearchTunable& tunable = space.tunables()[d];
    const std::size_t count = tunable.values.size();
    if (count < 2) {
      continue;
    }
    std::vector<std::uint16_t> same(count);
    for (std::size_t i = 0; i < count; ++i) {
      same[i] = static_cast<std::uint16_t>(i);
    }
    model.columns.push_back(value_column(tunable));
    sources.push_back({d, std::move(same)});
    if (auto alignment = alignment_column(tunable)) {
      model.columns.push_back(std::move(alignment->first));
      sources.push_back({d, std::move(alignment->second)});
    }
  }
  model.levels.reserve(space.size() * sources.size());
  for (ConfigIndex config = 0; config < space.size(); ++config) {
    const auto point = space.point(config);
    for (const Source& source : sources) {
      model.levels.push_back(source.level[point[source.dimension]]);
    }
  }
  return model;
}

}  // namespace cubinary::builder
