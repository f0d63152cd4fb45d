// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <numbers>
#include <random>
#include <string>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include "builder/tune/race.hpp"

using cubinary::builder::Race;

namespace {

constexpr double k_tick = 0.032;
constexpr std::size_t k_most_rounds = 2500;

/// A device as recorded on real ones: times are multiples of a tick, scatter by a quarter of a
/// microsecond and 0.8%, and one in eight is late by up to eight times that.
class Device {
 public:
  explicit Device(std::uint64_t seed) : m_random(seed) {}
  double unit() { return (static_cast<double>(m_random() >> 11U) + 0.5) * 0x1p-53; }
  double normal() {
    return std::sqrt(-2 * std::log(unit())) * std::cos(2 * std::numbers::pi * unit());
  }
  double sample(double us) {
    const double scatter = 0.25 + 0.008 * us;
    const double late = unit() < 0.12 ? unit() * 8 * scatter : 0;
    return std::max(k_tick, std::round((us + scatter * normal() + late) / k_tick) * k_tick);
  }
  std::mt19937_64& random() { return m_random; }

 private:
  std::mt19937_64 m_random;
};

struct Ran {
  std::vector<Race::Place> places;
  std::size_t rounds = 0;
};

Ran run(Device& device, const std::vector<double>& times, const std::vector<std::string>& names) {
  Race race(names, k_tick);
  while (race.rounds() < k_most_rounds) {
    const std::vector<std::uint32_t> racing = race.racing();
    for (int i = 0; i < 10; ++i) {
      for (const std::uint32_t runner : racing) {
        race.add(runner, device.sample(times[runner]));
      }
    }
    if (race.look()) {
      break;
    }
  }
  return {race.places(std::vector<bool>(times.size(), false)), race.rounds()};
}

}  // namespace

TEST_CASE("who is far behind leaves at once, who is plainly slower soon") {
  Race race({"a", "b", "c"}, k_tick);
  Device device(1);
  std::size_t rounds = 0;
  const auto one_round = [&] {
    const std::vector<std::uint32_t> racing = race.racing();
    for (const std::uint32_t runner : racing) {
      race.add(runner, device.sample(runner == 0 ? 50 : runner == 1 ? 51 : 5000));
    }
    ++rounds;
  };
  for (int i = 0; i < 4; ++i) {
    one_round();
    CHECK_FALSE(race.look());
  }
  CHECK(race.racing() == std::vector<std::uint32_t>{0, 1});
  while (!race.look()) {
    one_round();
    REQUIRE(rounds < 1000);
  }
  CHECK(race.racing() == std::vector<std::uint32_t>{0});
  const auto places = race.places({false, false, false});
  CHECK(places[0].runner == 0);
  CHECK(places[1].runner == 1);
  CHECK(places[2].runner == 2);
  CHECK_FALSE(places[0].tied);
}

TEST_CASE("equals are tied and go to the smaller name; the disqualified come last") {
  Device device(2);
  const Ran ran = run(device, {20, 20, 20, 21}, {"d", "b", "c", "a"});
  REQUIRE(ran.places.size() == 4);
  CHECK(ran.places[0].runner == 1);
  CHECK(ran.places[0].tied);
  CHECK(ran.places[1].tied);
  CHECK(ran.places[2].tied);
  CHECK(ran.places[3].runner == 3);
  CHECK_FALSE(ran.places[3].tied);

  Race race({"a", "b"}, k_tick);
  for (int i = 0; i < 30; ++i) {
    race.add(0, 5);
    race.add(1, 10);
  }
  CHECK(race.places({true, false})[0].runner == 1);
  CHECK(race.places({true, false})[1].runner == 0);
  CHECK_FALSE(race.places({true, false})[0].tied);
  CHECK(race.places({true, true}).size() == 2);
}

TEST_CASE("a race of one, and one without a round") {
  Race none({}, k_tick);
  CHECK(none.look());
  CHECK(none.places({}).empty());
  Race one({"a"}, k_tick);
  CHECK(one.places({false}).size() == 1);
  Device device(3);
  CHECK(run(device, {10}, {"a"}).places[0].runner == 0);
}

TEST_CASE("two tunes agree: their winners are within half a percent or a tick, 95 times in 100") {
  // Jobs of 4.5 to 600 us, two to seven finalists that lie 0.6% apart on average. Where buffers lie
  // in memory changes what is fastest: 0.12% a config and process.
  constexpr int k_jobs = 40;
  constexpr double k_process = 0.0012;
  Device jobs(5);
  int agree = 0;
  double behind = 0;
  for (int job = 0; job < k_jobs; ++job) {
    const double base = 4.5 * std::exp(jobs.unit() * std::log(600 / 4.5));
    std::vector<double> times;
    std::vector<std::string> names;
    for (std::size_t i = 0, count = 2 + jobs.random()() % 6; i < count; ++i) {
      times.push_back(base * (1 + (i == 0 ? 0 : -0.006 * std::log(jobs.unit()))));
      names.push_back(std::to_string(jobs.random()() % 100'000));
    }
    Device device(static_cast<std::uint64_t>(100 + job));
    double winners[2];
    for (double& winner : winners) {
      std::vector<double> here = times;
      for (double& time : here) {
        time *= 1 + k_process * device.normal();
      }
      winner = times[run(device, here, names).places[0].runner];
      behind += winner / base - 1;
    }
    agree += std::abs(winners[0] - winners[1]) <= std::max(0.005 * base, k_tick) ? 1 : 0;
  }
  CAPTURE(agree);
  CHECK(agree * 100 >= k_jobs * 95);
  CHECK(behind / (2 * k_jobs) < 0.0015);  // and they are right
}
