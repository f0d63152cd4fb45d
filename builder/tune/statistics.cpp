// SPDX-License-Identifier: Apache-2.0
#include "builder/tune/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace cubinary::builder {

namespace {

constexpr double k_normal_95 = 1.959964;

}  // namespace

MedianInterval median_interval(std::span<const double> samples) {
  if (samples.empty()) {
    return {};
  }
  std::vector<double> sorted(samples.begin(), samples.end());
  std::sort(sorted.begin(), sorted.end());
  const std::size_t n = sorted.size();
  MedianInterval found;
  found.median = (sorted[(n - 1) / 2] + sorted[n / 2]) / 2;
  // How many samples lie below the median is binomial(n, 1/2); its normal approximation, rounded
  // outwards.
  const double rank =
      (static_cast<double>(n) - k_normal_95 * std::sqrt(static_cast<double>(n))) / 2;
  const auto low = static_cast<std::size_t>(std::max(0.0, std::floor(rank)));
  found.low = sorted[low];
  found.high = sorted[n - 1 - low];
  return found;
}

MedianInterval paired_difference(std::span<const double> a, std::span<const double> b) {
  std::vector<double> differences(std::min(a.size(), b.size()));
  for (std::size_t i = 0; i < differences.size(); ++i) {
    differences[i] = b[i] - a[i];
  }
  return median_interval(differences);
}

}  // namespace cubinary::builder
