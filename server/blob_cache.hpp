// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "core/base/bytes.hpp"
#include "core/base/digest.hpp"
#include "core/base/file.hpp"

namespace cubinary::server {

/// A blob held in memory; shared by the cache and the answers being sent. A larger one lies in a
/// sealed file without a name, from which the kernel sends it without a copy. Immutable but for its
/// marks; thread-safe.
class CachedBlob {
 public:
  /// `in_file` asks for a file; where none can be had the bytes are held as they are.
  CachedBlob(std::string media_type, core::ByteView bytes, bool in_file);
  ~CachedBlob();
  CachedBlob(const CachedBlob&) = delete;
  CachedBlob& operator=(const CachedBlob&) = delete;

  [[nodiscard]] const std::string& media_type() const { return m_media_type; }
  [[nodiscard]] std::string_view bytes() const { return m_bytes; }
  /// The file that holds the bytes; -1: there is none.
  [[nodiscard]] int file() const { return m_file.get(); }

  /// Says that the blob was asked for, without taking the cache's lock.
  void mark_used() const {
    if (!m_used.load(std::memory_order_relaxed)) {
      m_used.store(true, std::memory_order_relaxed);
    }
  }
  /// Whether the cache has let go of it: who keeps it as a short cut should too.
  [[nodiscard]] bool forgotten() const { return m_forgotten.load(std::memory_order_relaxed); }

 private:
  friend class BlobCache;
  [[nodiscard]] bool put_into_file(core::ByteView bytes);

  std::string m_media_type;
  std::string m_held;  ///< the bytes, unless a file has them
  core::UniqueFd m_file;
  std::string_view m_bytes;  ///< of m_held, or the mapped file
  mutable std::atomic<bool> m_used{false};
  mutable std::atomic<bool> m_forgotten{false};
  std::shared_ptr<std::atomic<std::uint64_t>> m_alive;  ///< the cache's count; null: not counted
};

/// The most recently used small blobs, at most `max_bytes` in all. Blobs never change, so nothing
/// in here is ever stale. Thread-safe.
class BlobCache {
 public:
  /// Blobs larger than `max_blob` are not kept.
  BlobCache(std::uint64_t max_bytes, std::uint64_t max_blob)
      : m_max_bytes(max_bytes), m_max_blob(max_blob) {}

  /// Null when not held.
  [[nodiscard]] std::shared_ptr<const CachedBlob> find(const core::Digest& digest);
  /// Whether it is held, without counting as a look for it.
  [[nodiscard]] bool holds(const core::Digest& digest) {
    const std::scoped_lock lock(m_mutex);
    return m_index.contains(digest);
  }
  /// Whether a blob of this size may come in. Slow clients keep blobs alive that the cache has
  /// forgotten: as much again as the cache may hold, and nothing more comes in.
  [[nodiscard]] bool admits(std::uint64_t size) const {
    return size <= m_max_blob && size <= m_max_bytes && *m_alive + size <= 2 * m_max_bytes;
  }
  /// Takes a blob in, if it is admitted, and gives it; the one that is there when another thread
  /// was first.
  [[nodiscard]] std::shared_ptr<const CachedBlob> keep(const core::Digest& digest,
                                                       std::string_view media_type,
                                                       core::ByteView bytes);

  [[nodiscard]] std::uint64_t bytes() const { return m_bytes; }
  [[nodiscard]] std::uint64_t hits() const { return m_hits; }
  [[nodiscard]] std::uint64_t misses() const { return m_misses; }

  /// Files that hold blobs, at most: each is a descriptor.
  static constexpr std::size_t k_max_files = 256;

 private:
  struct Slot {
    core::Digest digest;
    std::shared_ptr<const CachedBlob> blob;
  };
  void forget_last();

  const std::uint64_t m_max_bytes;
  const std::uint64_t m_max_blob;
  std::shared_ptr<std::atomic<std::uint64_t>> m_alive =
      std::make_shared<std::atomic<std::uint64_t>>(0);
  std::mutex m_mutex;
  std::list<Slot> m_order;  ///< most recently used first
  std::unordered_map<core::Digest, std::list<Slot>::iterator> m_index;
  std::atomic<std::size_t> m_files{0};
  std::atomic<std::uint64_t> m_bytes{0};
  std::atomic<std::uint64_t> m_hits{0};
  std::atomic<std::uint64_t> m_misses{0};
};

}  // namespace cubinary::server
