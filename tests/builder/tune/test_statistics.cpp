// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <random>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include "builder/tune/statistics.hpp"

namespace cubinary::builder {
namespace {

TEST_CASE("medians and their intervals are order statistics") {
  CHECK(median_interval({}).median == 0);
  const std::vector<double> one{3};
  CHECK(median_interval(one).median == 3);
  CHECK(median_interval(one).half_width() == 0);
  const std::vector<double> four{4, 1, 2, 9};
  CHECK(median_interval(four).median == 3);
  CHECK(median_interval(four).low == 1);
  CHECK(median_interval(four).high == 9);
  std::vector<double> hundred;
  for (int i = 100; i > 0; --i) {
    hundred.push_back(i);
  }
  const MedianInterval found = median_interval(hundred);
  CHECK(found.median == 50.5);
  CHECK(found.low == 41);  // the 41st and the 60th of 100, as tables have it
  CHECK(found.high == 60);
  CHECK(found.holds(50));
  CHECK_FALSE(found.holds(61));
}

TEST_CASE("the interval of a difference holds zero about 95 times in 100 when there is none") {
  std::mt19937 random(7);
  std::lognormal_distribution<double> scatter(0, 0.05);
  int held = 0;
  for (int round = 0; round < 1000; ++round) {
    std::vector<double> a;
    std::vector<double> b;
    double drift = 10;
    for (int i = 0; i < 60; ++i) {
      drift *= 1.001;  // what both see
      a.push_back(drift * scatter(random));
      b.push_back(drift * scatter(random));
    }
    held += paired_difference(a, b).holds(0) ? 1 : 0;
  }
  CHECK(held >= 940);
  CHECK(held < 1000);
}

TEST_CASE("trimmed means leave out the outer fifths; their intervals hold the truth as promised") {
  CHECK(trimmed_mean({}).mean == 0);
  CHECK(trimmed_mean(std::vector<double>{3}).mean == 3);
  CHECK_FALSE(std::isfinite(trimmed_mean(std::vector<double>{3}).half_width()));
  const std::vector<double> ten{1, 2, 3, 4, 5, 6, 7, 8, -1000, 1000};
  CHECK(trimmed_mean(ten).mean == 4.5);  // of 2 to 7
  // Winsorised: 2 2 2 3 4 5 6 7 7 7, variance 42.5 / 9, of six that are left; t = 2.571.
  CHECK(std::abs(trimmed_mean(ten).half_width() - 2.571 * std::sqrt(42.5 / (6.0 * 5.0))) < 0.04);
  CHECK(trimmed_difference(std::vector<double>{1, 2, 3}, std::vector<double>{2, 4, 6, 9}).mean ==
        2);

  // Times that are multiples of a tick, as two of one candidate.
  std::mt19937 random(7);
  std::normal_distribution<double> scatter(0, 0.4);
  int held = 0;
  double width = 0;
  double width_of_median = 0;
  for (int i = 0; i < 1000; ++i) {
    std::vector<double> a;
    std::vector<double> b;
    for (int k = 0; k < 60; ++k) {
      a.push_back(std::round((5 + scatter(random)) / 0.032) * 0.032);
      b.push_back(std::round((5 + scatter(random)) / 0.032) * 0.032);
    }
    const MeanInterval d = trimmed_difference(a, b);
    held += d.holds(0) ? 1 : 0;
    width += d.half_width();
    width_of_median += paired_difference(a, b).half_width();
  }
  CHECK(held >= 930);
  CHECK(held < 980);
  CHECK(width < 0.9 * width_of_median);
}

}  // namespace
}  // namespace cubinary::builder
