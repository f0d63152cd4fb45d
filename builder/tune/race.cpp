// SPDX-License-Identifier: Apache-2.0
#include "builder/tune/race.hpp"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

#include "builder/tune/statistics.hpp"

namespace cubinary::builder {

namespace {

constexpr std::size_t k_first_look = 4;  ///< rounds, for who is far behind in each of them
constexpr double k_far = 1.3;
constexpr std::size_t k_least_rounds = 12;
constexpr double k_different = 0.005;   ///< what makes a difference to two tunes
constexpr double k_resolution = 0.002;  ///< half width of a difference / time that is good enough
constexpr double k_near_ticks = 0.5;
constexpr double k_ticks = 0.5;      ///< or half width / tick
constexpr double k_precise = 0.003;  ///< half width of the leader's own interval / median

}  // namespace

Race::Race(std::vector<std::string> names, double tick_us)
    : m_names(std::move(names)),
      m_tick(tick_us),
      m_times(m_names.size()),
      m_racing(m_names.size()),
      m_next_look(k_first_look) {
  std::iota(m_racing.begin(), m_racing.end(), 0U);
}

std::size_t Race::rounds() const {
  return m_racing.empty() ? 0 : m_times[m_racing.front()].size();
}

std::uint32_t Race::leader(const std::vector<std::uint32_t>& among) const {
  std::vector<std::pair<double, std::uint32_t>> order;
  for (const std::uint32_t runner : among) {
    order.emplace_back(trimmed_mean(m_times[runner]).mean, runner);
  }
  return std::ranges::min(order).second;
}

bool Race::look() {
  const std::size_t count = rounds();
  if (count < m_next_look || m_racing.empty()) {
    return m_racing.empty();
  }
  m_next_look = std::max(k_least_rounds, count + count / 6);
  const std::uint32_t best = leader(m_racing);
  if (count < k_least_rounds) {
    const double bound = k_far * std::ranges::max(m_times[best]);
    std::erase_if(m_racing, [&](std::uint32_t runner) {
      return runner != best && std::ranges::min(m_times[runner]) > bound;
    });
    return false;
  }
  const MedianInterval own = median_interval(m_times[best]);
  bool sure = own.half_width() <= std::max(k_precise * own.median, m_tick);
  std::erase_if(m_racing, [&](std::uint32_t runner) {
    if (runner == best) {
      return false;
    }
    const MeanInterval d = trimmed_difference(m_times[best], m_times[runner]);
    // Who surely is not near the fastest cannot win.
    const bool slower = d.low > std::max(k_near * own.median, k_near_ticks * m_tick);
    sure =
        sure && (slower || d.half_width() <= std::max(k_resolution * own.median, k_ticks * m_tick));
    return slower;
  });
  return sure;
}

std::vector<Race::Place> Race::places(const std::vector<bool>& disqualified) const {
  std::vector<std::uint32_t> finished;
  for (const std::uint32_t runner : m_racing) {
    if (!disqualified[runner] && !m_times[runner].empty()) {
      finished.push_back(runner);
    }
  }
  struct Judged {
    int rank = 0;  ///< near the fastest, not told from it, finished, sent off, disqualified
    double behind = 0;
    std::uint32_t runner = 0;
  };
  std::vector<Judged> judged;
  const std::uint32_t best = finished.empty() ? 0 : leader(finished);
  const double time = finished.empty() ? 0 : median_interval(m_times[best]).median;
  for (std::uint32_t runner = 0; runner < m_names.size(); ++runner) {
    Judged each{4, median_interval(m_times[runner]).median, runner};
    if (!disqualified[runner]) {
      each.rank = 3;
    }
    if (std::ranges::find(finished, runner) != finished.end()) {
      const MeanInterval d = trimmed_difference(m_times[best], m_times[runner]);
      each.behind = d.mean;
      each.rank = d.mean <= std::max(k_near * time, k_near_ticks * m_tick)                      ? 0
                  : d.holds(0) && d.mean <= std::max(k_different * time, k_near_ticks * m_tick) ? 1
                                                                                                : 2;
    }
    judged.push_back(each);
  }
  std::ranges::sort(judged, [&](const Judged& a, const Judged& b) {
    const auto key = [&](const Judged& each) {
      return std::tuple(each.rank, each.rank == 0 ? 0 : each.behind, m_names[each.runner]);
    };
    return key(a) < key(b);
  });
  const auto tied =
      std::ranges::count_if(judged, [](const Judged& each) { return each.rank <= 1; });
  std::vector<Place> places;
  for (const Judged& each : judged) {
    places.push_back({each.runner, each.rank <= 1 && tied > 1});
  }
  return places;
}

}  // namespace cubinary::builder
