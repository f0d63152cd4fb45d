// SPDX-License-Identifier: Apache-2.0
#include "server/router.hpp"

#include <array>

namespace cubinary::server {
namespace {

using store::Scope;

constexpr std::uint64_t k_small_body = 64U << 10U;
constexpr std::uint64_t k_signature_body = 1U << 20U;
constexpr std::uint64_t k_batch_body = 32U << 20U;
constexpr std::uint64_t k_artifact_body = 64U << 20U;

constexpr std::array k_read = {MethodRule{"GET"}};
constexpr std::array k_releases = {MethodRule{"GET"},
                                   MethodRule{"POST", Scope::publish, k_small_body, true}};
constexpr std::array k_signature = {MethodRule{"PUT", Scope::publish, k_signature_body, true}};
constexpr std::array k_channel = {MethodRule{"GET"},
                                  MethodRule{"PUT", Scope::publish, k_small_body, true}};
constexpr std::array k_revocations = {MethodRule{"GET"},
                                      MethodRule{"PUT", Scope::publish, k_batch_body, true}};
constexpr std::array k_current = {MethodRule{"PUT", Scope::publish, k_batch_body, true}};
constexpr std::array k_candidates = {MethodRule{"GET"},
                                     MethodRule{"POST", Scope::publish, k_batch_body, true}};
constexpr std::array k_known = {MethodRule{"POST", Scope::read, k_batch_body, false}};
constexpr std::array k_artifacts = {MethodRule{"POST", Scope::publish, k_artifact_body, true}};
constexpr std::array k_artifact = {MethodRule{"GET"},
                                   MethodRule{"PUT", Scope::publish, k_artifact_body, true}};
constexpr std::array k_triton = {MethodRule{"GET"},
                                 MethodRule{"POST", Scope::publish, k_artifact_body, true}};
constexpr std::array k_sessions = {MethodRule{"GET"},
                                   MethodRule{"POST", Scope::tune, k_small_body, true}};
constexpr std::array k_tune_put = {MethodRule{"PUT", Scope::tune, k_small_body, true}};
constexpr std::array k_measurements = {MethodRule{"GET"},
                                       MethodRule{"POST", Scope::tune, k_batch_body, true}};
constexpr std::array k_lease = {MethodRule{"PUT", Scope::tune, k_small_body, true},
                                MethodRule{"DELETE", Scope::tune, 0, true}};
constexpr std::array k_journal = {MethodRule{"POST", Scope::tune, k_small_body, false},
                                  MethodRule{"PUT", Scope::tune, k_small_body, true}};
constexpr std::array k_tunings = {MethodRule{"GET"},
                                  MethodRule{"POST", Scope::tune, k_small_body, true}};
constexpr std::array k_tokens = {MethodRule{"GET", Scope::admin},
                                 MethodRule{"POST", Scope::admin, k_small_body, true}};
constexpr std::array k_token = {MethodRule{"DELETE", Scope::admin, 0, true}};
constexpr std::array k_admin_read = {MethodRule{"GET", Scope::admin}};
constexpr std::array k_admin_read_post = {MethodRule{"POST", Scope::admin, k_small_body, false}};
constexpr std::array k_admin_change = {MethodRule{"POST", Scope::admin, k_small_body, true}};

/// One fixed path, or a prefix before one name and what follows it. `suffix` without `named` means
/// nothing.
struct Row {
  Route route;
  std::string_view name;
  std::span<const MethodRule> methods;
  std::string_view path;         ///< whole, or up to the name
  bool named = false;            ///< a name follows
  std::string_view suffix = {};  ///< after the name
};

constexpr std::array<Row, k_route_count> k_rows = {{
    {Route::livez, "livez", k_read, "/livez"},
    {Route::readyz, "readyz", k_read, "/readyz"},
    {Route::metrics, "metrics", k_read, "/metrics"},
    {Route::page, "page", k_read, "/"},
    {Route::page_file, "page_file", k_read, "/page/", true},
    {Route::registry, "registry", k_read, "/v2/"},
    {Route::manifest, "manifest", k_read, {}},
    {Route::blob, "blob", k_read, {}},
    {Route::tags, "tags", k_read, {}},
    {Route::referrers, "referrers", k_read, {}},
    {Route::resolve, "resolve", k_read, "/api/v1/resolve"},
    {Route::api_blob, "api_blob", k_read, "/api/v1/blobs/", true},
    {Route::releases, "releases", k_releases, "/api/v1/releases"},
    {Route::release, "release", k_read, "/api/v1/releases/", true},
    {Route::release_diff, "release_diff", k_read, "/api/v1/releases/", true, "/diff"},
    {Route::release_signature, "release_signature", k_signature, "/api/v1/releases/", true,
     "/signature"},
    {Route::channel, "channel", k_channel, "/api/v1/channels/", true},
    {Route::revocations, "revocations", k_revocations, "/api/v1/revocations"},
    {Route::kernels, "kernels", k_read, "/api/v1/kernels"},
    {Route::kernel, "kernel", k_read, "/api/v1/kernels/", true},
    {Route::kernel_current, "kernel_current", k_current, "/api/v1/kernels/", true, "/current"},
    {Route::candidates, "candidates", k_candidates, "/api/v1/candidates"},
    {Route::candidates_known, "candidates_known", k_known, "/api/v1/candidates/known"},
    {Route::artifacts, "artifacts", k_artifacts, "/api/v1/artifacts"},
    {Route::artifacts_known, "artifacts_known", k_known, "/api/v1/artifacts/known"},
    {Route::artifact, "artifact", k_artifact, "/api/v1/artifacts/", true},
    {Route::triton, "triton", k_triton, "/api/v1/triton"},
    {Route::triton_records, "triton_records", k_read, "/api/v1/triton/records"},
    {Route::sessions, "sessions", k_sessions, "/api/v1/sessions"},
    {Route::session_facts, "session_facts", k_tune_put, "/api/v1/sessions/", true, "/facts"},
    {Route::measurements, "measurements", k_measurements, "/api/v1/measurements"},
    {Route::leases, "leases", k_sessions, "/api/v1/leases"},
    {Route::lease, "lease", k_lease, "/api/v1/leases/", true},
    {Route::journal, "journal", k_journal, "/api/v1/journal"},
    {Route::tunings, "tunings", k_tunings, "/api/v1/tunings"},
    {Route::audit, "audit", k_read, "/api/v1/audit/", true},
    {Route::tokens, "tokens", k_tokens, "/api/v1/tokens"},
    {Route::token, "token", k_token, "/api/v1/tokens/", true},
    {Route::changes, "changes", k_admin_read, "/api/v1/changes"},
    {Route::store_stats, "store_stats", k_read, "/api/v1/store/stats"},
    {Route::store_fsck, "store_fsck", k_admin_read_post, "/api/v1/store/fsck"},
    {Route::store_gc, "store_gc", k_admin_change, "/api/v1/store/gc"},
    {Route::store_backup, "store_backup", k_admin_read, "/api/v1/store/backup"},
    {Route::unknown, "unknown", {}, {}},
}};

constexpr bool in_route_order() {
  for (std::size_t i = 0; i < k_rows.size(); ++i) {
    if (static_cast<std::size_t>(k_rows[i].route) != i) {
      return false;
    }
  }
  return true;
}
static_assert(in_route_order(), "one row a route, in the enum's order");

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
  return k_rows[static_cast<std::size_t>(route)].name;
}

RouteMatch match_route(std::string_view path) {
  if (path == "/v2") {
    return {Route::registry, {}, {}};
  }
  for (const Row& row : k_rows) {
    if (row.path.empty()) {
      continue;
    }
    if (!row.named) {
      if (path == row.path) {
        return {row.route, {}, {}};
      }
      continue;
    }
    if (path.size() <= row.path.size() + row.suffix.size() || !path.starts_with(row.path) ||
        !path.ends_with(row.suffix)) {
      continue;
    }
    const std::string_view name =
        path.substr(row.path.size(), path.size() - row.path.size() - row.suffix.size());
    if (name.find('/') == std::string_view::npos) {
      return {row.route, {}, name};
    }
  }
  if (path.starts_with("/v2/")) {
    return match_registry(path.substr(4));
  }
  return {};
}

std::span<const MethodRule> route_methods(Route route) {
  return k_rows[static_cast<std::size_t>(route)].methods;
}

const MethodRule* find_method(Route route, std::string_view method) {
  for (const MethodRule& rule : route_methods(route)) {
    if (rule.method == method || (method == "HEAD" && rule.method == "GET")) {
      return &rule;
    }
  }
  return nullptr;
}

std::string allowed_methods(Route route) {
  std::string text;
  for (const MethodRule& rule : route_methods(route)) {
    text += (text.empty() ? "" : ", ") + std::string(rule.method);
    if (rule.method == "GET") {
      text += ", HEAD";
    }
  }
  return text;
}

}  // namespace cubinary::server
