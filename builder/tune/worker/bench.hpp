// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "builder/tune/message.hpp"
#include "builder/tune/worker/gpu.hpp"
#include "builder/tune/worker/problem.hpp"
#include "builder/tune/worker/program.hpp"
#include "core/base/result.hpp"

namespace cubinary::builder {

/// Checks and times candidates on one problem.
///
/// A sample is one launch of all steps between two events. Cold samples run after a read of at
/// least twice the L2 cache. Samples are queued behind a kernel that holds the stream back until
/// all are, so that the host's pace is not measured; it gives up by itself, and then the answer
/// says so.
class Bench {
 public:
  [[nodiscard]] static core::Result<std::unique_ptr<Bench>> make(const Gpu& gpu);

  [[nodiscard]] core::Result<void> set_problem(const ProblemSpec& spec);
  /// Loads a candidate and checks it on every instance, twice. Fills state, message, max_error and
  /// worn of `reply`; a candidate that is not ok is not kept.
  void load(std::uint32_t slot, const CandidateSpec& spec, TuneReply& reply);
  /// Samples the slots in order; afterwards checks that the memory around is as it was.
  void sample(const std::vector<std::uint32_t>& order, TuneReply& reply);
  void drop(std::uint32_t slot) { m_candidates.erase(slot); }

  /// Peaks of the device by name, see DeviceSession::facts. Takes a fraction of a second.
  [[nodiscard]] core::Result<std::vector<std::pair<std::string, double>>> measure_peaks();

 private:
  struct Candidate {
    Module module;
    std::vector<Program> programs;  ///< one an instance
    bool checked_after = false;     ///< its outputs were compared after timing, too
  };
  explicit Bench(const Gpu& gpu) : m_gpu(gpu) {}
  [[nodiscard]] core::Result<void> check(const Candidate& candidate, TuneReply& reply);
  /// One launch on an instance whose outputs were poisoned; `all`: also what lies around them.
  [[nodiscard]] core::Result<void> run_and_judge(const Candidate& candidate, std::size_t which,
                                                 unsigned char pattern, bool all, TuneReply& reply);
  [[nodiscard]] core::Result<void> sample_batch(const std::uint32_t* begin, std::size_t count,
                                                TuneReply& reply);
  [[nodiscard]] core::Result<void> check_after(const std::vector<std::uint32_t>& order,
                                               TuneReply& reply);
  [[nodiscard]] core::Result<void> flush();
  [[nodiscard]] core::Result<void> read_clock(std::size_t place);
  /// The best of some runs of `queue` between events, in microseconds.
  template <typename Queue>
  [[nodiscard]] core::Result<double> best_time(int runs, const Queue& queue);
  [[nodiscard]] core::Result<double> elapsed_us(std::size_t pair) const;

  const Gpu& m_gpu;
  SharedMemory m_flags;  ///< release, gave_up
  GuardedBuffer m_clocks;
  GuardedBuffer m_flush;  ///< at least twice the L2 cache
  GuardedBuffer m_sink;
  std::vector<cuda::Event> m_events;
  std::optional<ProblemSpec> m_problem;
  std::vector<Instance> m_instances;
  std::optional<Module> m_reference;
  std::optional<Module> m_prepare;
  std::map<std::uint32_t, Candidate> m_candidates;
  std::size_t m_set = 0;               ///< of buffers, for the round
  std::vector<std::uint32_t> m_round;  ///< slots that ran in it
};

}  // namespace cubinary::builder
