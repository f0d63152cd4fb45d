// SPDX-License-Identifier: Apache-2.0
#include <string>

#include <catch2/catch_test_macros.hpp>

#include "server/router.hpp"

using namespace cubinary::server;

namespace {

std::string text(std::string_view path) {
  const RouteMatch match = match_route(path);
  return std::string(route_name(match.route)) + " " + std::string(match.repository) + " " +
         std::string(match.reference);
}

}  // namespace

TEST_CASE("Paths are taken apart from the end, so that repository names may hold slashes") {
  CHECK(text("/livez") == "livez  ");
  CHECK(text("/readyz") == "readyz  ");
  CHECK(text("/metrics") == "metrics  ");
  CHECK(text("/api/v1/resolve") == "resolve  ");
  CHECK(text("/") == "page  ");
  CHECK(text("/page/page.js") == "page_file  page.js");
  CHECK(text("/v2/") == "registry  ");
  CHECK(text("/v2") == "registry  ");
  CHECK(text("/v2/cubinary/manifests/r1") == "manifest cubinary r1");
  CHECK(text("/v2/a/b/c/manifests/sha256:00") == "manifest a/b/c sha256:00");
  CHECK(text("/v2/a/blobs/blobs/sha256:00") == "blob a/blobs sha256:00");
  CHECK(text("/v2/cubinary/tags/list") == "tags cubinary ");
  CHECK(text("/v2/cubinary/referrers/sha256:00") == "referrers cubinary sha256:00");
}

TEST_CASE("Everything else is unknown") {
  for (const char* path :
       {"", "/livez/", "/v2/cubinary", "/v2/cubinary/", "/v2/cubinary/manifests/",
        "/v2//manifests/r1", "/v2/manifests/r1", "/v2/cubinary/tags/all", "/v2/cubinary/layers/x",
        "/api/v1/resolve/", "/api/v1", "/v2/..", "/v2/cubinary/../../etc/passwd", "/metrics/x",
        "//v2/", "/V2/"}) {
    CAPTURE(path);
    CHECK(match_route(path).route == Route::unknown);
  }
}

TEST_CASE("API paths hold one name, never a slash") {
  CHECK(text("/api/v1/releases") == "releases  ");
  CHECK(text("/api/v1/releases/2026.11") == "release  2026.11");
  CHECK(text("/api/v1/releases/2026.11/diff") == "release_diff  2026.11");
  CHECK(text("/api/v1/releases/diff/diff") == "release_diff  diff");
  CHECK(text("/api/v1/releases/2026.11/signature") == "release_signature  2026.11");
  CHECK(text("/api/v1/candidates/known") == "candidates_known  ");
  CHECK(text("/api/v1/kernels/rmsnorm/current") == "kernel_current  rmsnorm");
  CHECK(text("/api/v1/artifacts/sha256:00") == "artifact  sha256:00");
  CHECK(text("/api/v1/store/backup") == "store_backup  ");
  for (const char* path :
       {"/api/v1/releases/", "/api/v1/releases//diff", "/api/v1/releases/a/b",
        "/api/v1/releases/a/b/diff", "/api/v1/store/", "/api/v1/kernels/a/currents"}) {
    CAPTURE(path);
    CHECK(match_route(path).route == Route::unknown);
  }
}

TEST_CASE(
    "Every route but unknown answers some method, and only reads without a scope of their own") {
  for (std::size_t i = 0; i < k_route_count; ++i) {
    const auto route = static_cast<Route>(i);
    CAPTURE(route_name(route));
    CHECK(route_methods(route).empty() == (route == Route::unknown));
    for (const MethodRule& rule : route_methods(route)) {
      CHECK((!rule.changes || rule.scope != cubinary::store::Scope::read));
      CHECK((rule.method != "GET" || (!rule.changes && rule.max_body == 0)));
    }
  }
  CHECK(find_method(Route::blob, "HEAD") == find_method(Route::blob, "GET"));
  CHECK(find_method(Route::blob, "PUT") == nullptr);
  CHECK(find_method(Route::channel, "PUT")->scope == cubinary::store::Scope::publish);
  CHECK(allowed_methods(Route::channel) == "GET, HEAD, PUT");
}

TEST_CASE("Only health probes are open") {
  for (std::size_t i = 0; i < k_route_count; ++i) {
    const auto route = static_cast<Route>(i);
    CHECK(is_open(route) == (route == Route::livez || route == Route::readyz));
  }
}
