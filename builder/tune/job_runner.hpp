// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "builder/tune/gpu_worker.hpp"
#include "builder/tune/job_plan.hpp"
#include "builder/tune/ledger.hpp"
#include "builder/tune/search/search.hpp"
#include "builder/tune/tune.hpp"
#include "core/base/result.hpp"

namespace cubinary::builder {

using Clock = std::chrono::steady_clock;

/// What is true of the device in this session.
struct SessionFacts {
  store::SessionId id = 0;
  DeviceSpec device;
  std::map<std::string, double> peaks;
  [[nodiscard]] double tick_us() const;
  [[nodiscard]] double clock_mhz() const;
};

/// What tuning one job came to.
struct JobOutcome {
  bool stopped = false;  ///< by the user; everything measured is recorded
  bool begun = false;    ///< at least one config was measured, now or before
  bool has_winner = false;
  bool complete = false;
  std::string why;  ///< without a winner: what to suspect
  std::uint64_t measured = 0;
  std::array<std::uint64_t, 6> statuses{};
};

/// Tunes one job: search, run-off, verdict. The plan learns what was compiled meanwhile.
class JobRunner {
 public:
  JobRunner(Ledger& ledger, GpuWorker& worker, JobPlan& plan, const SessionFacts& session,
            const TuneOptions& options, TuneObserver& observer);

  /// `deadline` ends the search; `progress` is filled in and told to the observer. Errors:
  /// `environment` when the problem cannot be set up on this device, those of the ledger.
  [[nodiscard]] core::Result<JobOutcome> run(Clock::time_point deadline,
                                             TuneObserver::Progress progress);

 private:
  using Status = store::MeasurementStatus;

  // Setting up.
  [[nodiscard]] core::Result<void> ensure_problem();
  [[nodiscard]] core::Result<void> resume(Search& search);
  [[nodiscard]] core::Result<std::vector<SearchPrior>> priors() const;
  [[nodiscard]] SearchStrategy strategy() const;
  [[nodiscard]] core::Result<std::unique_ptr<Search>> make_search() const;

  // The search.
  [[nodiscard]] core::Result<bool> explore(Search& search, Clock::time_point end);
  [[nodiscard]] core::Result<bool> explore_until(Search& search, Clock::time_point end);
  void place(Search& search, ConfigIndex config);
  [[nodiscard]] core::Result<void> collect(Search& search, std::chrono::milliseconds patience);
  [[nodiscard]] std::size_t compilations_ahead() const;
  [[nodiscard]] bool is_measured_whole(Clock::time_point end) const;
  [[nodiscard]] bool is_stopped();

  // One candidate.
  [[nodiscard]] core::Result<void> evaluate(Search& search, ConfigIndex config);
  [[nodiscard]] core::Result<store::Measurement> measure(const Search& search,
                                                         const core::Config& config);
  void take_samples(const Search* search, store::Measurement& measurement);
  [[nodiscard]] bool load(std::uint32_t slot, store::Measurement& measurement);
  [[nodiscard]] bool sample(const std::vector<std::uint32_t>& order, TuneReply& reply,
                            store::Measurement& blamed);
  void finish_statistics(store::Measurement& measurement) const;
  [[nodiscard]] bool below_floor(const store::Measurement& measurement) const;
  [[nodiscard]] store::Measurement blank(const core::Config& config) const;
  [[nodiscard]] store::JournalEntry entry(const store::Measurement& measurement) const;
  [[nodiscard]] core::Result<void> commit(const std::vector<store::JournalEntry>& next);
  [[nodiscard]] core::Result<void> renew_lease();
  void tell(const store::Measurement& measurement, TuneObserver::Progress& progress);

  // The run-off.
  [[nodiscard]] core::Result<void> run_off(Clock::time_point deadline);
  [[nodiscard]] std::vector<store::Measurement> finalists() const;
  [[nodiscard]] std::string what_to_suspect() const;

  Ledger& m_ledger;
  GpuWorker& m_worker;
  JobPlan& m_plan;
  const SessionFacts& m_session;
  const TuneOptions& m_options;
  TuneObserver& m_observer;
  core::Bytes m_reference;
  core::Bytes m_prepare;
  std::map<core::Digest, core::Bytes> m_cubins;
  bool m_problem_set = false;
  std::uint64_t m_worker_start = 0;
  bool m_stopped = false;
  TuneObserver::Progress m_progress;
  std::vector<store::Measurement> m_pending;  ///< results not yet in the ledger
  std::map<ConfigIndex, store::Measurement> m_results;
  std::deque<ConfigIndex> m_ready;       ///< asked for and compiled, to be measured
  std::vector<ConfigIndex> m_compiling;  ///< asked for, and not compiled yet
  double m_measuring_ms = 0;             ///< a config, lately; 0: none was measured yet
  double m_compiling_ms = 0;             ///< a candidate, lately
  Clock::time_point m_deadline;
  Clock::time_point m_lease_renewed;
  Clock::time_point m_begin;
  JobOutcome m_outcome;
};

}  // namespace cubinary::builder
