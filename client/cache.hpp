// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "client/source.hpp"
#include "core/base/bytes.hpp"
#include "core/base/digest.hpp"
#include "core/base/file.hpp"

namespace cubinary::client {

/// Takes one warning line.
using Log = std::function<void(const std::string&)>;

/// What a machine has fetched already: bytes by digest, and small records by name.
///
///     v1/artifacts/sha256/<hex>   code, as the loader takes it
///     v1/blobs/sha256/<hex>       indexes, manifests, catalogues, envelopes
///     v1/records/<hex>.json       the newest release seen under each name
///     v1/lock/<hex>               one fetch a node
///     v1/quarantine/              damaged entries, a few
///
/// Never fatal. The digest is checked on every read: a damaged entry is moved away and counts as
/// missing. A folder that cannot be written is read all the same; what would be written is then
/// kept in memory, after one warning. Any number of processes may share a folder, also over NFS.
/// Thread-safe.
class Cache {
 public:
  enum class Kind : std::uint8_t { artifact, blob };

  struct Options {
    std::filesystem::path directory;           ///< empty: memory only
    std::uint64_t limit = 16ULL << 30U;        ///< bytes on disk; the least recently used go first
    std::uint64_t memory_limit = 1ULL << 30U;  ///< bytes kept in memory
    Log log;
  };
  explicit Cache(Options options);

  /// $CUBINARY_CACHE, $XDG_CACHE_HOME/cubinary, ~/.cache/cubinary; empty when none of them is set.
  [[nodiscard]] static std::filesystem::path default_directory();

  /// The bytes, if they are here, at most `max_bytes` long and have the digest.
  [[nodiscard]] std::optional<core::Bytes> find(Kind kind, const core::Digest& digest,
                                                std::uint64_t max_bytes);
  /// Whether `find` would probably succeed; reads nothing.
  [[nodiscard]] bool has(Kind kind, const core::Digest& digest) const;
  /// Keeps `bytes`, whose digest the caller has checked.
  void put(Kind kind, const core::Digest& digest, core::ByteView bytes);

  /// Records are at most 64 KiB. They are not protected by a digest: parse them with care.
  [[nodiscard]] std::optional<std::string> find_record(std::string_view name);
  void put_record(std::string_view name, std::string_view text);
  /// Where the record lies, for messages; empty in memory.
  [[nodiscard]] std::filesystem::path record_path(std::string_view name) const;

  /// The right to fetch something, held until destroyed. It may be empty: when locking is not
  /// possible here, or the holder took longer than the deadline. Work twice is then the worst that
  /// happens.
  using Lock = core::UniqueFd;
  [[nodiscard]] Lock lock(const core::Digest& digest, Deadline deadline);

  [[nodiscard]] const std::filesystem::path& directory() const { return m_options.directory; }

 private:
  [[nodiscard]] std::filesystem::path path_of(Kind kind, const core::Digest& digest) const;
  void quarantine(const std::filesystem::path& path);
  void keep_in_memory(Kind kind, const core::Digest& digest, core::ByteView bytes);
  void cannot_write(const core::Error& error);
  void trim();

  Options m_options;
  std::atomic<bool> m_writable{true};
  mutable std::mutex m_mutex;
  std::map<std::pair<Kind, core::Digest>, core::Bytes> m_memory;
  std::uint64_t m_memory_bytes = 0;
  std::map<std::string, std::string, std::less<>> m_records;
  std::uint64_t m_until_trim = 0;  ///< bytes that may be written before the next look at the size
};

}  // namespace cubinary::client
