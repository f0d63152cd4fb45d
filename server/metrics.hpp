// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "server/router.hpp"

namespace cubinary::server {

/// Counts what the server does. All members may be touched by any thread; what every request
/// touches is counted a thread apart, so that threads share no cache line over it.
class Metrics {
 public:
  Metrics();
  ~Metrics();

  /// One finished request. `bytes` is what was sent, headers included.
  void count_request(Route route, int status, std::uint64_t bytes,
                     std::chrono::nanoseconds duration);
  /// A blob answered past the blob cache's own count.
  void count_hot_hit();

  /// What only a scrape needs to know, measured by the caller.
  struct Scrape {
    std::uint64_t store_bytes = 0;  ///< database and write-ahead log
    std::uint64_t cache_bytes = 0;
    std::uint64_t cache_hits = 0;
    std::uint64_t cache_misses = 0;
    std::int64_t leases = 0;  ///< tuning jobs somebody holds now
  };
  /// The Prometheus text format, version 0.0.4.
  [[nodiscard]] std::string text(const Scrape& scrape) const;

  std::atomic<std::int64_t> in_flight{0};
  std::atomic<std::int64_t> connections{0};
  std::atomic<std::uint64_t> accepted{0};
  std::atomic<std::uint64_t> refused{0};  ///< connections closed at once: over a limit
  std::atomic<std::uint64_t> evicted{0};  ///< idle connections closed to make room
  std::atomic<std::uint64_t> timed_out{0};
  std::atomic<std::uint64_t> bad_heads{0};       ///< requests refused before routing
  std::atomic<std::uint64_t> broken_bodies{0};   ///< answers that did not reach the client whole
  std::atomic<std::uint64_t> received_bytes{0};  ///< request bodies
  std::atomic<std::int64_t> writes{0};  ///< requests that change the store, running or waiting
  std::atomic<std::uint64_t> writes_refused{0};          ///< told to come back later
  std::array<std::atomic<std::uint64_t>, 5> resolved{};  ///< by core::Match; the last: no answer

 private:
  struct PerRoute;
  struct Shard;
  [[nodiscard]] Shard& shard();

  std::unique_ptr<Shard[]> m_shards;
};

}  // namespace cubinary::server
