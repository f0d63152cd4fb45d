// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numbers>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "builder/tune/search/columns.hpp"
#include "builder/tune/search/gaussian_process.hpp"
#include "builder/tune/search/prior.hpp"
#include "builder/tune/search/strategies.hpp"

namespace cubinary::builder {
namespace {

// What the search is made of; chosen on recorded and on made-up spaces, none of it sensitive.
constexpr std::size_t k_start = 6;          // configs spread out before a model is asked
constexpr std::size_t k_start_pool = 64;    // random ones that each of those is chosen from
constexpr std::size_t k_prior_start = 3;    // with a prior: its best, before a model is asked
constexpr std::size_t k_pool = 600;         // random configs an ask weighs, besides neighbours
constexpr std::size_t k_prior_pool = 300;   // and the prior's best
constexpr std::size_t k_centres = 4;        // best configs whose neighbours are weighed
constexpr std::size_t k_local_turn = 4;     // every so many asks go to a neighbour of the best
constexpr std::size_t k_most_points = 150;  // a model is made of
constexpr std::size_t k_asks_a_fit = 60;    // one ask more a fit each time so many are known
constexpr int k_first_trials = 60;
constexpr int k_later_trials = 12;
constexpr int k_feasible_trials = 5;
constexpr double k_cap_quantile = 0.7;  // times beyond it count by k_cap_slope only
constexpr double k_cap_slope = 0.3;
constexpr double k_least_chance = 0.02;
constexpr double k_failed_before = 0.25;  // chance of what failed elsewhere

// Settled: for so many asks no config was expected to gain more than this.
constexpr double k_settled_gain = 0.0005;
constexpr std::size_t k_settled_asks = 40;

/// Expected improvement of a normal below `best` (Jones, Schonlau and Welch, 1998).
double expected_improvement(double best, const GaussianProcess::Prediction& at) {
  const double z = (best - at.mean) / at.deviation;
  const double density = std::exp(-0.5 * z * z) / std::sqrt(2 * std::numbers::pi);
  const double below = 0.5 * std::erfc(-z / std::numbers::sqrt2);
  return at.deviation * (z * below + density);
}

/// Bayesian optimisation with a local search in it: a Gaussian process over log time and one over
/// feasibility; most asks go where the expected improvement is largest, every fourth one to the
/// neighbour of the best config that is predicted fastest.
class ModelSearch : public Search {
 public:
  ModelSearch(const SearchSpace& space, const SearchOptions& options)
      : Search(space),
        m_random(options.seed),
        m_columns(model_columns(space)),
        m_trend(make_trend(space, options.priors)),
        m_plain(m_columns),
        m_guided(m_columns),
        m_feasible(m_columns),
        m_shuffled(space.size()) {
    std::iota(m_shuffled.begin(), m_shuffled.end(), ConfigIndex{0});
    shuffle(m_shuffled, m_random);
    for (const ConfigIndex config : contrasts()) {
      m_queue.push_back(config);
    }
    for (std::size_t i = std::min(k_prior_start, m_trend.order.size()); i-- > 0;) {
      m_queue.push_back(m_trend.order[i]);
    }
    for (std::size_t i = options.first.size(); i-- > 0;) {
      if (const auto config = space.find(options.first[i])) {
        m_queue.push_back(*config);
      }
    }
  }

  [[nodiscard]] bool settled() const override {
    return finished() || m_without_hope >= k_settled_asks;
  }

 private:
  /// What changes from one device to another is most often what a whole tunable is worth: for each,
  /// the prior's best config with another value than its best one has. The least promising first.
  [[nodiscard]] std::vector<ConfigIndex> contrasts() const {
    std::vector<ConfigIndex> found;
    for (std::size_t d = 0; m_trend.known() && !m_trend.order.empty() && d < space().dimensions();
         ++d) {
      const auto usual = space().point(m_trend.order.front())[d];
      const auto other = std::ranges::find_if(
          m_trend.order, [&](ConfigIndex config) { return space().point(config)[d] != usual; });
      if (other != m_trend.order.end() && std::ranges::find(found, *other) == found.end()) {
        found.push_back(*other);
      }
    }
    std::ranges::sort(found, [&](ConfigIndex a, ConfigIndex b) {
      return std::pair(m_trend.at(a), a) > std::pair(m_trend.at(b), b);
    });
    return found;
  }

  std::optional<ConfigIndex> next() override {
    std::optional<ConfigIndex> config;
    while (!m_queue.empty() && !config) {
      if (state(m_queue.back()) == State::open) {
        config = m_queue.back();
      }
      m_queue.pop_back();
    }
    if (!config) {
      const std::size_t start = m_trend.known() ? k_prior_start + 1 : k_start;
      config = m_ok < 2 || m_known.size() + m_asked.size() < start ? spread() : modelled();
    }
    if (config) {
      m_asked.push_back(*config);
    }
    return config;
  }

