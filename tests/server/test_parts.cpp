// SPDX-License-Identifier: Apache-2.0
// The small parts: cache, log, metrics, listening addresses, resolve parameters.
#include <memory>
#include <string>

#include <catch2/catch_test_macros.hpp>

#include "core/base/json.hpp"
#include "server/access_log.hpp"
#include "server/blob_cache.hpp"
#include "server/gate.hpp"
#include "server/listener.hpp"
#include "server/metrics.hpp"
#include "server/resolve_api.hpp"

using namespace cubinary;
using namespace cubinary::server;

namespace {

std::shared_ptr<const CachedBlob> blob(std::size_t size) {
  return std::make_shared<CachedBlob>(CachedBlob{"type", std::string(size, 'x')});
}

core::Digest name(int i) {
  return core::sha256(std::to_string(i));
}

Request resolve_request(std::vector<std::pair<std::string, std::string>> query) {
  Request request;
  request.query = std::move(query);
  return request;
}

}  // namespace

TEST_CASE("The blob cache forgets the least recently used, and never exceeds its bound") {
  BlobCache cache(300, 100);
  CHECK(cache.admits(100));
  CHECK_FALSE(cache.admits(101));
  for (int i = 0; i < 3; ++i) {
    cache.insert(name(i), blob(100));
  }
  CHECK(cache.find(name(0)) != nullptr);
  cache.insert(name(3), blob(100));
  CHECK(cache.bytes() == 300);
  CHECK(cache.find(name(1)) == nullptr);
  CHECK(cache.find(name(0)) != nullptr);
  CHECK(cache.find(name(3))->bytes.size() == 100);
  cache.insert(name(4), blob(101));
  CHECK(cache.find(name(4)) == nullptr);
  CHECK(cache.hits() == 3);
  CHECK(cache.misses() == 2);

  BlobCache off(0, 100);
  off.insert(name(0), blob(10));
  CHECK(off.find(name(0)) == nullptr);
}

TEST_CASE("A log line is one JSON object whatever the client sent") {
  LogEntry entry;
  entry.peer = "127.0.0.1";
  entry.method = "GET";
  entry.target = "/v2/\"\\\n\xff";
  entry.route = Route::blob;
  entry.status = 206;
  entry.bytes = 1234;
  entry.duration = std::chrono::microseconds(1500);
  const std::string line = log_line(entry, 1'700'000'000'123);
  CHECK(line.find('\n') == std::string::npos);
  const auto parsed = core::json::parse(line);
  REQUIRE(parsed);
  const auto& object = *parsed->get_if<core::json::Object>();
  CHECK(object.at("time") == core::json::Value("2023-11-14T22:13:20.123Z"));
  CHECK(object.at("status") == core::json::Value(206));
  CHECK(object.at("bytes") == core::json::Value(1234));
  CHECK(object.at("ms") == core::json::Value(1.5));
  CHECK(object.at("route") == core::json::Value("blob"));
  CHECK(object.at("target") == core::json::Value(std::string("/v2/\"\\\n\xc3\xbf")));
  CHECK_FALSE(object.contains("token"));
}

TEST_CASE("Metrics add up") {
  Metrics metrics;
  metrics.count_request(Route::blob, 200, 100, std::chrono::microseconds(700));
  metrics.count_request(Route::blob, 200, 50, std::chrono::seconds(60));
  metrics.count_request(Route::tags, 299, 1, std::chrono::nanoseconds(1));
  const std::string text = metrics.text({.store_bytes = 42});
  const auto has = [&](const std::string& line) {
    return text.find(line + "\n") != std::string::npos;
  };
  CHECK(has(R"(cubinary_http_requests_total{route="blob",status="200"} 2)"));
  CHECK(has(R"(cubinary_http_requests_total{route="tags",status="other"} 1)"));
  CHECK(has(R"(cubinary_http_sent_bytes_total{route="blob"} 150)"));
  CHECK(has(R"(cubinary_http_request_duration_seconds_bucket{route="blob",le="0.0005"} 0)"));
  CHECK(has(R"(cubinary_http_request_duration_seconds_bucket{route="blob",le="0.001"} 1)"));
  CHECK(has(R"(cubinary_http_request_duration_seconds_bucket{route="blob",le="30"} 1)"));
  CHECK(has(R"(cubinary_http_request_duration_seconds_bucket{route="blob",le="+Inf"} 2)"));
  CHECK(has(R"(cubinary_http_request_duration_seconds_sum{route="blob"} 60.0007)"));
  CHECK(has(R"(cubinary_http_request_duration_seconds_count{route="blob"} 2)"));
  CHECK(has("cubinary_store_bytes 42"));
}

