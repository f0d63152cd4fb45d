// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <string_view>
#include <utility>

namespace cubinary::client {

/// The numbers are those of cubinary_event_kind.
enum class EventKind : std::uint8_t { hit = 1, fetch = 2, load = 3, damaged = 4 };

struct Event {
  EventKind kind = EventKind::hit;
  std::string_view name;  ///< kernel, or digest of a damaged entry
  std::uint64_t bytes = 0;
  double milliseconds = 0;
  double compile_seconds = 0;  ///< of loaded code, where it was built; 0: unknown
};

/// What happened since a session was opened.
struct Stats {
  std::uint64_t cache_hits = 0;
  std::uint64_t cache_misses = 0;
  std::uint64_t cache_bytes = 0;
  std::uint64_t packs_fetched = 0;
  std::uint64_t fetched_bytes = 0;
  std::uint64_t loads = 0;
  std::uint64_t loaded_bytes = 0;
  std::uint64_t damaged = 0;
  double fetch_milliseconds = 0;
  double load_milliseconds = 0;
  double compile_seconds_avoided = 0;
};

/// Counts events and tells them to whoever listens. Thread-safe; the listener is called without a
/// lock, possibly by several threads at once.
class Metrics {
 public:
  using Listener = std::function<void(const Event&)>;
  explicit Metrics(Listener listener = {}) : m_listener(std::move(listener)) {}

  void record(const Event& event);
  /// Code was asked for that neither memory nor the cache had.
  void missed();
  [[nodiscard]] Stats stats() const;

 private:
  const Listener m_listener;
  mutable std::mutex m_mutex;
  Stats m_stats;
};

}  // namespace cubinary::client
