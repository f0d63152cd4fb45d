// SPDX-License-Identifier: Apache-2.0
#include "builder/tune/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
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

MeanInterval trimmed_mean(std::span<const double> samples) {
  constexpr double k_trimmed = 0.2;
  std::vector<double> sorted(samples.begin(), samples.end());
  std::sort(sorted.begin(), sorted.end());
  const std::size_t n = sorted.size();
  const auto cut = static_cast<std::size_t>(k_trimmed * static_cast<double>(n));
  const std::size_t kept = n - 2 * cut;
  if (n == 0) {
    return {};
  }
  const auto sum = [&](const auto& term) {
    double total = 0;
    for (std::size_t i = 0; i < n; ++i) {
      total += term(i);
    }
    return total;
  };
  const auto winsorised = [&](std::size_t i) { return sorted[std::clamp(i, cut, n - 1 - cut)]; };
  MeanInterval found;
  found.mean = sum([&](std::size_t i) { return i < cut || i >= n - cut ? 0 : sorted[i]; }) /
               static_cast<double>(kept);
  if (kept < 2) {
    constexpr double k_infinite = std::numeric_limits<double>::infinity();
    found.low = -k_infinite;
    found.high = k_infinite;
    return found;
  }
  const double centre = sum(winsorised) / static_cast<double>(n);
  const double squares = sum([&](std::size_t i) {
    const double off = winsorised(i) - centre;
    return off * off;
  });
  // Student's quantile with kept - 1 degrees of freedom, by the first terms of its expansion
  // (Abramowitz and Stegun, 26.7.5); good to 1% from five on.
  const double z = k_normal_95;
  const auto degrees = static_cast<double>(kept - 1);
  const double t = z + (z * z * z + z) / (4 * degrees) +
                   (5 * std::pow(z, 5) + 16 * z * z * z + 3 * z) / (96 * degrees * degrees);
  const double half = t * std::sqrt(squares / (static_cast<double>(kept) * degrees));
  found.low = found.mean - half;
  found.high = found.mean + half;
  return found;
}

namespace {

std::vector<double> differences(std::span<const double> a, std::span<const double> b) {
  std::vector<double> found(std::min(a.size(), b.size()));
  for (std::size_t i = 0; i < found.size(); ++i) {
    found[i] = b[i] - a[i];
  }
  return found;
}

}  // namespace

MeanInterval trimmed_difference(std::span<const double> a, std::span<const double> b) {
  return trimmed_mean(differences(a, b));
}

MedianInterval paired_difference(std::span<const double> a, std::span<const double> b) {
  return median_interval(differences(a, b));
}

}  // namespace cubinary::builder
