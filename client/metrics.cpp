// SPDX-License-Identifier: Apache-2.0
#include "client/metrics.hpp"

namespace cubinary::client {

void Metrics::record(const Event& event) {
  {
    const std::lock_guard lock(m_mutex);
    switch (event.kind) {
      case EventKind::hit:
        ++m_stats.cache_hits;
        m_stats.cache_bytes += event.bytes;
        break;
      case EventKind::fetch:
        ++m_stats.packs_fetched;
        m_stats.fetched_bytes += event.bytes;
        m_stats.fetch_milliseconds += event.milliseconds;
        break;
      case EventKind::load:
        ++m_stats.loads;
        m_stats.loaded_bytes += event.bytes;
        m_stats.load_milliseconds += event.milliseconds;
        m_stats.compile_seconds_avoided += event.compile_seconds;
        break;
      case EventKind::damaged:
        ++m_stats.damaged;
        break;
    }
  }
  if (m_listener) {
    m_listener(event);
  }
}

void Metrics::missed() {
  const std::lock_guard lock(m_mutex);
  ++m_stats.cache_misses;
}

void Metrics::spent(Phase phase, double milliseconds) {
  const std::lock_guard lock(m_mutex);
  m_stats.milliseconds.at(static_cast<std::size_t>(phase)) += milliseconds;
}

Stats Metrics::stats() const {
  const std::lock_guard lock(m_mutex);
  return m_stats;
}

}  // namespace cubinary::client
