// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "builder/tune/search/search.hpp"

namespace cubinary::builder {

// What Search::make chooses from, and what the strategies share.

[[nodiscard]] std::unique_ptr<Search> make_local_search(const SearchSpace& space,
                                                        const SearchOptions& options);
[[nodiscard]] std::unique_ptr<Search> make_model_search(const SearchSpace& space,
                                                        const SearchOptions& options);

/// An integer in [0, count), the same on every standard library.
[[nodiscard]] inline std::size_t draw(std::mt19937_64& random, std::size_t count) {
  return static_cast<std::size_t>(random() % count);
}

/// As std::shuffle, and the same on every standard library.
template <typename T>
void shuffle(std::vector<T>& items, std::mt19937_64& random) {
  for (std::size_t left = items.size(); left > 1; --left) {
    std::swap(items[left - 1], items[draw(random, left)]);
  }
}

}  // namespace cubinary::builder
