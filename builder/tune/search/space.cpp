// SPDX-License-Identifier: Apache-2.0
#include "builder/tune/search/space.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "core/base/nearest.hpp"

namespace cubinary::builder {
namespace {

using core::ErrorCode;
using core::fail;
using core::Result;

/// FNV-1a over the indices, finished so that low bits depend on all of them.
std::uint64_t hash(std::span<const std::uint16_t> point) {
  std::uint64_t value = 0xcbf29ce484222325U;
  for (const std::uint16_t index : point) {
    value = (value ^ index) * 0x100000001b3U;
  }
  return value ^ (value >> 32U);
}

std::vector<std::string> names(const std::vector<SearchTunable>& tunables) {
  std::vector<std::string> all;
  for (const SearchTunable& tunable : tunables) {
    all.push_back(tunable.name);
  }
  return all;
}

std::optional<std::uint16_t> index_of(const SearchTunable& tunable,
                                      const core::TunableValue& value) {
  const auto place = std::lower_bound(tunable.values.begin(), tunable.values.end(), value);
  if (place == tunable.values.end() || *place != value) {
    return std::nullopt;
  }
  return static_cast<std::uint16_t>(place - tunable.values.begin());
}

}  // namespace

Result<SearchSpace> SearchSpace::make(std::vector<SearchTunable> tunables,
                                      std::span<const core::Config> configs) {
  if (configs.empty()) {
    return fail(ErrorCode::usage, "there is no config to search");
  }
  if (configs.size() > k_max_configs) {
    return fail(ErrorCode::too_large,
                std::to_string(configs.size()) + " configs are too many to search: at most " +
                    std::to_string(k_max_configs) + "; narrow the tunables or add a rule");
  }
  SearchSpace space;
  space.m_tunables = std::move(tunables);
  for (SearchTunable& tunable : space.m_tunables) {
    std::sort(tunable.values.begin(), tunable.values.end());
    tunable.values.erase(std::unique(tunable.values.begin(), tunable.values.end()),
                         tunable.values.end());
    if (tunable.values.size() > std::numeric_limits<std::uint16_t>::max()) {
      return fail(ErrorCode::too_large, "tunable " + tunable.name + " has " +
                                            std::to_string(tunable.values.size()) +
                                            " values: at most 65535 can be searched");
    }
  }
  std::vector<std::uint16_t> point(space.dimensions());
  for (const core::Config& config : configs) {
    for (std::size_t d = 0; d < point.size(); ++d) {
      const SearchTunable& tunable = space.m_tunables[d];
      const auto value = config.find(tunable.name);
      if (value == config.end()) {
        return fail(ErrorCode::usage,
                    "config " + core::to_display(config) + " says nothing of " + tunable.name);
      }
      const auto index = index_of(tunable, value->second);
      if (!index) {
        return fail(ErrorCode::usage, "config " + core::to_display(config) + ": " +
                                          core::to_code(value->second) +
                                          " is not among the values of " + tunable.name);
      }
      point[d] = *index;
    }
    if (config.size() != point.size()) {
      for (const auto& [name, value] : config) {
        const auto all = names(space.m_tunables);
        if (std::find(all.begin(), all.end(), name) == all.end()) {
          return fail(ErrorCode::usage, "config " + core::to_display(config) + ": no tunable " +
                                            name + core::did_you_mean(name, all));
        }
      }
    }
    if (!space.find(point)) {
      space.m_by_hash.emplace(hash(point), static_cast<ConfigIndex>(space.m_size++));
      space.m_points.insert(space.m_points.end(), point.begin(), point.end());
    }
  }
  return space;
}

core::Config SearchSpace::config(ConfigIndex index) const {
  core::Config config;
  const auto values = point(index);
  for (std::size_t d = 0; d < values.size(); ++d) {
    config.emplace(m_tunables[d].name, m_tunables[d].values[values[d]]);
  }
  return config;
}

std::optional<ConfigIndex> SearchSpace::find(std::span<const std::uint16_t> wanted) const {
  const auto [begin, end] = m_by_hash.equal_range(hash(wanted));
  for (auto place = begin; place != end; ++place) {
    const auto found = point(place->second);
    if (std::equal(found.begin(), found.end(), wanted.begin(), wanted.end())) {
      return place->second;
    }
  }
  return std::nullopt;
}

std::optional<ConfigIndex> SearchSpace::find(const core::Config& config) const {
  std::vector<std::uint16_t> wanted(dimensions());
  for (std::size_t d = 0; d < wanted.size(); ++d) {
    const auto value = config.find(m_tunables[d].name);
    const auto index =
        value == config.end() ? std::nullopt : index_of(m_tunables[d], value->second);
    if (!index) {
      return std::nullopt;
    }
    wanted[d] = *index;
  }
  return config.size() == wanted.size() ? find(wanted) : std::nullopt;
}

std::vector<ConfigIndex> SearchSpace::neighbours(ConfigIndex config) const {
  std::vector<ConfigIndex> found;
  const auto centre = point(config);
  std::vector<std::uint16_t> other(centre.begin(), centre.end());
  for (std::size_t d = 0; d < other.size(); ++d) {
    for (std::size_t value = 0; value < m_tunables[d].values.size(); ++value) {
      if (value == centre[d]) {
        continue;
      }
      other[d] = static_cast<std::uint16_t>(value);
      if (const auto neighbour = find(other)) {
        found.push_back(*neighbour);
      }
    }
    other[d] = centre[d];
  }
  return found;
}

std::uint64_t SearchSpace::code(ConfigIndex config) const {
  std::vector<std::uint16_t> part;
  const auto values = point(config);
  for (std::size_t d = 0; d < values.size(); ++d) {
    if (m_tunables[d].changes_code) {
      part.push_back(values[d]);
    }
  }
  return hash(part);
}

}  // namespace cubinary::builder
