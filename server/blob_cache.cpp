// SPDX-License-Identifier: Apache-2.0
#include "server/blob_cache.hpp"

#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace cubinary::server {
namespace {

/// From here on a copy costs more than the second call that sending from a file takes.
constexpr std::uint64_t k_file_bytes = 32U << 10U;

}  // namespace

CachedBlob::CachedBlob(std::string media_type, core::ByteView bytes, bool in_file)
    : m_media_type(std::move(media_type)) {
  if (!in_file || bytes.empty() || !put_into_file(bytes)) {
    m_file.reset();
    m_held = core::as_text(bytes);
    m_bytes = m_held;
  }
}

CachedBlob::~CachedBlob() {
  if (m_file) {
    ::munmap(const_cast<char*>(m_bytes.data()), m_bytes.size());
  }
  if (m_alive) {
    m_alive->fetch_sub(m_bytes.size());
  }
}

bool CachedBlob::put_into_file(core::ByteView bytes) {
  m_file = core::UniqueFd(::memfd_create("cubinary-blob", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!m_file) {
    return false;
  }
  for (core::ByteView rest = bytes; !rest.empty();) {
    const ssize_t written = ::write(m_file.get(), rest.data(), rest.size());
    if (written <= 0) {
      return false;
    }
    rest = rest.subspan(static_cast<std::size_t>(written));
  }
  ::fcntl(m_file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL);
  void* const mapped = ::mmap(nullptr, bytes.size(), PROT_READ, MAP_SHARED, m_file.get(), 0);
  if (mapped == MAP_FAILED) {
    return false;
  }
  m_bytes = {static_cast<const char*>(mapped), bytes.size()};
  return true;
}

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

std::shared_ptr<const CachedBlob> BlobCache::keep(const core::Digest& digest,
                                                  std::string_view media_type,
                                                  core::ByteView bytes) {
  const std::uint64_t size = bytes.size();
  const bool admitted = admits(size);
  const bool in_file = admitted && size >= k_file_bytes && m_files < k_max_files;
  auto blob = std::make_shared<CachedBlob>(std::string(media_type), bytes, in_file);
  if (!admitted) {
    return blob;
  }
  const std::scoped_lock lock(m_mutex);
  if (const auto found = m_index.find(digest); found != m_index.end()) {
    return found->second->blob;
  }
  m_alive->fetch_add(size);
  blob->m_alive = m_alive;
  while (m_bytes + size > m_max_bytes) {
    forget_last();
  }
  m_files += blob->file() >= 0 ? 1 : 0;
  m_order.push_front({digest, blob});
  m_index.emplace(digest, m_order.begin());
  m_bytes += size;
  return blob;
}

void BlobCache::forget_last() {
  // One that was used without telling the list gets a second chance; its mark is gone then.
  if (m_order.back().blob->m_used.exchange(false)) {
    m_order.splice(m_order.begin(), m_order, std::prev(m_order.end()));
    return;
  }
  const Slot& last = m_order.back();
  m_bytes -= last.blob->bytes().size();
  m_files -= last.blob->file() >= 0 ? 1 : 0;
  last.blob->m_forgotten = true;
  m_index.erase(last.digest);
  m_order.pop_back();
}

}  // namespace cubinary::server
