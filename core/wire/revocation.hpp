// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/digest.hpp"
#include "core/base/result.hpp"

namespace cubinary::core {

/// Tag a repository's revocation list is found under; no release or channel may be called so.
inline constexpr std::string_view k_revocations_tag = "cubinary-revocations";
inline constexpr std::string_view k_revocations_artifact_type =
    "application/vnd.cubinary.revocations.v1";

/// A digest that must not load: of a release's index, a target's manifest, a catalogue, a pack or
/// an artifact.
struct Revocation {
  Digest digest;
  std::string reason;
  std::int64_t at = 0;  ///< Unix seconds
};

/// What a revocation list's signature states (in-toto Statement v1; predicate type
/// `https://cubinary.dev/revocations/v1`). A list holds all that was ever revoked in the
/// repository.
struct RevocationList {
  std::uint64_t serial = 0;         ///< grows by one a list; clients never go back
  std::int64_t created = 0;         ///< Unix seconds
  std::vector<Revocation> revoked;  ///< by digest, each once
};

/// The statement's canonical JSON; `revoked` is sorted by it.
[[nodiscard]] std::string revocations_to_json(RevocationList list);
/// Strict, as statement_from_json. Errors are `corrupt`.
[[nodiscard]] Result<RevocationList> revocations_from_json(std::string_view json);

}  // namespace cubinary::core
