// SPDX-License-Identifier: Apache-2.0
#include "builder/tune/search/search.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <random>
#include <utility>

#include "builder/tune/search/strategies.hpp"
#include "core/base/nearest.hpp"

namespace cubinary::builder {
namespace {

constexpr std::array<std::string_view, 4> k_names = {"model", "exhaustive", "random",
                                                     "local-search"};

/// What a tuning that is cut short must have measured comes first: what an untuned release runs.
void begin_with(const SearchSpace& space, const std::vector<core::Config>& first,
                std::vector<ConfigIndex>& order) {
  auto place = order.begin();
  for (const core::Config& config : first) {
    if (const auto index = space.find(config)) {
      const auto found = std::find(place, order.end(), *index);
      if (found != order.end()) {
        std::rotate(place, found, found + 1);
        ++place;
      }
    }
  }
}

/// Every config once, in a given order.
class Listed : public Search {
 public:
  Listed(const SearchSpace& space, std::vector<ConfigIndex> order)
      : Search(space), m_order(std::move(order)) {}

 private:
  std::optional<ConfigIndex> next() override {
    while (m_place < m_order.size()) {
      const ConfigIndex config = m_order[m_place];
      if (state(config) == State::open) {
        return config;
      }
      ++m_place;
    }
    m_place = 0;  // a withdrawn config may be open again
    const auto open = std::find_if(m_order.begin(), m_order.end(), [&](ConfigIndex config) {
      return state(config) == State::open;
    });
    return open == m_order.end() ? std::nullopt : std::optional(*open);
  }
  void learn(ConfigIndex, const SearchOutcome&) override {}

  std::vector<ConfigIndex> m_order;
  std::size_t m_place = 0;
};

}  // namespace

std::string_view strategy_name(SearchStrategy strategy) {
  return k_names[static_cast<std::size_t>(strategy)];
}

core::Result<SearchStrategy> parse_strategy(std::string_view name) {
  const auto* const found = std::find(k_names.begin(), k_names.end(), name);
  if (found == k_names.end()) {
    const std::vector<std::string> all(k_names.begin(), k_names.end());
    return core::fail(core::ErrorCode::usage,
                      "no search strategy is called \"" + std::string(name) + "\"" +
                          core::did_you_mean(name, all) +
                          "; there are model, exhaustive, random and local-search");
  }
  return static_cast<SearchStrategy>(found - k_names.begin());
}

Search::Search(const SearchSpace& space)
    : m_space(space), m_state(space.size(), State::open), m_times(space.size(), 0) {
}

std::unique_ptr<Search> Search::make(const SearchSpace& space, const SearchOptions& options) {
  std::vector<ConfigIndex> order(space.size());
  std::iota(order.begin(), order.end(), ConfigIndex{0});
  switch (options.strategy) {
    case SearchStrategy::exhaustive:
      begin_with(space, options.first, order);
      return std::make_unique<Listed>(space, std::move(order));
    case SearchStrategy::random: {
      std::mt19937_64 random(options.seed);
      shuffle(order, random);
      begin_with(space, options.first, order);
      return std::make_unique<Listed>(space, std::move(order));
    }
    case SearchStrategy::local_search:
      return make_local_search(space, options);
    case SearchStrategy::model:
      break;
  }
  return make_model_search(space, options);
}

std::vector<ConfigIndex> Search::ask(std::size_t count) {
  std::vector<ConfigIndex> configs;
  while (configs.size() < count) {
    const auto config = next();
    if (!config) {
      break;
    }
    m_state[*config] = State::asked;
    configs.push_back(*config);
  }
  return configs;
}

void Search::tell(ConfigIndex config, const SearchOutcome& told) {
  SearchOutcome outcome = told;
  if (outcome.kind == SearchOutcome::Kind::ok &&
      !(std::isfinite(outcome.time_us) && outcome.time_us > 0)) {
    outcome = {SearchOutcome::Kind::failed, 0};
  }
  const bool known = m_state[config] == State::ok || m_state[config] == State::failed;
  m_told -= known ? 1 : 0;
  switch (outcome.kind) {
    case SearchOutcome::Kind::withdrawn:
      m_state[config] = State::open;
      break;
    case SearchOutcome::Kind::ok:
      m_state[config] = State::ok;
      m_times[config] = outcome.time_us;
      ++m_told;
      break;
    case SearchOutcome::Kind::compile_failed:
    case SearchOutcome::Kind::failed:
      m_state[config] = State::failed;
      ++m_told;
      break;
  }
  if (m_best == config) {
    find_best();
  } else if (m_state[config] == State::ok &&
             (!m_best || std::pair(outcome.time_us, config) < std::pair(m_best_time, *m_best))) {
    m_best = config;
    m_best_time = outcome.time_us;
  }
  learn(config, outcome);
}

void Search::find_best() {
  m_best.reset();
  m_best_time = 0;
  for (ConfigIndex config = 0; config < m_space.size(); ++config) {
    if (m_state[config] == State::ok && (!m_best || m_times[config] < m_best_time)) {
      m_best = config;
      m_best_time = m_times[config];
    }
  }
}

bool Search::worth_more(std::span<const double> samples_us) const {
  // First samples are off by up to a tenth downwards and far more upwards, so a few of them
  // condemn only what is slow in each of them.
  constexpr std::size_t k_few = 3;
  constexpr std::size_t k_some = 8;
  constexpr double k_far = 1.4;
  constexpr double k_near = 1.15;
  if (!m_best || samples_us.size() < k_few) {
    return true;
  }
  const double least = *std::min_element(samples_us.begin(), samples_us.end());
  return least <= m_best_time * (samples_us.size() < k_some ? k_far : k_near);
}

}  // namespace cubinary::builder
