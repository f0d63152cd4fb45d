// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "core/base/digest.hpp"

namespace cubinary::server {

/// A blob held in memory; shared by the cache and the answers being sent.
struct CachedBlob {
  std::string media_type;
  std::string bytes;
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
  void insert(const core::Digest& digest, std::shared_ptr<const CachedBlob> blob);
  [[nodiscard]] bool admits(std::uint64_t size) const {
    return size <= m_max_blob && size <= m_max_bytes;
  }

  [[nodiscard]] std::uint64_t bytes() const { return m_bytes; }
  [[nodiscard]] std::uint64_t hits() const { return m_hits; }
  [[nodiscard]] std::uint64_t misses() const { return m_misses; }

 private:
  struct Slot {
    core::Digest digest;
    std::shared_ptr<const CachedBlob> blob;
  };

  const std::uint64_t m_max_bytes;
  const std::uint64_t m_max_blob;
  std::mutex m_mutex;
  std::list<Slot> m_order;  ///< most recently used first
  std::unordered_map<core::Digest, std::list<Slot>::iterator> m_index;
  std::atomic<std::uint64_t> m_bytes{0};
  std::atomic<std::uint64_t> m_hits{0};
  std::atomic<std::uint64_t> m_misses{0};
};

}  // namespace cubinary::server