TEST_CASE("Listening addresses") {
  const auto parsed = parse_listen("[::1]:8421");
  REQUIRE(parsed);
  CHECK(parsed->host == "::1");
  CHECK(parsed->port == 8421);
  CHECK(parse_listen("localhost:0")->port == 0);
  for (const char* bad : {"", "8421", ":8421", "::1:8421", "a:", "a:70000", "a:-1", "a:1x"}) {
    CAPTURE(bad);
    CHECK_FALSE(parse_listen(bad));
  }
  const auto exposed = open_listener({"0.0.0.0", 0}, true);
  REQUIRE_FALSE(exposed);
  CHECK(exposed.error().code == core::ErrorCode::usage);
  CHECK(exposed.error().message.find("--behind-proxy") != std::string::npos);
  const auto local = open_listener({"127.0.0.1", 0}, true);
  REQUIRE(local);
  CHECK(local->port != 0);
  CHECK(local->loopback);
  const auto taken = open_listener({"127.0.0.1", local->port}, true);
  REQUIRE_FALSE(taken);
  CHECK(taken.error().code == core::ErrorCode::busy);
}

TEST_CASE("Secrets are taken from Bearer and Basic") {
  CHECK(secret_of("Bearer abc") == "abc");
  CHECK(secret_of("bearer   abc") == "abc");
  CHECK(secret_of("Basic dXNlcjpjYnRfMTpfeA==") == "cbt_1:_x");
  CHECK_FALSE(secret_of("Basic dXNlcg=="));
  CHECK_FALSE(secret_of("Basic !!"));
  CHECK_FALSE(secret_of("Bearer "));
  CHECK_FALSE(secret_of("Digest abc"));
  CHECK_FALSE(secret_of("Bearerabc"));
}

TEST_CASE("Resolve parameters") {
  const auto good = parse_resolve(resolve_request({{"kernel", "rmsnorm"},
                                                   {"types", "T:bf16,U:f32"},
                                                   {"shape", "rows:64,cols:4096"},
                                                   {"device", "sm120-s188-l128M-b512-m96G"},
                                                   {"align", "x:16"},
                                                   {"require", "nearest-shape"},
                                                   {"release", "prod"}}));
  REQUIRE(good);
  CHECK(good->kernel == "rmsnorm");
  CHECK(good->release == "prod");
  CHECK(good->query.types == core::Types{{"T", "bf16"}, {"U", "f32"}});
  CHECK(good->query.shape == core::Shape{{"cols", 4096}, {"rows", 64}});
  CHECK(good->query.alignments == core::Alignments{{"x", 16}});
  CHECK(good->query.facts.sm_count == 188);
  CHECK(good->query.require == core::Match::nearest_shape);

  const auto message = [](std::vector<std::pair<std::string, std::string>> query) {
    const auto parsed = parse_resolve(resolve_request(std::move(query)));
    REQUIRE_FALSE(parsed);
    CHECK(parsed.error().code == core::ErrorCode::usage);
    return parsed.error().message;
  };
  const std::pair<std::string, std::string> kernel = {"kernel", "k"};
  const std::pair<std::string, std::string> shape = {"shape", "n:1"};
  CHECK(message({shape}).find("\"kernel\": missing") != std::string::npos);
  CHECK(message({kernel}).find("\"shape\": missing") != std::string::npos);
  CHECK(message({kernel, {"shape", "n"}}).find("NAME:VALUE") != std::string::npos);
  CHECK(message({kernel, {"shape", "n:-1"}}).find("at least 0") != std::string::npos);
  CHECK(message({kernel, {"shape", "n:1,n:2"}}).find("given twice") != std::string::npos);
  CHECK(message({kernel, {"shape", "n:99999999999999999999"}}).find("whole number") !=
        std::string::npos);
  CHECK(message({kernel, shape, {"device", "h100"}}).find("\"device\"") != std::string::npos);
  CHECK(message({kernel, shape, {"devise", "x"}}).find("did you mean \"device\"") !=
        std::string::npos);
}
