// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <thread>

#include "client/shared_bytes.hpp"
#include "core/base/result.hpp"

namespace cubinary::client {

/// Writes files in the order they are given, behind the caller's back, so that nobody who wants to
/// launch waits for a disk. The destructor writes what is left. Thread-safe.
class CacheWriter {
 public:
  /// `durable`: each file is on the disk, not just on its way, before it gets its name. Without it
  /// a loss of power may leave a file torn, which its digest then tells.
  CacheWriter(bool durable, std::uint64_t queue_limit)
      : m_durable(durable), m_queue_limit(queue_limit) {}
  ~CacheWriter();
  CacheWriter(const CacheWriter&) = delete;
  CacheWriter& operator=(const CacheWriter&) = delete;

  struct Job {
    std::filesystem::path path;  ///< empty: nothing to write, only `done` to call
    SharedBytes bytes;
    bool durable = false;  ///< whatever the writer's own setting
    /// Called on the writer's thread.
    std::function<void(const core::Result<void>&)> done;
  };
  /// Returns at once, unless more than the limit is waiting to be written.
  void add(Job job);
  /// Waits until everything added so far is written; the first error since the last flush.
  [[nodiscard]] core::Result<void> flush();
  /// The same, no longer than that, and nothing is reported.
  void drain(std::chrono::seconds patience);

 private:
  void run();
  void run_queued();
  core::Result<void> write(const Job& job);
  core::Result<void> sync_folders();

  const bool m_durable;
  const std::uint64_t m_queue_limit;
  std::mutex m_mutex;
  std::condition_variable m_changed;
  std::deque<Job> m_jobs;
  std::uint64_t m_queued_bytes = 0;
  bool m_busy = false;
  bool m_stop = false;
  std::optional<core::Error> m_error;
  std::mutex m_writing;                       ///< one thread writes at a time
  std::set<std::filesystem::path> m_folders;  ///< written to, not synced yet
  std::thread m_thread;                       ///< begun with the first job
};

/// Replaces `path` or leaves it as it was: a temporary beside it, then a rename. A name that
/// another process took first is a success. Missing folders are made.
[[nodiscard]] core::Result<void> write_cache_file(const std::filesystem::path& path,
                                                  core::ByteView bytes, bool durable);
/// Whether `name` is that of a temporary which write_cache_file makes.
[[nodiscard]] bool is_temporary_name(std::string_view name);

}  // namespace cubinary::client
