// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "builder/tune/message.hpp"
#include "builder/tune/search/space.hpp"
#include "core/base/digest.hpp"
#include "core/base/result.hpp"
#include "core/launch/launch.hpp"
#include "core/manifest/manifest.hpp"
#include "core/table/kernel_table.hpp"
#include "store/candidates.hpp"
#include "store/tunings.hpp"

namespace cubinary::builder {

/// Pointers a tuner passes are aligned to this, and winners hold for pointers that are.
inline constexpr std::int64_t k_tuned_alignment = 256;

/// Everything about tuning one job that needs neither a device nor a store: its shapes, launches,
/// space and floor. It keeps what it was made from.
class JobPlan {
 public:
  /// Candidates are the kernel's current ones of the job's target; one without an id could be
  /// compiled and is part of the space. Errors: `unsupported`, by name, for what a tuner cannot do
  /// (no reference, an argument only a caller can make), `not_found` when the helpers or every
  /// candidate are missing.
  [[nodiscard]] static core::Result<JobPlan> make(core::Manifest manifest,
                                                  const store::TuningJob& job,
                                                  const core::DeviceFacts& device,
                                                  const std::vector<store::Candidate>& candidates);

  [[nodiscard]] const store::TuningJob& job() const { return m_job; }
  [[nodiscard]] const SearchSpace& space() const { return *m_space; }
  /// What an untuned release would run: the first `prefer` that holds, else the default.
  [[nodiscard]] const core::Config& baseline() const { return m_baseline; }
  /// `prefer` configs and the default, as far as they are in the space.
  [[nodiscard]] const std::vector<core::Config>& first() const { return m_first; }
  /// The manifest's, where its files are.
  [[nodiscard]] std::filesystem::path folder() const { return m_manifest.path.parent_path(); }
  [[nodiscard]] bool cold() const { return m_manifest.cold_cache; }
  /// Digest of what a measurement depends on besides its own cubin: arguments, fills, launches,
  /// lets, the helpers' cubins, tolerances, shapes to check, cache. Not the lists of values: one
  /// more config makes no measurement stale.
  [[nodiscard]] const core::Digest& recipe() const { return m_recipe; }

  /// The candidate that holds a config's code; null when none is usable.
  [[nodiscard]] const store::Candidate* candidate(const core::Config& config) const;
  /// How many of the space's candidates were not compiled yet.
  [[nodiscard]] std::size_t uncompiled() const { return m_uncompiled; }
  /// Configs of the space, without those whose candidate failed to compile since.
  [[nodiscard]] std::size_t compilable() const;
  /// What became of a candidate that was not compiled; one that is none of this job changes
  /// nothing.
  void compiled(const store::Candidate& candidate);
  [[nodiscard]] const store::Candidate& reference() const { return *m_reference; }
  [[nodiscard]] const store::Candidate* prepare() const {
    return m_prepare ? &*m_prepare : nullptr;
  }

  /// Shapes and buffers, without cubins and files.
  [[nodiscard]] core::Result<ProblemSpec> problem(std::uint64_t seed) const;
  /// Launches on every shape, without the cubin. `unsupported` when this device cannot launch it.
  [[nodiscard]] core::Result<CandidateSpec> programs(const core::Config& config) const;

  /// What `bytes`, `flops` and the buffers say; nothing when the manifest says nothing.
  struct Work {
    double cold_bytes = 0;  ///< that must come from device memory
    double bytes = 0;       ///< that must pass the L2 cache
    double flops = 0;
  };
  [[nodiscard]] const Work& work() const { return m_work; }
  /// No honest run is faster than this, given the session's peaks; 0 when nothing is known.
  [[nodiscard]] double floor_us(const std::map<std::string, double>& peaks,
                                std::int64_t l2_bytes) const;

 private:
  JobPlan() = default;
  [[nodiscard]] core::Result<void> check_arguments() const;
  [[nodiscard]] core::Result<void> find_candidates(const std::vector<store::Candidate>& all);
  [[nodiscard]] core::Result<void> make_space();
  [[nodiscard]] core::Result<void> make_work();
  void make_recipe();
  [[nodiscard]] core::Result<core::LaunchPlan> plan(const core::Config& config,
                                                    const core::Shape& shape) const;
  [[nodiscard]] core::Result<core::LaunchPlan> plan_helper(const core::HelperKernel& helper,
                                                           const store::Candidate& candidate,
                                                           const core::Shape& shape) const;
  [[nodiscard]] core::Result<ProgramSpec> program(
      const core::LaunchPlan& plan, const std::vector<core::EntrySymbol>& symbols) const;
  [[nodiscard]] core::Result<BufferSpec> buffer(const core::CallerArgument& argument,
                                                const core::LaunchScope& scope) const;
  [[nodiscard]] std::vector<core::Shape> shapes() const;
  [[nodiscard]] bool is_of_job(const store::Candidate& candidate) const;

  core::Manifest m_manifest;
  store::TuningJob m_job;
  core::DeviceFacts m_device;
  std::optional<core::Target> m_target;
  core::KernelTable m_table;
  core::Alignments m_alignments;
  std::map<core::Config, store::Candidate> m_candidates;  ///< by code part
  std::size_t m_uncompiled = 0;
  std::optional<store::Candidate> m_reference;
  std::optional<store::Candidate> m_prepare;
  std::optional<SearchSpace> m_space;
  core::Config m_baseline;
  std::vector<core::Config> m_first;
  core::Digest m_recipe;
  Work m_work;
};

}  // namespace cubinary::builder
