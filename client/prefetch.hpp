// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "client/release.hpp"
#include "core/model/target.hpp"

namespace cubinary::client {

/// Brings code into memory and cache before it is asked for, on threads of its own. The destructor
/// lets what is on its way arrive and begins nothing more. Thread-safe.
class Prefetch {
 public:
  /// `release` outlives it.
  explicit Prefetch(Release& release) : m_release(release) {}
  ~Prefetch();
  Prefetch(const Prefetch&) = delete;
  Prefetch& operator=(const Prefetch&) = delete;

  struct Request {
    std::vector<std::string> kernel_globs;  ///< empty: all
    /// Code for it; none: for every GPU the driver shows, which is then asked.
    std::optional<core::Capability> capability;
    Deadline deadline;
  };
  void begin(Request request);
  /// Until all that was begun is over; the first error since the last call.
  [[nodiscard]] core::Result<void> wait();

 private:
  core::Result<void> run(const Request& request);
  core::Result<std::vector<core::Target>> targets_for(const Request& request) const;

  Release& m_release;
  std::atomic<bool> m_stop{false};
  std::mutex m_mutex;
  std::vector<std::thread> m_threads;
  std::optional<core::Error> m_error;
};

}  // namespace cubinary::client
