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

#include "client/cache_writer.hpp"
#include "client/metrics.hpp"
#include "client/shared_bytes.hpp"
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
/// Files are written behind the caller's back, in order; until then memory answers. Thread-safe.
class Cache {
 public:
  enum class Kind : std::uint8_t { artifact, blob };

  struct Options {
    std::filesystem::path directory;           ///< empty: memory only
    std::uint64_t limit = 16ULL << 30U;        ///< bytes on disk; the least recently used go first
    std::uint64_t memory_limit = 1ULL << 30U;  ///< bytes kept in memory where there is no folder
    /// Everything is on the disk before its name appears; else only records are, and a file that a
    /// loss of power tore counts as missing.
    bool durable = false;
    Log log = {};
    std::shared_ptr<Metrics> metrics = {};
  };
  explicit Cache(Options options);

  /// $CUBINARY_CACHE, $XDG_CACHE_HOME/cubinary, ~/.cache/cubinary; empty when none of them is set.
  [[nodiscard]] static std::filesystem::path default_directory();

  /// The bytes, if they are here, at most `max_bytes` long and have the digest.
  [[nodiscard]] std::optional<core::Bytes> find(Kind kind, const core::Digest& digest,
                                                std::uint64_t max_bytes);
  /// The same without a copy where it can be.
  [[nodiscard]] std::optional<SharedBytes> find_shared(Kind kind, const core::Digest& digest,
                                                       std::uint64_t max_bytes);
  /// Whether `find` would probably succeed; reads nothing.
  [[nodiscard]] bool has(Kind kind, const core::Digest& digest) const;
  /// Keeps `bytes`, whose digest the caller has checked.
  void put(Kind kind, const core::Digest& digest, core::ByteView bytes);
  void put(Kind kind, const core::Digest& digest, SharedBytes bytes);
  /// Waits until all that was put is written. The first failure since the last flush: what was put
  /// is then in memory only.
  [[nodiscard]] core::Result<void> flush();

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
  /// Lets go of it once all that was put so far is there for the next holder to find.
  void unlock_after_writes(Lock lock);

  [[nodiscard]] const std::filesystem::path& directory() const { return m_options.directory; }

 private:
  struct Held {
    SharedBytes bytes;
    bool waits = false;  ///< to be written; then it leaves memory
  };
  [[nodiscard]] bool on_disk() const { return !m_options.directory.empty() && m_writable; }
  [[nodiscard]] std::filesystem::path path_of(Kind kind, const core::Digest& digest) const;
  void quarantine(const std::filesystem::path& path);
  void keep_in_memory(Kind kind, const core::Digest& digest, SharedBytes bytes);
  void written(Kind kind, const core::Digest& digest, const core::Result<void>& result);
  void cannot_write(const core::Error& error);
  void trim();

  Options m_options;
  std::filesystem::path m_folders[2];  ///< of artifacts and blobs
  std::atomic<bool> m_writable{true};
  mutable std::mutex m_mutex;
  std::map<std::pair<Kind, core::Digest>, Held> m_memory;
  std::uint64_t m_memory_bytes = 0;  ///< of those that do not wait
  std::map<std::string, std::string, std::less<>> m_records;
  std::uint64_t m_until_trim = 0;  ///< bytes that may be written before the next look at the size
  CacheWriter m_writer;            ///< last: its thread uses what stands above
};

}  // namespace cubinary::client
