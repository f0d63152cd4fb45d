// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "client/cache.hpp"
#include "client/release.hpp"
#include "core/base/digest.hpp"
#include "core/model/target.hpp"

namespace cubinary::client {

/// What a program will ask for, brought and checked on threads of its own while the program is busy
/// elsewhere. At first a guess, mostly while cuInit takes its time: the release's tables, and the
/// code that the last program loaded from this release, as far as the cache holds it; this fetches
/// no code and asks no driver. Later what is expected of it: code of kernels that were resolved. It
/// has no errors, and what it brings is bounded as all code kept in memory is. The destructor lets
/// the pieces at hand end. `loaded` and `expect` may be called from any thread.
class LookAhead {
 public:
  /// `release` outlives it. Begins nothing yet.
  LookAhead(Release& release, std::shared_ptr<Cache> cache);
  ~LookAhead();
  LookAhead(const LookAhead&) = delete;
  LookAhead& operator=(const LookAhead&) = delete;

  /// `capability`: code for it is wanted; none: that of the last program, or the only target's.
  void begin(std::optional<core::Capability> capability, Deadline deadline);
  /// Begins to bring an artifact, fetching its pack where the cache lacks it. `table` as
  /// Release::artifact has it.
  void expect(const core::KernelTable& table, const core::Digest& artifact, Deadline deadline);
  /// Until all that was begun is over; nothing may be begun meanwhile.
  void wait();
  /// Remembers for the next program that this one loaded it.
  void loaded(const core::Digest& artifact);

 private:
  struct Expected {
    const core::KernelTable* table = nullptr;
    core::Digest artifact;
    Deadline deadline;
  };
  /// A thread that brings what is expected, and ends when that is all.
  struct Worker {
    std::thread thread;
    bool busy = false;
  };
  void bring(std::size_t worker);
  void read_record();
  void write_record();
  [[nodiscard]] std::vector<core::Target> targets_for(
      const std::optional<core::Capability>& capability) const;

  Release& m_release;
  const std::shared_ptr<Cache> m_cache;
  std::atomic<bool> m_stop{false};
  std::vector<core::Target> m_last_targets;  ///< of the record
  std::vector<core::Digest> m_last;          ///< of the record, in the order they were loaded
  std::mutex m_mutex;
  std::vector<core::Digest> m_loaded;
  std::size_t m_write_at = 1;  ///< loads after which the record is written next
  std::vector<std::thread> m_threads;
  std::set<core::Digest> m_known;  ///< all that was ever expected
  std::deque<Expected> m_expected;
  std::array<Worker, 4> m_workers;
};

}  // namespace cubinary::client
