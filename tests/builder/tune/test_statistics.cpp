// SPDX-License-Identifier: Apache-2.0
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

}  // namespace
}  // namespace cubinary::builder
