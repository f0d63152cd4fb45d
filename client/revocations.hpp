// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>

#include "client/cache.hpp"
#include "client/source.hpp"
#include "core/base/result.hpp"
#include "core/wire/revocation.hpp"
#include "core/wire/signature.hpp"

namespace cubinary::client {

/// Digests that must not load, with the reason each was given.
using Revoked = std::map<core::Digest, std::string>;

struct RevocationQuery {
  Source* source = nullptr;  ///< null: offline
  const SourceName& name;
  std::span<const core::PublicKey> keys;
  Deadline deadline;
  const Log& log;
};

/// The repository's revocation list, checked under the pinned keys; empty where there is none. The
/// newest list ever seen under these keys and repository is kept in the cache and applies when the
/// source has an older one or none any more. Errors: `signature`, `corrupt`, `rollback` (the source
/// went back, and the newer list is not in the cache any more), and the source's.
[[nodiscard]] core::Result<Revoked> load_revocations(Cache& cache, const RevocationQuery& query);

}  // namespace cubinary::client
