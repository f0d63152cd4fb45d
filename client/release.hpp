// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "client/cache.hpp"
#include "client/revocations.hpp"
#include "client/source.hpp"
#include "client/target_tables.hpp"
#include "core/base/result.hpp"
#include "core/model/target.hpp"
#include "core/table/kernel_table.hpp"
#include "core/wire/oci.hpp"
#include "core/wire/signature.hpp"
#include "core/wire/triton_catalogue.hpp"

namespace cubinary::client {

struct TrustOptions {
  std::vector<core::PublicKey> keys;  ///< pinned
  bool allow_unsigned = false;        ///< ask for no signature at all
  bool allow_expired = false;
  /// Refuse a lower serial than one seen under the same key, repository and tag, and remember this
  /// one.
  bool remember_serial = true;
};

struct ReleaseOptions {
  TrustOptions trust;
  bool offline = false;  ///< only the cache; `Release` then has no source
  /// This index and no other, wherever its tag points now; its serial is then not compared.
  std::optional<core::Digest> pinned = {};
  std::string token;
  Deadline deadline;
  Log log;
  std::shared_ptr<Metrics> metrics = {};
};

/// An opened release: its index is verified, everything else is fetched when asked for and verified
/// then, by digests that lead back to the index. Thread-safe.
class Release {
 public:
  /// Finds, fetches and verifies the index and its signature. Errors: `not_found` (no such tag;
  /// several releases and no tag: names them), `signature`, `expired`, `rollback`, `corrupt`, and
  /// the source's.
  [[nodiscard]] static core::Result<std::unique_ptr<Release>> open(const SourceName& name,
                                                                   ReleaseOptions options,
                                                                   std::shared_ptr<Cache> cache);

  [[nodiscard]] const std::string& tag() const { return m_tag; }
  [[nodiscard]] const core::Digest& index_digest() const { return m_index_digest; }
  /// None when unsigned releases are allowed.
  [[nodiscard]] const std::optional<core::ReleaseStatement>& statement() const {
    return m_statement;
  }
  [[nodiscard]] const std::string& key_id() const { return m_key_id; }
  /// What the release is called: by its signature, else by its tag.
  [[nodiscard]] const std::string& name() const { return m_statement ? m_statement->name : m_tag; }
  [[nodiscard]] const std::vector<core::Target>& targets() const { return m_targets; }
  /// What the repository's owner has revoked. Entries that use such code are in no catalogue.
  [[nodiscard]] const Revoked& revoked() const { return m_revoked; }

  /// The kernels of one of `targets()`; fetched and checked once, then shared.
  [[nodiscard]] core::Result<std::shared_ptr<const TargetTables>> tables(const core::Target& target,
                                                                         Deadline deadline);

  /// An artifact's bytes, from the cache or out of its pack; the whole pack's artifacts are then
  /// checked, cached and for a while kept in memory. `table` belongs to `tables`, `digest` to
  /// one of its entries.
  [[nodiscard]] core::Result<SharedBytes> artifact(const core::KernelTable& table,
                                                   const core::Digest& digest, Deadline deadline);

  /// Targets whose tables are here.
  [[nodiscard]] std::vector<core::Target> opened_targets();
  /// Brings an artifact into memory, if the cache holds it and the bound on memory leaves room for
  /// it; false when it does not. Counts as a hit once `artifact` is asked for it.
  bool read_ahead(const core::Digest& digest);

  /// Brings every artifact of `table` into memory, as far as the bound on it allows.
  [[nodiscard]] core::Result<void> warm(const core::KernelTable& table, Deadline deadline);

  struct PackStats {
    bool fetched = false;          ///< false: all artifacts were in the cache
    std::uint64_t pack_bytes = 0;  ///< received
  };
  /// Makes sure that the cache holds every artifact of `table`, each one checked now.
  [[nodiscard]] core::Result<PackStats> fetch_all(const core::KernelTable& table,
                                                  Deadline deadline);

