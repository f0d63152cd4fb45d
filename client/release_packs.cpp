// SPDX-License-Identifier: Apache-2.0
// The part of Release that deals in code: packs, and the artifacts in them.
#include <algorithm>
#include <chrono>
#include <set>
#include <utility>

#include "client/release.hpp"
#include "core/wire/codec.hpp"

namespace cubinary::client {
namespace {

using core::ErrorCode;
using core::fail;
using core::Result;

using Clock = std::chrono::steady_clock;

constexpr std::uint64_t k_recent_limit = 64ULL << 20U;

double milliseconds_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

std::set<core::Digest> artifacts_of(const core::KernelTable& table) {
  std::set<core::Digest> artifacts;
  for (const auto& entry : table.entries) {
    artifacts.insert(entry.artifact);
  }
  return artifacts;
}

}  // namespace

std::optional<SharedBytes> Release::find_recent(const core::KernelTable& table,
                                                const core::Digest& digest) {
  SharedBytes bytes;
  bool hit = false;
  {
    const std::lock_guard lock(m_mutex);
    const auto found = m_recent.find(digest);
    if (found == m_recent.end()) {
      return std::nullopt;
    }
    hit = std::exchange(found->second.ahead, false);
    bytes = found->second.bytes;
  }
  if (hit) {
    m_options.metrics->record({EventKind::hit, table.name, bytes.view().size()});
  }
  return bytes;
}

bool Release::read_ahead(const core::Digest& digest) {
  std::uint64_t room = 0;
  {
    const std::lock_guard lock(m_mutex);
    if (m_recent.contains(digest)) {
      return true;
    }
    room = k_recent_limit - m_recent_bytes;
  }
  const Spent spent(*m_options.metrics, Phase::read);
  auto bytes = m_cache->find_shared(Cache::Kind::artifact, digest, room);
  if (!bytes) {
    return false;
  }
  const std::uint64_t size = bytes->view().size();
  const std::lock_guard lock(m_mutex);
  if (m_recent.try_emplace(digest, Recent{*std::move(bytes), true}).second) {
    m_recent_order.emplace_back(digest, size);
    m_recent_bytes += size;
  }
  return true;
}

void Release::remember(const core::Digest& digest, const SharedBytes& bytes) {
  const std::uint64_t size = bytes.view().size();
  const std::lock_guard lock(m_mutex);
  if (!m_recent.try_emplace(digest, Recent{bytes}).second) {
    return;
  }
  m_recent_order.emplace_back(digest, size);
  m_recent_bytes += size;
  while (m_recent_bytes > k_recent_limit) {
    m_recent_bytes -= m_recent_order.front().second;
    m_recent.erase(m_recent_order.front().first);
    m_recent_order.pop_front();
  }
}

std::optional<SharedBytes> Release::find_artifact(const core::KernelTable& table,
                                                  const core::Digest& digest) {
  if (auto bytes = find_recent(table, digest)) {
    return bytes;
  }
  const Spent spent(*m_options.metrics, Phase::read);
  auto bytes = m_cache->find_shared(Cache::Kind::artifact, digest, table.pack_raw_size);
  if (bytes) {
    m_options.metrics->record(
        {EventKind::hit, table.name, bytes->view().size(), spent.milliseconds()});
  }
  return bytes;
}

std::shared_ptr<std::mutex> Release::gate_of(const core::Digest& digest) {
  const std::lock_guard lock(m_mutex);
  auto& gate = m_gates[digest];
  if (!gate) {
    gate = std::make_shared<std::mutex>();
  }
  return gate;
}

Result<std::map<core::Digest, SharedBytes>> Release::unpack(const core::KernelTable& table,
                                                            Deadline deadline) {
  const std::string where = "release " + name() + ", pack of kernel " + table.name;
  if (!m_source) {
    return fail(ErrorCode::not_found,
                where + ": offline, and the cache " + m_cache->directory().string() +
                    " does not hold its code: fetch it once with the network (cubinary-fetch)");
  }
  const auto begin = Clock::now();
  Metrics& metrics = *m_options.metrics;
  core::Bytes frame;
  {
    const Spent spent(metrics, Phase::receive);
    TRY_ASSIGN(frame, m_source->blob(table.pack, table.pack_size, deadline));
  }
  Result<core::Bytes> unpacked;
  {
    const Spent spent(metrics, Phase::unpack);
    unpacked =
        core::decompress(frame, {.max_bytes = table.pack_raw_size, .dictionary = {}, .prefix = {}});
  }
  if (!unpacked) {
    return fail(unpacked.error().with_context(where));
  }
  if (unpacked->size() != table.pack_raw_size) {
    return fail(ErrorCode::corrupt, where + " unpacks to " + std::to_string(unpacked->size()) +
                                        " bytes, not the " + std::to_string(table.pack_raw_size) +
                                        " of the catalogue");
  }
  const SharedBytes raw(*std::move(unpacked));
  std::map<core::Digest, SharedBytes> artifacts;
  const Spent verifying(metrics, Phase::verify);
  for (const core::TableEntry& entry : table.entries) {
    if (artifacts.contains(entry.artifact)) {
      continue;
    }
    const std::uint64_t size = raw.view().size();
    if (entry.offset > size || entry.size > size - entry.offset) {
      return fail(ErrorCode::corrupt, where + ": an artifact lies outside of it");
    }
    SharedBytes bytes = raw.part(entry.offset, entry.size);
    if (core::sha256(bytes.view()) != entry.artifact) {
      return fail(ErrorCode::corrupt,
                  where + ": artifact " + entry.artifact.text() + " does not have its digest");
    }
    artifacts.emplace(entry.artifact, std::move(bytes));
  }
  for (const auto& [digest, bytes] : artifacts) {
    remember(digest, bytes);  // first: who looks meanwhile need not read it again
    m_cache->put(Cache::Kind::artifact, digest, bytes);
  }
  metrics.record({EventKind::fetch, table.name, table.pack_size, milliseconds_since(begin)});
  return artifacts;
}

Result<SharedBytes> Release::artifact(const core::KernelTable& table, const core::Digest& digest,
                                      Deadline deadline) {
  if (auto bytes = find_artifact(table, digest)) {
    return *std::move(bytes);
  }
  const auto gate = gate_of(table.pack);
  const std::lock_guard inside(*gate);
  if (auto bytes = find_artifact(table, digest)) {
    return *std::move(bytes);
  }
  auto lock = m_cache->lock(table.pack, deadline);
  if (auto bytes = find_artifact(table, digest)) {
    return *std::move(bytes);
  }
  m_options.metrics->missed();
  TRY_ASSIGN(auto artifacts, unpack(table, deadline));
  m_cache->unlock_after_writes(std::move(lock));
  const auto found = artifacts.find(digest);
  if (found == artifacts.end()) {
    return fail(ErrorCode::internal,
                "artifact " + digest.text() + " belongs to no entry of " + table.name);
  }
  return std::move(found->second);
}

Result<void> Release::warm(const core::KernelTable& table, Deadline deadline) {
  for (const core::Digest& digest : artifacts_of(table)) {
    TRY_ASSIGN(const SharedBytes bytes, artifact(table, digest, deadline));
    remember(digest, bytes);
  }
  return {};
}

Result<Release::PackStats> Release::fetch_all(const core::KernelTable& table, Deadline deadline) {
  const std::set<core::Digest> wanted = artifacts_of(table);
  const auto complete = [&] {
    return std::ranges::all_of(wanted, [&](const core::Digest& digest) {
      return m_cache->find_shared(Cache::Kind::artifact, digest, table.pack_raw_size).has_value();
    });
  };
  if (complete()) {
    return PackStats{};
  }
  const auto gate = gate_of(table.pack);
  const std::lock_guard inside(*gate);
  auto lock = m_cache->lock(table.pack, deadline);
  if (lock && complete()) {
    return PackStats{};
  }
  TRY(unpack(table, deadline));
  m_cache->unlock_after_writes(std::move(lock));
  return PackStats{true, table.pack_size};
}

}  // namespace cubinary::client
