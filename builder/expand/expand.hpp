// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "builder/expand/count.hpp"
#include "core/base/result.hpp"
#include "core/manifest/manifest.hpp"
#include "core/model/target.hpp"
#include "core/model/values.hpp"
#include "store/candidates.hpp"

namespace cubinary::builder {

/// What makes one cubin of a kernel, apart from target and toolchain.
struct Variant {
  store::CandidateRole role = store::CandidateRole::kernel;
  core::Types types;
  core::Shape compile_axes;
  core::Config config;  ///< code-changing tunables only; empty for helpers

  friend bool operator==(const Variant&, const Variant&) = default;
};

/// More candidates of one kernel and target than this are refused: nobody meant them.
inline constexpr std::uint64_t k_max_candidates = 1'000'000;

/// All candidates of a manifest for one target: types × compile axes × code-changing tunables, then
/// one reference and one `prepare` a types × compile axes. Sorted by role, types, axes and config.
///
/// A candidate is kept when some choice of the other tunables satisfies every rule that neither a
/// run-time axis, nor an alignment, nor the device takes part in; a rule that fails to evaluate
/// does not hold. Errors: `manifest` when the rules leave out the default config (no candidate
/// could ever be launched untuned), `too_large` beyond k_max_candidates.
[[nodiscard]] core::Result<std::vector<Variant>> expand(const core::Manifest& manifest,
                                                        const core::Target& target);

/// What the rules do to a manifest's space on one target.
struct SpaceCount {
  struct Rule {
    std::string text;
    int line = 0;
    bool at_launch = false;  ///< needs the shape, an alignment or the device: judged at launch
    Count killed;            ///< combinations this rule was the first to refuse
  };
  struct Value {
    std::string tunable;
    std::string value;
  };
  Count raw;                ///< types × compile axes × all tunables
  Count configs;            ///< of those, what the rules leave: raw − Σ killed
  Count candidates;         ///< cubins, without helpers
  std::vector<Rule> rules;  ///< in the manifest's order
  std::vector<Value> dead;  ///< tunable values in no valid config
};
[[nodiscard]] SpaceCount count_space(const core::Manifest& manifest, const core::Target& target);

}  // namespace cubinary::builder
