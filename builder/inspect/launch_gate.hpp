// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "builder/expand/expand.hpp"
#include "builder/expand/space.hpp"
#include "builder/inspect/inspect.hpp"
#include "core/base/result.hpp"
#include "core/manifest/manifest.hpp"

namespace cubinary::builder {

/// Holds compiled entries against what their manifest will do with them: pass arguments, and launch
/// blocks. For one manifest and target; immutable, safe to share between threads.
class LaunchGate {
 public:
  LaunchGate(const core::Manifest& manifest, const core::Target& target);

  /// Whether the manifest has such types, compile axes and config at all.
  [[nodiscard]] bool knows(const Variant& variant) const { return choice_of(variant).has_value(); }

  /// For a variant it knows: whether the arguments the manifest passes are the parameters the
  /// entries take, and some valid config launches blocks and clusters they were compiled for, with
  /// the shared memory they leave. What depends on the shape or the device is judged at launch.
  /// `entries` and `names`, for messages, are one a step; a helper has one. The error is
  /// `bad_cubin`, a sentence.
  [[nodiscard]] core::Result<void> judge(const Variant& variant,
                                         std::span<const CubinEntry* const> entries,
                                         std::span<const std::string> names) const;

 private:
  struct Parameter {
    std::string name;
    std::string type;       ///< a type parameter's or dtype's name; empty: `size` is known
    std::string kind;       ///< for messages: `a pointer`
    std::int64_t size = 8;  ///< where no type tells
  };
  /// What launches one entry.
  struct Launch {
    std::vector<Parameter> parameters;
    std::vector<Space::Formula> block;
    std::vector<Space::Formula> cluster;
    std::optional<Space::Formula> smem;
  };
  struct Misfit;

  void add(store::CandidateRole role, const core::LaunchSpec& spec,
           const std::vector<std::size_t>& arguments, const core::Manifest& manifest);
  [[nodiscard]] core::Result<void> judge_parameters(const Launch& launch, const Variant& variant,
                                                    const CubinEntry& entry,
                                                    const std::string& name) const;
  [[nodiscard]] std::optional<Misfit> misfit(const Launch& launch, const CubinEntry& entry,
                                             const std::string& name,
                                             const Space::Evaluate& evaluate) const;
  [[nodiscard]] std::optional<std::vector<std::size_t>> choice_of(const Variant& variant) const;
  [[nodiscard]] std::string launch_config(const std::vector<std::size_t>& choice) const;

  core::Target m_target;
  Space m_space;
  std::vector<core::TypeParameter> m_types;
  std::vector<core::Axis> m_axes;
  std::vector<core::Tunable> m_tunables;
  std::map<store::CandidateRole, std::vector<Launch>> m_launches;
};

}  // namespace cubinary::builder
