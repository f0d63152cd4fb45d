// SPDX-License-Identifier: Apache-2.0
#include "core/base/nearest.hpp"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace cubinary::core {
namespace {

// Longer text is no typing slip, and the distance costs the product of the lengths.
constexpr std::size_t k_longest = 128;

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](char x, char y) { return lower(x) == lower(y); });
}

std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1);
  std::vector<std::size_t> last(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) {
    last[j] = j;
  }
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replace = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({replace, last[j] + 1, row[j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
    std::swap(before, last);
    std::swap(last, row);
  }
  return last[b.size()];
}

}  // namespace

std::optional<std::string> nearest_name(std::string_view wrong,
                                        std::span<const std::string> candidates) {
  if (wrong.empty() || wrong.size() > k_longest) {
    return std::nullopt;
  }
  const std::string* best = nullptr;
  std::size_t best_distance = 0;
  for (const std::string& candidate : candidates) {
    if (candidate.empty() || candidate.size() > k_longest) {
      continue;
    }
    const std::size_t d = equal_ignoring_case(wrong, candidate) ? 0 : distance(wrong, candidate);
    const std::size_t limit = std::max(wrong.size(), candidate.size()) / 3 + 1;
    if (d <= limit && (best == nullptr || d < best_distance)) {
      best = &candidate;
      best_distance = d;
    }
  }
  return best == nullptr ? std::nullopt : std::optional<std::string>(*best);
}

std::string did_you_mean(std::string_view wrong, std::span<const std::string> candidates) {
  const auto name = nearest_name(wrong, candidates);
  return name ? " (did you mean \"" + *name + "\"?)" : std::string();
}

}  // namespace cubinary::core
