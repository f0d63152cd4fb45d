// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "client/cache.hpp"
#include "client/release.hpp"
#include "core/base/digest.hpp"
#include "core/model/target.hpp"

namespace cubinary::client {

/// What a program will ask for first, read and checked on threads of its own while the program is
/// busy elsewhere, mostly in cuInit: the release's catalogue, and the code that the last program
/// loaded from this release, as far as the cache holds it. A guess: it fetches no code, asks no
/// driver, has no errors, and what it brings is bounded as all code kept in memory is. The
/// destructor lets the piece at hand end. `loaded` may be called from any thread.
class LookAhead {
 public:
  /// `release` outlives it. Begins nothing yet.
  LookAhead(Release& release, std::shared_ptr<Cache> cache);
  ~LookAhead();
  LookAhead(const LookAhead&) = delete;
  LookAhead& operator=(const LookAhead&) = delete;

  /// `capability`: code for it is wanted; none: that of the last program, or the only target's.
  void begin(std::optional<core::Capability> capability, Deadline deadline);
  /// Until all that was begun is over.
  void wait();
  /// Remembers for the next program that this one loaded it.
  void loaded(const core::Digest& artifact);

 private:
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
};

}  // namespace cubinary::client
