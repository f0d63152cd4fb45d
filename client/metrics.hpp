// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <chrono>
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

/// Where time goes; work that runs side by side is summed.
enum class Phase : std::uint8_t { index, signature, catalogue, receive, unpack, verify, read };
inline constexpr std::size_t k_phases = 7;

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
  std::array<double, k_phases> milliseconds = {};  ///< by Phase
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
  void spent(Phase phase, double milliseconds);
  [[nodiscard]] Stats stats() const;

 private:
  const Listener m_listener;
  mutable std::mutex m_mutex;
  Stats m_stats;
};

/// Tells how long it lived.
class Spent {
 public:
  Spent(Metrics& metrics, Phase phase) : m_metrics(metrics), m_phase(phase) {}
  ~Spent() { m_metrics.spent(m_phase, milliseconds()); }
  Spent(const Spent&) = delete;
  Spent& operator=(const Spent&) = delete;
  [[nodiscard]] double milliseconds() const {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - m_begin)
        .count();
  }

 private:
  Metrics& m_metrics;
  const Phase m_phase;
  const std::chrono::steady_clock::time_point m_begin = std::chrono::steady_clock::now();
};

}  // namespace cubinary::client
