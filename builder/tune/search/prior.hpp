// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "builder/tune/search/search.hpp"

namespace cubinary::builder {

/// What priors say of a space, whether or not it is true there.
struct Trend {
  /// log(time / best time) by config, as measured elsewhere or guessed from what is alike; empty
  /// when the priors hold too little to guess from.
  std::vector<double> expected;
  std::vector<ConfigIndex>
      order;                 ///< configs that worked elsewhere or are guessed to, fastest first
  std::vector<bool> failed;  ///< by config: it failed elsewhere; empty like `expected`

  [[nodiscard]] bool known() const { return !expected.empty(); }
  [[nodiscard]] double at(ConfigIndex config) const { return known() ? expected[config] : 0; }
};

/// Tunables are matched by name, so that a prior of another version of the kernel helps with what
/// they share. Priors that share fewer than three in four tunables say nothing.
[[nodiscard]] Trend make_trend(const SearchSpace& space, std::span<const SearchPrior> priors);

}  // namespace cubinary::builder
