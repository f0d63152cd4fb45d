// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "builder/tune/compile_ahead.hpp"
#include "builder/tune/gpu_worker.hpp"
#include "builder/tune/ledger.hpp"
#include "builder/tune/search/search.hpp"
#include "core/base/result.hpp"
#include "core/model/device_class.hpp"
#include "core/model/values.hpp"

namespace cubinary::builder {

/// A line of a workload: what to tune a kernel for. What it leaves open is as the manifest says.
struct TuneWish {
  std::string kernel;
  std::string target;  ///< empty: all that run on the device
  core::Types types;
  core::Shape shape;
};

struct TuneOptions {
  std::string kernels;  ///< glob over kernel names; empty: all
  std::string target;   ///< empty: every target that runs on the device
  core::Types types;    ///< only jobs with these dtypes; empty: all
  core::Shape shape;    ///< only jobs with these values; an axis the manifest does not tune at
                        ///< this value makes a new shape
  std::vector<TuneWish> workload;              ///< only these jobs, in this order; empty: all
  std::chrono::milliseconds budget{600'000};   ///< of measuring, for all jobs together
  std::optional<core::DeviceClass> seed_from;  ///< begin with this class's measurements; none: the
                                               ///< nearest class that has any
  std::optional<SearchStrategy> strategy;      ///< none: exhaustive when small, else the default
  std::uint64_t seed = 0;
  bool again = false;                            ///< also jobs that have a current winner
  std::chrono::milliseconds time_limit{10'000};  ///< a candidate's check may take
  /// Spaces of up to so many configs are measured whole, as far as the time lasts: what one config
  /// has that its neighbours have not, no model sees, and it is often more than what makes two
  /// tunes agree.
  std::size_t whole = 512;
  GpuWorkerOptions worker;
  /// Compiles what the search asks for; then only its kernels are tuned. Null: what the ledger has
  /// is all there is. What it compiles must get to the ledger: its store or its server is the same.
  CompileAhead* compile = nullptr;
};

/// What a tune tells while it runs. All calls come from the thread that called tune.
class TuneObserver {
 public:
  TuneObserver() = default;
  TuneObserver(const TuneObserver&) = delete;
  TuneObserver& operator=(const TuneObserver&) = delete;
  virtual ~TuneObserver() = default;

  struct Progress {
    std::size_t job = 0;  ///< from 0
    std::size_t jobs = 0;
    std::uint64_t measured = 0;  ///< configs of this job
    std::uint64_t configs = 0;
    std::optional<double> best_us;
    std::optional<core::Config> best;
    std::array<std::uint64_t, 6> statuses{};  ///< of this job, by MeasurementStatus
    double seconds_left = 0;                  ///< of the budget
    bool run_off = false;
  };

  /// Another process measures on the GPU. Told once a holder.
  virtual void waiting(const std::string& holder) = 0;
  /// The device is ours and its peaks are measured.
  virtual void session(const DeviceSpec& device, const std::map<std::string, double>& peaks) = 0;
  virtual void job_started(const store::TuningJob& job, std::uint64_t configs,
                           std::uint64_t known) = 0;
  /// A candidate's result is safe, or will be before the next one starts.
  virtual void measured(const store::Measurement& measurement) = 0;
  /// Several times a second.
  virtual void progress(const Progress& progress) = 0;
  struct JobResult {
    const store::Tuning& tuning;
    std::vector<store::Measurement> finalists;  ///< as in the tuning
    std::optional<store::Measurement> baseline;
  };
  virtual void job_finished(const JobResult& result) = 0;
  /// Something worth a line that is no result.
  virtual void note(const std::string& text) = 0;
};

struct TuneSummary {
  std::uint64_t jobs = 0;       ///< that were asked for
  std::uint64_t tuned = 0;      ///< now
  std::uint64_t complete = 0;   ///< of those, whose search ended by itself
  std::uint64_t known = 0;      ///< had a current winner
  std::uint64_t elsewhere = 0;  ///< another tuner has them
  std::uint64_t failed = 0;     ///< no config was right, or the job could not be tuned at all
  std::uint64_t left = 0;       ///< not begun when the budget was used up
  std::uint64_t measured = 0;
  std::array<std::uint64_t, 6> statuses{};  ///< of all measurements
  std::uint64_t worker_starts = 0;
  CompileAhead::Counts compiled;
  double seconds = 0;
  bool stopped = false;
};

/// Tunes every job the options ask for, one after another, on one device.
///
/// The GPU is locked for this process (GpuLock) before it is touched, then each job's lease is
/// taken, then candidates are journalled, checked, measured and recorded one by one. A candidate
/// that faults, hangs or breaks its worker is a result. Whatever was measured is in the ledger when
/// this returns, also after a stop. With `compile`, candidates are compiled while others are
/// measured, as many ahead as keep the device busy; one that does not compile counts as a config
/// that fails. Errors: `environment` without a usable device, `not_found` when nothing matches,
/// `usage` for names that do not exist, those of the ledger and of `compile`.
[[nodiscard]] core::Result<TuneSummary> tune(Ledger& ledger, const TuneOptions& options,
                                             TuneObserver& observer);

}  // namespace cubinary::builder
