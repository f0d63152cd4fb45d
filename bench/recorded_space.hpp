// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "builder/tune/search/search.hpp"
#include "core/base/result.hpp"

namespace cubinary::bench {

/// A tuning space that somebody measured whole: every valid config and what it came to.
struct RecordedSpace {
  struct Row {
    builder::SearchOutcome::Kind kind = builder::SearchOutcome::Kind::ok;
    double time_us = 0;                 ///< as recorded: what a choice is judged by
    std::vector<float> relative_noise;  ///< each single measurement / their mean
  };
  std::string name;            ///< the file's, without `.csv.gz`
  builder::SearchSpace space;  ///< in the file's order
  std::vector<Row> rows;       ///< by ConfigIndex
  double optimum_us = 0;

  /// Reads CSV, gzip-compressed or not: a column a tunable, then `status`, `time_ms` and, as far as
  /// recorded, others, of which `samples_ms` is used (single measurements separated by spaces).
  /// Errors name file and line.
  [[nodiscard]] static core::Result<RecordedSpace> read(const std::filesystem::path& path);

  /// One evaluation: the median of `samples` single measurements drawn from the recorded ones.
  [[nodiscard]] builder::SearchOutcome evaluate(builder::ConfigIndex config, std::uint64_t samples,
                                                std::mt19937_64& random) const;
  /// Everything recorded here, as another device's knowledge.
  [[nodiscard]] builder::SearchPrior as_prior() const;
};

/// One run: evaluations until the config it would choose (the fastest measured) was in truth within
/// 5% and 1% of the optimum for the first time; where that never came, one more than the limit.
struct Replay {
  double within_5 = 0;
  double within_1 = 0;
  double asks = 0;
  double seconds = 0;  ///< of all asks and tells, and of drawing the noise
};
/// Ends after `limit` evaluations, or when it came within 1%.
[[nodiscard]] Replay replay(const RecordedSpace& recorded, const builder::SearchOptions& options,
                            std::uint64_t samples, std::uint64_t limit);

}  // namespace cubinary::bench
