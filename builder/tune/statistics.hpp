// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

namespace cubinary::builder {

/// A median with its 95% interval by order statistics: no assumption on how times are distributed.
struct MedianInterval {
  double median = 0;
  double low = 0;
  double high = 0;
  [[nodiscard]] double half_width() const { return (high - low) / 2; }
  [[nodiscard]] bool holds(double value) const { return low <= value && value <= high; }
};

/// Zeros without samples; with fewer than six the interval is their range, which holds the median
/// less often than 95%.
[[nodiscard]] MedianInterval median_interval(std::span<const double> samples);

/// A mean without the outer fifths, and its 95% interval.
struct MeanInterval {
  double mean = 0;
  double low = 0;
  double high = 0;
  [[nodiscard]] double half_width() const { return (high - low) / 2; }
  [[nodiscard]] bool holds(double value) const { return low <= value && value <= high; }
};

/// The 20% trimmed mean, its variance from the winsorised samples (Tukey and McLaughlin, 1963).
/// Narrower than the median's interval by a third where times are multiples of a tick, and as
/// little moved by outliers. Zeros without samples; one sample has an infinite interval.
[[nodiscard]] MeanInterval trimmed_mean(std::span<const double> samples);
/// The same of b[i] - a[i], pair by pair. The spans may differ in length; the pairs count.
[[nodiscard]] MeanInterval trimmed_difference(std::span<const double> a, std::span<const double> b);

/// The median of b[i] - a[i], pair by pair: what both saw alike (clocks, temperature, neighbours)
/// cancels. The spans are of one length.
[[nodiscard]] MedianInterval paired_difference(std::span<const double> a,
                                               std::span<const double> b);

}  // namespace cubinary::builder
