// SPDX-License-Identifier: Apache-2.0
#include "server/blob_cache.hpp"

#include <utility>

namespace cubinary::server {

std::shared_ptr<const CachedBlob> BlobCache::find(const core::Digest& digest) {
  const std::scoped_lock lock(m_mutex);
  const auto found = m_index.find(digest);
  if (found == m_index.end()) {
    ++m_misses;
    return nullptr;
  }
  ++m_hits;
  m_order.splice(m_order.begin(), m_order, found->second);
  return found->second->blob;
}

void BlobCache::insert(const core::Digest& digest, std::shared_ptr<const CachedBlob> blob) {
  const std::uint64_t size = blob->bytes.size();
  if (!admits(size)) {
    return;
  }
  const std::scoped_lock lock(m_mutex);
  if (m_index.contains(digest)) {
    return;
  }
  while (m_bytes + size > m_max_bytes) {
    m_bytes -= m_order.back().blob->bytes.size();
    m_index.erase(m_order.back().digest);
    m_order.pop_back();
  }
  m_order.push_front({digest, std::move(blob)});
  m_index.emplace(digest, m_order.begin());
  m_bytes += size;
}

}  // namespace cubinary::server