  /// What the release holds of Triton on one of `targets()`; null when that is nothing. Fetched and
  /// checked each time.
  [[nodiscard]] core::Result<std::shared_ptr<const core::TritonCatalogue>> triton(
      const core::Target& target, Deadline deadline);
  /// The concatenated files of a pack of `triton`, each one's digest checked. Not cached.
  [[nodiscard]] core::Result<core::Bytes> triton_pack(const core::TritonPack& pack,
                                                      Deadline deadline);

 private:
  Release() = default;
  core::Result<std::string> choose_tag(const SourceName& name);
  core::Result<void> open_online(const SourceName& name);
  core::Result<Document> find_index(const SourceName& name);
  core::Result<void> open_offline(const SourceName& name);
  core::Result<void> read_index(core::ByteView bytes);
  /// The signature's manifest, checked; none when there is no signature at all.
  core::Result<std::optional<core::Digest>> find_signature();
  core::Result<void> check_signature(const core::Digest& manifest_digest, core::ByteView manifest);
  core::Result<void> check_serial(const SourceName& name);
  core::Result<void> read_revocations(const SourceName& name);
  /// `revoked` when the digest is on the list; `what` begins the message.
  [[nodiscard]] core::Result<void> check_revoked(const core::Digest& digest,
                                                 std::string_view what) const;
  /// Leaves out entries whose code is revoked, and says so; none where nothing is revoked.
  [[nodiscard]] TargetTables::Filter drop_revoked(const std::string& where) const;
  core::Result<core::oci::Manifest> target_manifest(const core::Target& target, Deadline deadline);
  /// For opening the release offline.
  void keep_document(const core::Digest& digest, core::ByteView bytes);
  core::Result<core::Bytes> document(const core::Digest& digest, std::uint64_t max_bytes,
                                     std::optional<std::uint64_t> size, Deadline deadline);
  core::Result<std::map<core::Digest, SharedBytes>> unpack(const core::KernelTable& table,
                                                           Deadline deadline);
  std::optional<SharedBytes> find_recent(const core::KernelTable& table,
                                         const core::Digest& digest);
  std::optional<SharedBytes> find_artifact(const core::KernelTable& table,
                                           const core::Digest& digest);
  void remember(const core::Digest& digest, const SharedBytes& bytes);
  /// Held while a pack or catalogue is fetched: one thread does it, the others find what it
  /// brought.
  std::shared_ptr<std::mutex> gate_of(const core::Digest& digest);
  std::shared_ptr<const TargetTables> find_tables(const core::Target& target);
  core::Result<std::shared_ptr<const TargetTables>> read_tables(const core::Target& target,
                                                                Deadline deadline);

  std::unique_ptr<Source> m_source;  ///< none when offline
  std::string m_place;
  std::shared_ptr<Cache> m_cache;
  ReleaseOptions m_options;
  std::string m_tag;
  core::Digest m_index_digest;
  core::oci::Index m_index;
  std::vector<core::Target> m_targets;
  std::vector<std::size_t> m_target_manifests;  ///< index into m_index.manifests, a target each
  std::optional<core::ReleaseStatement> m_statement;
  std::string m_key_id;
  Revoked m_revoked;
  core::Digest m_signature_digest;  ///< the signature's manifest; zero when unsigned

  std::mutex m_mutex;
  std::map<core::Target, std::shared_ptr<const TargetTables>> m_tables;
  std::map<core::Digest, std::shared_ptr<std::mutex>> m_gates;
  struct Recent {
    SharedBytes bytes;
    bool ahead = false;  ///< nobody asked for it yet
  };
  std::map<core::Digest, Recent> m_recent;  ///< verified artifacts, bounded
  std::deque<std::pair<core::Digest, std::uint64_t>> m_recent_order;
  std::uint64_t m_recent_bytes = 0;
};

}  // namespace cubinary::client
