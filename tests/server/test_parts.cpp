// SPDX-License-Identifier: Apache-2.0
// The small parts: cache, log, metrics, listening addresses, resolve parameters.
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <unistd.h>

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
  const auto keep = [](BlobCache& into, int i, std::size_t size) {
    return into.keep(name(i), "type", core::as_bytes(std::string(size, 'x')));
  };
  CHECK(cache.admits(100));
  CHECK_FALSE(cache.admits(101));
  for (int i = 0; i < 3; ++i) {
    CHECK(keep(cache, i, 100)->media_type() == "type");
  }
  CHECK(cache.find(name(0)) != nullptr);
  CHECK(keep(cache, 3, 100)->bytes() == std::string(100, 'x'));
  CHECK(cache.bytes() == 300);
  CHECK(cache.find(name(1)) == nullptr);
  CHECK(cache.find(name(0)) != nullptr);
  CHECK(cache.find(name(3))->bytes().size() == 100);
  CHECK(keep(cache, 4, 101)->bytes().size() == 101);
  CHECK(cache.find(name(4)) == nullptr);
  CHECK(cache.hits() == 3);
  CHECK(cache.misses() == 2);

  BlobCache off(0, 100);
  CHECK(keep(off, 0, 10)->bytes().size() == 10);
  CHECK(off.find(name(0)) == nullptr);
}

TEST_CASE("What was used past the cache's list is not the first to go") {
  BlobCache cache(300, 100);
  std::vector<std::shared_ptr<const CachedBlob>> blobs;
  for (int i = 0; i < 3; ++i) {
    blobs.push_back(cache.keep(name(i), "type", core::as_bytes(std::string(100, 'x'))));
  }
  blobs[0]->mark_used();
  const auto more = cache.keep(name(3), "type", core::as_bytes(std::string(100, 'x')));
  CHECK_FALSE(blobs[0]->forgotten());
  CHECK(blobs[1]->forgotten());
  CHECK(cache.holds(name(0)));
  CHECK_FALSE(cache.holds(name(1)));

  // Three that slow clients still hold beside three that are kept: nothing more comes in.
  blobs.push_back(cache.keep(name(4), "type", core::as_bytes(std::string(100, 'x'))));
  blobs.push_back(cache.keep(name(5), "type", core::as_bytes(std::string(100, 'x'))));
  blobs.push_back(more);
  CHECK_FALSE(cache.admits(100));
  blobs.clear();
  CHECK(cache.admits(100));
}

TEST_CASE("A large blob lies in a file that nobody can change, and reads the same") {
  BlobCache cache(1U << 20U, 1U << 20U);
  std::string content(100'000, 'a');
  content.back() = 'z';
  const auto blob = cache.keep(name(1), "type", core::as_bytes(content));
  CHECK(blob->bytes() == content);
  REQUIRE(blob->file() >= 0);
  std::string read(content.size(), ' ');
  CHECK(::pread(blob->file(), read.data(), read.size(), 0) == static_cast<ssize_t>(content.size()));
  CHECK(read == content);
  CHECK(::pwrite(blob->file(), "x", 1, 0) < 0);
  CHECK(::ftruncate(blob->file(), 0) < 0);
  CHECK(cache.keep(name(2), "type", core::as_bytes(std::string("small")))->file() < 0);
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
  CHECK(text.find(R"(cubinary_http_request_duration_seconds_sum{route="blob"} 60.0007)") !=
        std::string::npos);
  CHECK(has(R"(cubinary_http_request_duration_seconds_count{route="blob"} 2)"));
  CHECK(has("cubinary_store_bytes 42"));
  CHECK(has("# TYPE cubinary_http_request_duration_seconds histogram"));
  // What each thread counts apart is one sum to a scrape.
  std::thread([&] {
    metrics.count_request(Route::blob, 200, 10, std::chrono::seconds(0));
    metrics.count_hot_hit();
  }).join();
  metrics.count_hot_hit();
  const std::string later = metrics.text({.cache_hits = 5});
  CHECK(later.find("cubinary_http_sent_bytes_total{route=\"blob\"} 160\n") != std::string::npos);
  CHECK(later.find("cubinary_blob_cache_hits_total 7\n") != std::string::npos);
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
