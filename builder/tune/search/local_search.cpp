// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>
#include <optional>
#include <vector>

#include "builder/tune/search/strategies.hpp"

namespace cubinary::builder {
namespace {

/// From a random start (or a given one) to the first better neighbour until none is better, then
/// from another start. Only one config is outstanding at a time in a descent; further asks begin
/// new starts.
class LocalSearch : public Search {
 public:
  LocalSearch(const SearchSpace& space, const SearchOptions& options)
      : Search(space), m_random(options.seed), m_starts(space.size()) {
    std::iota(m_starts.begin(), m_starts.end(), ConfigIndex{0});
    shuffle(m_starts, m_random);
    for (auto config = options.first.rbegin(); config != options.first.rend(); ++config) {
      if (const auto index = space.find(*config)) {
        m_starts.push_back(*index);
      }
    }
  }

 private:
  std::optional<ConfigIndex> next() override {
    while (!m_neighbours.empty()) {
      const ConfigIndex config = m_neighbours.back();
      m_neighbours.pop_back();
      if (state(config) == State::open) {
        return config;
      }
    }
    m_centre.reset();
    while (!m_starts.empty()) {
      const ConfigIndex config = m_starts.back();
      m_starts.pop_back();
      if (state(config) == State::open) {
        return config;
      }
    }
    for (ConfigIndex config = 0; config < this->space().size(); ++config) {
      if (state(config) == State::open) {  // was withdrawn
        return config;
      }
    }
    return std::nullopt;
  }

  void learn(ConfigIndex config, const SearchOutcome& outcome) override {
    if (outcome.kind != SearchOutcome::Kind::ok) {
      return;
    }
    if (!m_centre || time_us(config) < time_us(*m_centre)) {
      m_centre = config;
      m_neighbours = this->space().neighbours(config);
      shuffle(m_neighbours, m_random);
    }
  }

  std::mt19937_64 m_random;
  std::vector<ConfigIndex> m_starts;  ///< taken from the back
  std::optional<ConfigIndex> m_centre;
  std::vector<ConfigIndex> m_neighbours;
};

}  // namespace

std::unique_ptr<Search> make_local_search(const SearchSpace& space, const SearchOptions& options) {
  return std::make_unique<LocalSearch>(space, options);
}

}  // namespace cubinary::builder