  void learn(ConfigIndex config, const SearchOutcome& outcome) override {
    std::erase(m_asked, config);
    std::erase(m_known, config);
    if (outcome.kind != SearchOutcome::Kind::withdrawn) {
      m_known.push_back(config);
    }
    m_ok = static_cast<std::size_t>(
        std::count_if(m_known.begin(), m_known.end(),
                      [&](ConfigIndex known) { return state(known) == State::ok; }));
  }

  /// Open configs, another part of a fixed random order each time.
  std::vector<ConfigIndex> pool(std::size_t count) {
    std::vector<ConfigIndex> configs;
    std::size_t place = m_place;
    for (std::size_t seen = 0; seen < m_shuffled.size() && configs.size() < count; ++seen) {
      if (state(m_shuffled[place]) == State::open) {
        configs.push_back(m_shuffled[place]);
      }
      place = (place + 1) % m_shuffled.size();
    }
    m_place = place;
    return configs;
  }

  /// Of some open configs the one farthest from all that were asked.
  std::optional<ConfigIndex> spread() {
    std::optional<ConfigIndex> chosen;
    double farthest = -1;
    for (const ConfigIndex config : pool(k_start_pool)) {
      double nearest = std::numeric_limits<double>::infinity();
      for (const auto* others : {&m_known, &m_asked}) {
        for (const ConfigIndex other : *others) {
          nearest = std::min(nearest, distance(config, other));
        }
      }
      if (nearest > farthest) {
        farthest = nearest;
        chosen = config;
      }
    }
    return chosen;
  }

  [[nodiscard]] double distance(ConfigIndex a, ConfigIndex b) const {
    double sum = 0;
    for (std::size_t c = 0; c < m_columns.columns.size(); ++c) {
      sum += m_columns.columns[c].distance(m_columns.row(a)[c], m_columns.row(b)[c]);
    }
    return sum;
  }

  /// Known ok configs, fastest first.
  [[nodiscard]] std::vector<ConfigIndex> by_time() const {
    std::vector<ConfigIndex> order;
    for (const ConfigIndex config : m_known) {
      if (state(config) == State::ok) {
        order.push_back(config);
      }
    }
    std::sort(order.begin(), order.end(), [&](ConfigIndex a, ConfigIndex b) {
      return std::pair(time_us(a), a) < std::pair(time_us(b), b);
    });
    return order;
  }

  [[nodiscard]] std::vector<ConfigIndex> open_neighbours(ConfigIndex centre) const {
    std::vector<ConfigIndex> open = space().neighbours(centre);
    std::erase_if(open, [&](ConfigIndex config) { return state(config) != State::open; });
    return open;
  }

  /// Makes both models of what is known; outstanding configs count as what is predicted of them.
  void fit(const std::vector<ConfigIndex>& order) {
    // Far from the best, it is enough to know that it is far.
    const auto at_cap =
        static_cast<std::size_t>(k_cap_quantile * static_cast<double>(order.size() - 1));
    const double cap = std::log(time_us(order[at_cap]));
    std::vector<GaussianProcess::Point> points;
    for (const ConfigIndex config : order) {
      const double y = std::log(time_us(config));
      points.push_back({config, y <= cap ? y : cap + k_cap_slope * (y - cap), m_trend.at(config)});
    }
    if (points.size() > k_most_points) {
      // The fastest, and some of the others to know where not to look.
      for (std::size_t k = k_most_points * 2 / 3; k < k_most_points; ++k) {
        std::swap(points[k], points[k + draw(m_random, points.size() - k)]);
      }
      points.resize(k_most_points);
    }
    const bool first = m_fitted == 0;
    const bool search = m_known.size() >= m_fitted + std::max<std::size_t>(1, m_fitted / 12);
    if (search) {
      m_fitted = m_known.size();
    }
    const int later = search ? k_later_trials : 0;
    const int trials = first ? k_first_trials : later;
    m_plain.fit(points, false, trials, m_random);
    m_times = &m_plain;
    if (m_trend.known()) {
      // A prior that means nothing here must not mislead: it counts while it explains the times.
      m_guided.fit(points, true, trials, m_random);
      m_times = m_guided.evidence() > m_plain.evidence() ? &m_guided : &m_plain;
    }
    if (!m_asked.empty()) {
      const auto guesses = m_times->predict(m_asked, trends(m_asked));
      for (std::size_t i = 0; i < m_asked.size(); ++i) {
        points.push_back({m_asked[i], guesses[i].mean, m_trend.at(m_asked[i])});
      }
      m_times->fit(points, m_times == &m_guided, 0, m_random);
    }
    if (order.size() == m_known.size()) {
      return;
    }
    std::vector<GaussianProcess::Point> labels;
    const std::size_t begin = m_known.size() > k_most_points ? m_known.size() - k_most_points : 0;
    for (std::size_t i = begin; i < m_known.size(); ++i) {
      labels.push_back({m_known[i], state(m_known[i]) == State::ok ? 1.0 : 0.0, 0});
    }
    m_feasible.fit(std::move(labels), false, search ? k_feasible_trials : 0, m_random);
  }

