// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "builder/compile/worker.hpp"
#include "builder/plan.hpp"
#include "core/base/result.hpp"
#include "core/model/target.hpp"
#include "store/candidates.hpp"
#include "store/store.hpp"

namespace cubinary::builder {

/// Another store that is asked before anything is compiled: which of these build keys it has, and
/// how they ended.
using AskElsewhere =
    std::function<core::Result<std::unordered_map<core::Digest, store::CandidateStatus>>(
        std::span<const core::Digest> build_keys)>;

struct BuildOptions {
  std::vector<std::filesystem::path> folders;  ///< of manifests
  std::string kernels;                         ///< glob over kernel names; empty: all
  std::vector<core::Target> targets;           ///< empty: each manifest's own
  std::filesystem::path toolkit;               ///< empty: look for one
  unsigned jobs = 0;                           ///< worker processes; 0: one a core
  bool explain = false;       ///< tell the observer why each candidate is built or not
  bool retry_failed = false;  ///< compile again what failed with the same inputs
  std::chrono::milliseconds time_limit{300'000};  ///< a candidate
  WorkerOptions worker;
  AskElsewhere elsewhere;  ///< what it has is not compiled here; empty: nobody is asked
  int stop = -1;           ///< a file descriptor that becomes readable when the build is to stop
};

struct BuildProgress {
  std::size_t done = 0;    ///< compiled in this build, failures included
  std::size_t total = 0;   ///< to compile in this build
  std::size_t failed = 0;  ///< of those done
  double seconds = 0;      ///< since compiling began
};

/// What a finished build says is current of one kernel.
struct BuiltKernel {
  store::Kernel kernel;
  std::map<std::string, std::vector<core::Digest>> build_keys;  ///< by target
};

struct BuildSummary {
  std::uint64_t ok = 0;       ///< candidates that are usable now
  std::uint64_t failed = 0;   ///< that are not, whether compiled now or known from before
  std::uint64_t skipped = 0;  ///< not compiled: their inputs are unchanged
  std::uint64_t compiled = 0;
  std::uint64_t crashes = 0;        ///< of the compiler, retries included
  double seconds = 0;               ///< wall time of the whole build
  double cpu_seconds = 0;           ///< of this process and all workers
  double compiler_cpu_seconds = 0;  ///< of the workers
  /// CPU time of the coordinator while no worker works, before and after: what more cores do not
  /// shorten.
  double serial_seconds = 0;
  double idle_seconds = 0;           ///< that workers had nothing to do, summed over them
  bool stopped = false;              ///< before everything was compiled
  std::vector<std::string> kernels;  ///< what was built, for reports
  std::vector<std::string> targets;
  std::vector<BuiltKernel> current;  ///< empty when stopped
  /// Kernel and target whose every config failed: nothing can be released of them. Empty when
  /// stopped.
  std::vector<std::pair<std::string, std::string>> hopeless;
};

/// What a build tells while it runs. All calls come from the thread that called build.
class BuildObserver {
 public:
  BuildObserver() = default;
  BuildObserver(const BuildObserver&) = delete;
  BuildObserver& operator=(const BuildObserver&) = delete;
  virtual ~BuildObserver() = default;

  /// Before compiling: how many candidates there are and how many will be compiled.
  virtual void planned(std::size_t candidates, std::size_t to_compile, unsigned jobs) = 0;
  /// With `explain`: why a candidate is, or is not, compiled.
  virtual void explained(const store::Candidate& candidate, const std::string& reason) = 0;
  /// A candidate's result is safe in the store, or was there before as a failure.
  virtual void finished(const store::Candidate& candidate, bool compiled_now) = 0;
  /// Several times a second.
  virtual void progress(const BuildProgress& progress) = 0;
  /// Something worth a line that is no result.
  virtual void note(const std::string& text) = 0;
};

/// Builds: expands the manifests, compiles what the store does not know in worker processes,
/// inspects and compresses the cubins, and commits them in groups. What was committed survives
/// anything; when everything went through, the candidates become the current ones of their kernel
/// and target.
///
/// A candidate that fails, hangs or crashes the compiler is a result, kept in the store and not
/// tried again until its inputs change (or `retry_failed`). Errors: those of load_manifests and
/// make_plan; `environment` when workers cannot work at all; `disk_full` and others of the store;
/// `io` when a source changed while it was compiled, in which case nothing compiled since is kept.
[[nodiscard]] core::Result<BuildSummary> build(store::Store& store, const BuildOptions& options,
                                               BuildObserver& observer);

}  // namespace cubinary::builder
