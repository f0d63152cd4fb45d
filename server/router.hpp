// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "store/tokens.hpp"

namespace cubinary::server {

/// Every route there is; also the `route` label of metrics and log lines.
enum class Route : std::uint8_t {
  livez,
  readyz,
  metrics,
  page,       ///< /
  page_file,  ///< /page/NAME
  registry,   ///< /v2/
  manifest,   ///< /v2/NAME/manifests/REFERENCE
  blob,       ///< /v2/NAME/blobs/DIGEST
  tags,       ///< /v2/NAME/tags/list
  referrers,  ///< /v2/NAME/referrers/DIGEST
  // --- /api/v1/ ---
  resolve,            ///< resolve
  api_blob,           ///< blobs/DIGEST
  releases,           ///< releases
  release,            ///< releases/NAME
  release_diff,       ///< releases/NAME/diff
  release_signature,  ///< releases/NAME/signature
  channel,            ///< channels/NAME
  revocations,        ///< revocations
  kernels,            ///< kernels
  kernel,             ///< kernels/NAME
  kernel_current,     ///< kernels/NAME/current
  candidates,         ///< candidates
  candidates_known,   ///< candidates/known
  artifacts,          ///< artifacts
  artifacts_known,    ///< artifacts/known
  artifact,           ///< artifacts/DIGEST
  triton,             ///< triton
  triton_records,     ///< triton/records
  sessions,           ///< sessions
  session_facts,      ///< sessions/ID/facts
  measurements,       ///< measurements
  leases,             ///< leases
  lease,              ///< leases/ID
  journal,            ///< journal
  tunings,            ///< tunings
  audit,              ///< audit/QUERY
  tokens,             ///< tokens
  token,              ///< tokens/ID
  changes,            ///< changes
  store_stats,        ///< store/stats
  store_fsck,         ///< store/fsck
  store_gc,           ///< store/gc
  store_backup,       ///< store/backup
  unknown,
};
inline constexpr std::size_t k_route_count = static_cast<std::size_t>(Route::unknown) + 1;
[[nodiscard]] std::string_view route_name(Route route);

/// A path taken apart. The views point into the path.
struct RouteMatch {
  Route route = Route::unknown;
  std::string_view repository;  ///< registry routes below /v2/
  std::string_view reference;   ///< tag, digest, name or id as written
};
/// Splits a decoded path. Never fails: what matches nothing is `unknown`. Repository names may hold
/// slashes.
[[nodiscard]] RouteMatch match_route(std::string_view path);

/// What one method of a route needs and may do.
struct MethodRule {
  std::string_view method;
  store::Scope scope = store::Scope::read;  ///< a token needs it
  std::uint64_t max_body = 0;               ///< bytes a request may carry; 0: no body
  bool changes = false;                     ///< the store may be another after it
};
/// The methods a route answers; HEAD stands with GET. Empty for `unknown`.
[[nodiscard]] std::span<const MethodRule> route_methods(Route route);
/// The rule of a method, HEAD as GET; null when the route does not answer it.
[[nodiscard]] const MethodRule* find_method(Route route, std::string_view method);
/// "GET, HEAD, PUT", for an Allow header.
[[nodiscard]] std::string allowed_methods(Route route);

/// Whether the route answers anybody, from any address and under any host name: health probes.
[[nodiscard]] constexpr bool is_open(Route route) {
  return route == Route::livez || route == Route::readyz;
}

}  // namespace cubinary::server