  [[nodiscard]] std::vector<double> trends(const std::vector<ConfigIndex>& configs) const {
    std::vector<double> values;
    for (const ConfigIndex config : configs) {
      values.push_back(m_trend.at(config));
    }
    return values;
  }

  /// How probably a config works at all.
  [[nodiscard]] std::vector<double> chances(const std::vector<ConfigIndex>& configs) const {
    std::vector<double> values(configs.size(), 1);
    if (m_feasible.size() > 0) {
      const auto predictions = m_feasible.predict(configs, {});
      for (std::size_t i = 0; i < values.size(); ++i) {
        values[i] = std::clamp(predictions[i].mean, k_least_chance, 1.0);
      }
    }
    if (m_trend.known()) {
      for (std::size_t i = 0; i < values.size(); ++i) {
        values[i] *= m_trend.failed[configs[i]] ? k_failed_before : 1;
      }
    }
    return values;
  }

  std::optional<ConfigIndex> modelled() {
    const std::vector<ConfigIndex> order = by_time();
    fit(order);
    ++m_turn;
    if (m_turn % k_local_turn == 0) {
      if (const auto config = best_neighbour(order)) {
        return config;
      }
    }
    return most_promising(order);
  }

  /// The neighbour of the best config that still has open ones, by predicted time.
  std::optional<ConfigIndex> best_neighbour(const std::vector<ConfigIndex>& order) {
    for (const ConfigIndex centre : order) {
      const std::vector<ConfigIndex> near = open_neighbours(centre);
      if (near.empty()) {
        continue;
      }
      const auto predictions = m_times->predict(near, trends(near));
      const auto chance = chances(near);
      std::size_t chosen = 0;
      const auto worth = [&](std::size_t i) { return predictions[i].mean - std::log(chance[i]); };
      for (std::size_t i = 1; i < near.size(); ++i) {
        if (worth(i) < worth(chosen)) {
          chosen = i;
        }
      }
      return near[chosen];
    }
    return std::nullopt;
  }

  std::optional<ConfigIndex> most_promising(const std::vector<ConfigIndex>& order) {
    std::vector<ConfigIndex> configs = pool(k_pool);
    for (std::size_t i = 0; i < std::min(k_centres, order.size()); ++i) {
      const auto near = open_neighbours(order[i]);
      configs.insert(configs.end(), near.begin(), near.end());
    }
    if (m_trend.known()) {
      std::size_t taken = 0;
      for (std::size_t i = 0; i < m_trend.order.size() && taken < k_prior_pool; ++i) {
        if (state(m_trend.order[i]) == State::open) {
          configs.push_back(m_trend.order[i]);
          ++taken;
        }
      }
    }
    std::sort(configs.begin(), configs.end());
    configs.erase(std::unique(configs.begin(), configs.end()), configs.end());
    if (configs.empty()) {
      return std::nullopt;
    }
    const double best = std::log(best_time_us());
    const auto predictions = m_times->predict(configs, trends(configs));
    const auto chance = chances(configs);
    std::vector<std::pair<double, ConfigIndex>> ranked;
    for (std::size_t i = 0; i < configs.size(); ++i) {
      ranked.emplace_back(-chance[i] * expected_improvement(best, predictions[i]), configs[i]);
    }
    const std::size_t picks = std::min(ranked.size(), 1 + m_known.size() / k_asks_a_fit);
    std::partial_sort(ranked.begin(), ranked.begin() + static_cast<std::ptrdiff_t>(picks),
                      ranked.end());
    m_without_hope = -ranked.front().first < k_settled_gain ? m_without_hope + 1 : 0;
    for (std::size_t i = picks; i-- > 1;) {
      m_queue.push_back(ranked[i].second);
    }
    return ranked.front().second;
  }

  std::mt19937_64 m_random;
  ModelColumns m_columns;
  Trend m_trend;
  GaussianProcess m_plain;
  GaussianProcess m_guided;            ///< with the prior's trend
  GaussianProcess* m_times = nullptr;  ///< the better of the two
  GaussianProcess m_feasible;
  std::vector<ConfigIndex> m_shuffled;
  std::size_t m_place = 0;
  std::vector<ConfigIndex> m_queue;  ///< to ask before anything else, from the back
  std::vector<ConfigIndex> m_known;  ///< told, in the order of the last tells
  std::vector<ConfigIndex> m_asked;  ///< and not told
  std::size_t m_ok = 0;
  std::size_t m_fitted = 0;  ///< known when the model's parameters were last searched
  std::size_t m_turn = 0;
  std::size_t m_without_hope = 0;
};

}  // namespace

std::unique_ptr<Search> make_model_search(const SearchSpace& space, const SearchOptions& options) {
  return std::make_unique<ModelSearch>(space, options);
}

}  // namespace cubinary::builder
