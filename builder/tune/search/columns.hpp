// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "builder/tune/search/space.hpp"

namespace cubinary::builder {

/// A space as a model sees it: columns of discrete levels with a coordinate each, so that a kernel
/// along one column is a small table.
///
/// One column a tunable with several values: numbers by half their rank and half their logarithm,
/// what is no number by equality. Where whole numbers are not all powers of two, a second column
/// holds the power of two that divides them: that is what alignment, warps and banks see.
struct ModelColumns {
  struct Column {
    std::vector<double> coordinates;  ///< in [0, 1], by level
    bool ordered = true;              ///< false: two levels are equal or they are not

    /// How unlike two levels are, in [0, 1].
    [[nodiscard]] double distance(std::size_t a, std::size_t b) const;
  };
  std::vector<Column> columns;
  std::vector<std::uint16_t> levels;  ///< row by row
  /// One level a column.
  [[nodiscard]] std::span<const std::uint16_t> row(std::size_t config) const {
    return {levels.data() + config * columns.size(), columns.size()};
  }
};
[[nodiscard]] ModelColumns model_columns(const SearchSpace& space);

}  // namespace cubinary::builder
