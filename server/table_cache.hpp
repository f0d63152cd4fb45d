// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "core/base/result.hpp"
#include "store/releases.hpp"

namespace cubinary::server {

/// Released kernel tables without their entries, parsed once: what is behind an id never changes.
/// The most recently used `max_tables` are kept. Thread-safe.
class TableCache {
 public:
  using Table = std::shared_ptr<const core::KernelTable>;

  explicit TableCache(std::size_t max_tables) : m_max_tables(max_tables) {}

  /// From memory, or read and kept. Two threads may parse one table at once; either's is kept.
  [[nodiscard]] core::Result<Table> get(const store::Reader& reader, store::ReleasedKernelId id) {
    {
      const std::scoped_lock lock(m_mutex);
      if (const auto found = m_index.find(id); found != m_index.end()) {
        m_order.splice(m_order.begin(), m_order, found->second);
        return found->second->second;
      }
    }
    TRY_ASSIGN(core::KernelTable parsed, store::read_released_table(reader, id));
    auto table = std::make_shared<const core::KernelTable>(std::move(parsed));
    const std::scoped_lock lock(m_mutex);
    if (const auto found = m_index.find(id); found != m_index.end()) {
      return found->second->second;
    }
    m_order.emplace_front(id, table);
    m_index.emplace(id, m_order.begin());
    if (m_order.size() > m_max_tables) {
      m_index.erase(m_order.back().first);
      m_order.pop_back();
    }
    return table;
  }

 private:
  using Slot = std::pair<store::ReleasedKernelId, Table>;

  const std::size_t m_max_tables;
  std::mutex m_mutex;
  std::list<Slot> m_order;  ///< most recently used first
  std::unordered_map<store::ReleasedKernelId, std::list<Slot>::iterator> m_index;
};

}  // namespace cubinary::server
