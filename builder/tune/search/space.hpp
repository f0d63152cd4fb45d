// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/base/result.hpp"
#include "core/model/values.hpp"

namespace cubinary::builder {

/// A config's place in its SearchSpace.
using ConfigIndex = std::uint32_t;

/// One dimension of a search.
struct SearchTunable {
  std::string name;
  std::vector<core::TunableValue> values;  ///< distinct; numbers rise (the space sorts them)
  bool changes_code = false;               ///< another value needs another cubin
};

/// The valid configs of one kernel, types, shape and target, as value indices by tunable. Immutable
/// once made; any thread may read it.
class SearchSpace {
 public:
  /// `configs` assign every tunable of `tunables` a value that it lists; repetitions are dropped.
  /// Errors: `usage` for an empty space, a missing tunable, a value that is not listed, and more
  /// than k_max_configs.
  [[nodiscard]] static core::Result<SearchSpace> make(std::vector<SearchTunable> tunables,
                                                      std::span<const core::Config> configs);
  static constexpr std::size_t k_max_configs = 1'000'000;

  [[nodiscard]] std::size_t size() const { return m_size; }
  [[nodiscard]] const std::vector<SearchTunable>& tunables() const { return m_tunables; }
  [[nodiscard]] std::size_t dimensions() const { return m_tunables.size(); }
  /// Value indices, one a tunable.
  [[nodiscard]] std::span<const std::uint16_t> point(ConfigIndex config) const {
    return {m_points.data() + std::size_t{config} * dimensions(), dimensions()};
  }
  [[nodiscard]] core::Config config(ConfigIndex index) const;
  [[nodiscard]] std::optional<ConfigIndex> find(std::span<const std::uint16_t> point) const;
  [[nodiscard]] std::optional<ConfigIndex> find(const core::Config& config) const;

  /// Configs that differ in one tunable only, by tunable and value index.
  [[nodiscard]] std::vector<ConfigIndex> neighbours(ConfigIndex config) const;
  /// Equal for configs that share a cubin.
  [[nodiscard]] std::uint64_t code(ConfigIndex config) const;

 private:
  SearchSpace() = default;
  std::vector<SearchTunable> m_tunables;
  std::vector<std::uint16_t> m_points;  ///< row by row
  std::size_t m_size = 0;
  std::unordered_multimap<std::uint64_t, ConfigIndex> m_by_hash;
};

}  // namespace cubinary::builder
