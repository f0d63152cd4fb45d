// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.hpp"
#include "core/wire/revocation.hpp"
#include "core/wire/signature.hpp"
#include "store/releases.hpp"
#include "store/store.hpp"

namespace cubinary::builder {

/// The store's revocation list; serial 0 when nothing was ever revoked. Nothing is verified.
[[nodiscard]] core::Result<core::RevocationList> read_revocations(const store::Reader& reader);

/// Blobs of the list as it is stored, its manifest first; empty when there is no list.
[[nodiscard]] core::Result<std::vector<store::BlobInfo>> revocation_blobs(
    const store::Reader& reader);

/// The list with more on it, signed: what `attach_revocations` takes. Digests that are on it
/// already keep their reason; when all are, the serial grows all the same (a new key may sign).
[[nodiscard]] core::Result<std::string> make_revocations(core::RevocationList list,
                                                         std::span<const core::Revocation> more,
                                                         std::int64_t now,
                                                         std::span<const core::PrivateKey> keys);

struct AttachedRevocations {
  core::RevocationList list;
  core::Digest manifest;
  std::vector<std::string> key_ids;
};
/// Stores a signed list under its tag in place of the one before. Errors: `rollback` when its
/// serial is not higher, or something that is revoked is missing on it; `corrupt`, `signature`.
[[nodiscard]] core::Result<AttachedRevocations> attach_revocations(store::Store& store,
                                                                   std::string_view envelope);

/// What a release says its digests are: `release v1`, `pack of kernel rmsnorm in v1, sm_90`; empty
/// when no release in the store has it.
[[nodiscard]] core::Result<std::string> describe_digest(const store::Reader& reader,
                                                        const core::Digest& digest);

}  // namespace cubinary::builder
