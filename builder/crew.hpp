// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "builder/build.hpp"
#include "builder/compile/compile_task.hpp"
#include "builder/plan.hpp"
#include "builder/schedule.hpp"
#include "core/base/file.hpp"
#include "core/base/result.hpp"
#include "store/artifacts.hpp"
#include "store/store.hpp"

namespace cubinary::builder {

using Place = std::pair<std::string, std::string>;  ///< kernel and target

/// The threads of a build, one a worker process. They compile, and repack kernels that are complete
/// while others still compile, so that no core waits for either. The queue of results is bounded:
/// memory does not grow when the store is slower than the compilers.
///
/// One thread owns it, takes the results and says what may be repacked. The Setup's references must
/// outlive it.
class Crew {
 public:
  struct Setup {
    store::Store& store;
    const Plan& plan;
    const std::vector<CompileTask>& tasks;
    const std::map<Place, store::Dictionary>& dictionaries;
    unsigned jobs;
    const BuildOptions& options;
  };

  explicit Crew(const Setup& setup);
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;
  /// Halts, and waits for the threads.
  ~Crew();

  struct Batch {
    std::vector<TaskResult> results;
    bool compiled = false;  ///< nothing is compiled any more, and all results are handed out
    bool ended = false;     ///< no thread runs any more
  };
  /// Waits at most `patience` and takes what has gathered.
  [[nodiscard]] Batch take(std::chrono::milliseconds patience, std::size_t enough);
  /// All candidates of the place are in the store: its artifacts are packed as one.
  void repack(Place place);
  /// No more will be asked for: the threads end with what they have.
  void close();
  /// Kills what is being compiled and starts nothing more.
  void halt();

  /// What ended the work early.
  [[nodiscard]] std::optional<core::Error> error();
  /// Seconds that all threads together compiled or repacked.
  [[nodiscard]] double busy_seconds();

 private:
  void work(unsigned worker);
  void compile(TaskRunner& runner, const Schedule::Choice& choice,
               std::unique_lock<std::mutex>& lock);
  void repack_one(std::unique_lock<std::mutex>& lock);
  [[nodiscard]] bool is_over() const { return m_halted || m_error.has_value(); }
  [[nodiscard]] bool is_compiled() const {
    return m_compiling == 0 && (m_schedule.empty() || is_over());
  }

  static constexpr std::size_t k_most_waiting = 256;
  Setup m_setup;
  core::UniqueFd m_halt;
  std::mutex m_mutex;  ///< for everything below
  std::condition_variable m_changed;
  Schedule m_schedule;
  std::deque<Place> m_repacks;
  std::vector<TaskResult> m_results;
  std::optional<core::Error> m_error;
  double m_busy_seconds = 0;
  unsigned m_compiling = 0;
  unsigned m_repacking = 0;
  unsigned m_running = 0;
  bool m_closed = false;
  bool m_halted = false;
  std::vector<std::thread> m_threads;
};

}  // namespace cubinary::builder
