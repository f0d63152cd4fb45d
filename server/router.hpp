// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace cubinary::server {

/// Every route there is; also the `route` label of metrics and log lines.
enum class Route : std::uint8_t {
  livez,
  readyz,
  metrics,
  registry,   ///< /v2/
  manifest,   ///< /v2/NAME/manifests/REFERENCE
  blob,       ///< /v2/NAME/blobs/DIGEST
  tags,       ///< /v2/NAME/tags/list
  referrers,  ///< /v2/NAME/referrers/DIGEST
  resolve,    ///< /api/v1/resolve
  unknown,
};
inline constexpr std::size_t k_route_count = static_cast<std::size_t>(Route::unknown) + 1;
[[nodiscard]] std::string_view route_name(Route route);

/// A path taken apart. The views point into the path.
struct RouteMatch {
  Route route = Route::unknown;
  std::string_view repository;  ///< registry routes below /v2/
  std::string_view reference;   ///< tag or digest as written
};
/// Splits a decoded path. Never fails: what matches nothing is `unknown`. Repository names may hold
/// slashes.
[[nodiscard]] RouteMatch match_route(std::string_view path);

/// Whether the route answers anybody, from any address and under any host name: health probes.
[[nodiscard]] constexpr bool is_open(Route route) {
  return route == Route::livez || route == Route::readyz;
}

}  // namespace cubinary::server
