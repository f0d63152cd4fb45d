// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "builder/compile/compile_job.hpp"
#include "builder/compile/worker.hpp"
#include "builder/inspect/inspect.hpp"
#include "builder/plan.hpp"
#include "core/base/result.hpp"
#include "store/artifacts.hpp"
#include "store/candidates.hpp"

namespace cubinary::builder {

/// Candidates that are one compilation: all of one code key.
struct CompileTask {
  std::vector<std::size_t> candidates;  ///< into Plan::candidates
  double expected_ms = 0;  ///< how long it may take, to start the longest in time; 0: unknown
};

/// What a task came to.
struct TaskResult {
  std::size_t task = 0;
  store::Candidate
      candidate;  ///< of the task's first candidate; key and variant of the others differ
  std::optional<store::PreparedArtifact> artifact;
  std::vector<CubinEntry> entries;  ///< one a step; empty unless the code is right
  unsigned crashes = 0;
};

/// A compilation of a planned candidate as a worker is asked for it. Reads the sources.
[[nodiscard]] core::Result<CompileJob> make_job(const PlannedKernel& kernel,
                                                const PlannedCandidate& candidate);

/// The kernel's row in a store, without what a build hashed.
[[nodiscard]] store::Kernel kernel_row(const PlannedKernel& kernel);

/// The candidate without a result: what the plan knows of it.
[[nodiscard]] store::Candidate candidate_of(const PlannedKernel& kernel,
                                            const PlannedCandidate& planned);

/// Refuses what was compiled of inputs that have changed since they were hashed: its keys would
/// lie. `compiled` are indices into the plan's candidates; `what` is to be run again.
[[nodiscard]] core::Result<void> check_unchanged(const Plan& plan,
                                                 std::span<const std::size_t> compiled,
                                                 std::string_view what);

/// Puts what a task came to: its artifact, and a candidate for each of `members`, which are of one
/// code key, of whatever kernels: code that is right, and that its own kernel's manifest cannot
/// launch, makes a failed candidate. Gives them in that order, with their ids.
[[nodiscard]] core::Result<std::vector<store::Candidate>> put_result(
    store::Writer& writer, const Plan& plan, const TaskResult& result,
    std::span<const std::size_t> members);

/// One thread's part in a build: a worker process and what to do with its answers.
class TaskRunner {
 public:
  TaskRunner(const WorkerOptions& options, std::chrono::milliseconds limit, int stop);

  /// Compiles, inspects and compresses. Nothing when the build was stopped. Errors end the build.
  [[nodiscard]] core::Result<std::optional<TaskResult>> run(
      const PlannedKernel& kernel, const PlannedCandidate& planned,
      const store::Dictionary* dictionary, HeaderUse header_use = HeaderUse::unknown);

 private:
  WorkerOptions m_options;
  std::chrono::milliseconds m_limit;
  int m_stop;
  std::optional<Worker> m_worker;
};

}  // namespace cubinary::builder
