// SPDX-License-Identifier: Apache-2.0
#include "builder/tune/search/prior.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "builder/tune/search/columns.hpp"

namespace cubinary::builder {
namespace {

/// Fewer measurements than this are starting points and no trend.
constexpr std::size_t k_least_points = 24;

/// The values of the shared tunables, as value indices of the space; a value the space does not
/// have stands as its nearest.
using Projection = std::vector<std::uint16_t>;

struct Known {
  double least = std::numeric_limits<double>::infinity();  ///< log time, of those that agree
  bool worked = false;
};

class PriorTable {
 public:
  PriorTable(const SearchSpace& space, const SearchPrior& prior) : m_space(space) {
    if (prior.points.empty()) {
      return;
    }
    for (std::size_t d = 0; d < space.dimensions(); ++d) {
      if (prior.points.front().config.contains(space.tunables()[d].name)) {
        m_shared.push_back(d);
      }
    }
    // What shares less is another kernel; what was fast there is chance here.
    const std::size_t most = std::max(space.dimensions(), prior.points.front().config.size());
    if (4 * m_shared.size() < 3 * most) {
      return;
    }
    double best = std::numeric_limits<double>::infinity();
    for (const SearchPrior::Point& point : prior.points) {
      const auto projection = project(point.config);
      if (!projection) {
        continue;
      }
      Known& known = m_known[*projection];
      if (point.ok && point.time_us > 0) {
        known.worked = true;
        known.least = std::min(known.least, std::log(point.time_us));
        best = std::min(best, known.least);
      }
    }
    double worst = 0;
    for (auto& [projection, known] : m_known) {
      if (known.worked) {
        known.least -= best;
        worst = std::max(worst, known.least);
        ++m_worked;
      }
    }
    for (auto& [projection, known] : m_known) {
      if (!known.worked) {
        known.least = worst;
      }
    }
  }

  [[nodiscard]] std::size_t worked() const { return m_worked; }

  /// The entry that agrees in all shared tunables.
  [[nodiscard]] const Known* find(ConfigIndex config) const {
    const auto found = m_known.find(project(config));
    return found == m_known.end() ? nullptr : &found->second;
  }

  /// Guesses by what is alike: the mean of the nearest, weighted by 1 / distance².
  [[nodiscard]] double guess(ConfigIndex config) {
    // Enough to guess well, few enough that a million configs are guessed in a second or two.
    constexpr std::size_t k_most = 400;
    constexpr std::size_t k_least = 20;
    constexpr std::size_t k_work = 40'000'000;
    if (m_sample.empty()) {
      const std::size_t count = std::clamp(k_work / m_space.size(), k_least, k_most);
      const std::size_t stride = m_known.size() / count + 1;
      std::size_t place = 0;
      for (const auto& entry : m_known) {
        if (place++ % stride == 0) {
          m_sample.push_back(&entry);
        }
      }
    }
    const Projection wanted = project(config);
    double sum = 0;
    double weights = 0;
    for (const auto* entry : m_sample) {
      double distance = 0.02;
      for (std::size_t i = 0; i < wanted.size(); ++i) {
        const auto levels = static_cast<double>(m_space.tunables()[m_shared[i]].values.size());
        distance += std::abs(wanted[i] - entry->first[i]) / levels;
      }
      const double weight = std::pow(distance, -4);
      sum += weight * entry->second.least;
      weights += weight;
    }
    return sum / weights;
  }

 private:
  [[nodiscard]] Projection project(ConfigIndex config) const {
    Projection projection;
    const auto point = m_space.point(config);
    for (const std::size_t d : m_shared) {
      projection.push_back(point[d]);
    }
    return projection;
  }

  [[nodiscard]] std::optional<Projection> project(const core::Config& config) const {
    Projection projection;
    for (const std::size_t d : m_shared) {
      const auto value = config.find(m_space.tunables()[d].name);
      const auto& values = m_space.tunables()[d].values;
      if (value == config.end()) {
        return std::nullopt;
      }
      const auto place = std::lower_bound(values.begin(), values.end(), value->second);
      if (place == values.end() || *place != value->second) {
        return std::nullopt;
      }
      projection.push_back(static_cast<std::uint16_t>(place - values.begin()));
    }
    return projection;
  }

  const SearchSpace& m_space;
  std::vector<std::size_t> m_shared;
  std::map<Projection, Known> m_known;
  std::vector<const std::pair<const Projection, Known>*> m_sample;
  std::size_t m_worked = 0;
};

}  // namespace

Trend make_trend(const SearchSpace& space, std::span<const SearchPrior> priors) {
  Trend trend;
  std::vector<double> expected(space.size(), 0);
  std::vector<bool> failed(space.size(), false);
  std::vector<bool> worked(space.size(), false);
  std::size_t used = 0;
  std::size_t points = 0;
  for (const SearchPrior& prior : priors) {
    PriorTable table(space, prior);
    if (table.worked() == 0) {
      continue;
    }
    ++used;
    points += table.worked();
    const bool few = table.worked() < k_least_points;
    for (ConfigIndex config = 0; config < space.size(); ++config) {
      if (const Known* known = table.find(config)) {
        expected[config] += known->least;
        failed[config] = failed[config] || !known->worked;
        worked[config] = worked[config] || known->worked;
      } else if (!few) {
        expected[config] += table.guess(config);
      }
    }
  }
  if (used == 0) {
    return trend;
  }
  const bool enough = points >= k_least_points;
  for (ConfigIndex config = 0; config < space.size(); ++config) {
    if (worked[config] || (enough && !failed[config])) {
      trend.order.push_back(config);
    }
  }
  std::sort(trend.order.begin(), trend.order.end(), [&](ConfigIndex a, ConfigIndex b) {
    return std::pair(expected[a], a) < std::pair(expected[b], b);
  });
  if (enough) {
    for (double& value : expected) {
      value /= static_cast<double>(used);
    }
    trend.expected = std::move(expected);
    trend.failed = std::move(failed);
  }
  return trend;
}

}  // namespace cubinary::builder
