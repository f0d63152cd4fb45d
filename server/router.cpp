// SPDX-License-Identifier: Apache-2.0
#include "server/router.hpp"

namespace cubinary::server {
namespace {

constexpr std::array<std::string_view, k_route_count> k_names = {
    "livez", "readyz", "metrics",   "registry", "manifest",
    "blob",  "tags",   "referrers", "resolve",  "unknown"};

RouteMatch match_registry(std::string_view rest) {
  const std::size_t last = rest.rfind('/');
  if (last == std::string_view::npos || last == 0) {
    return {};
  }
  const std::string_view reference = rest.substr(last + 1);
  const std::string_view before = rest.substr(0, last);
  const std::size_t slash = before.rfind('/');
  if (slash == std::string_view::npos || slash == 0 || reference.empty()) {
    return {};
  }
  const std::string_view repository = before.substr(0, slash);
  const std::string_view kind = before.substr(slash + 1);
  if (kind == "manifests") {
    return {Route::manifest, repository, reference};
  }
  if (kind == "blobs") {
    return {Route::blob, repository, reference};
  }
  if (kind == "referrers") {
    return {Route::referrers, repository, reference};
  }
  if (kind == "tags" && reference == "list") {
    return {Route::tags, repository, {}};
  }
  return {};
}

}  // namespace

std::string_view route_name(Route route) {
  return k_names[static_cast<std::size_t>(route)];
}

RouteMatch match_route(std::string_view path) {
  if (path == "/livez") {
    return {Route::livez, {}, {}};
  }
  if (path == "/readyz") {
    return {Route::readyz, {}, {}};
  }
  if (path == "/metrics") {
    return {Route::metrics, {}, {}};
  }
  if (path == "/api/v1/resolve") {
    return {Route::resolve, {}, {}};
  }
  if (path == "/v2" || path == "/v2/") {
    return {Route::registry, {}, {}};
  }
  if (path.starts_with("/v2/")) {
    return match_registry(path.substr(4));
  }
  return {};
}

}  // namespace cubinary::server
