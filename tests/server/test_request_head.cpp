// SPDX-License-Identifier: Apache-2.0
#include <string>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "server/request_head.hpp"

using namespace cubinary::server;

namespace {

std::string with_fields(const std::string& fields, const std::string& target = "/v2/") {
  return "GET " + target + " HTTP/1.1\r\nHost: localhost\r\n" + fields + "\r\n";
}

int status_of(const std::string& head) {
  const auto parsed = parse_head(head, HeadLimits{});
  return parsed ? 200 : parsed.error().status;
}

}  // namespace

TEST_CASE("A head is found whole, however it is split") {
  const std::string head = with_fields("A: b\r\n");
  for (std::size_t cut = 0; cut < head.size(); ++cut) {
    const HeadScan first = scan_head(head.substr(0, cut), 0, HeadLimits{});
    CHECK(first.state == HeadScan::State::partial);
    const HeadScan second = scan_head(head + "rest", cut, HeadLimits{});
    REQUIRE(second.state == HeadScan::State::complete);
    CHECK(second.size == head.size());
  }
}

TEST_CASE("A head that outgrows its bounds is refused while it arrives") {
  const HeadLimits limits;
  const HeadScan target = scan_head("GET /" + std::string(9000, 'a'), 0, limits);
  REQUIRE(target.state == HeadScan::State::refused);
  CHECK(target.refusal.status == 414);

  std::string fields;
  while (fields.size() < 40'000) {
    fields += "X-Field: value\r\n";
  }
  const std::string head = "GET / HTTP/1.1\r\n" + fields;
  const HeadScan many = scan_head(head, 0, limits);
  REQUIRE(many.state == HeadScan::State::refused);
  CHECK(many.refusal.status == 431);
  CHECK(scan_head(head + "\r\n", 0, limits).state == HeadScan::State::refused);

  const HeadScan bare = scan_head("GET / HTTP/1.1\nHost: a\n\n", 0, limits);
  REQUIRE(bare.state == HeadScan::State::refused);
  CHECK(bare.refusal.status == 400);
}

TEST_CASE("The fields handlers use are taken over") {
  const auto head = parse_head(
      "HEAD /v2/cubinary/blobs/sha256:ab?x=1 HTTP/1.1\r\nhOsT:\t build:8421 \r\n"
      "Authorization: Bearer abc\r\nRANGE: bytes=1-2\r\nIf-None-Match: \"a\"\r\n"
      "If-None-Match: \"b\"\r\nIf-Range: \"a\"\r\nContent-Length: 0\r\n"
      "Connection: keep-alive, Close\r\n\r\n",
      HeadLimits{});
  REQUIRE(head);
  CHECK(head->method == "HEAD");
  CHECK(head->target == "/v2/cubinary/blobs/sha256:ab?x=1");
  CHECK(head->host == "build:8421");
  CHECK(head->authorization == "Bearer abc");
  CHECK(head->range == "bytes=1-2");
  CHECK(head->if_none_match == "\"a\", \"b\"");
  CHECK(head->if_range == "\"a\"");
  CHECK(head->close);

  const auto kept = parse_head(with_fields(""), HeadLimits{});
  REQUIRE(kept);
  CHECK_FALSE(kept->close);
  const auto old = parse_head("GET / HTTP/1.0\r\n\r\n", HeadLimits{});
  REQUIRE(old);
  CHECK(old->close);
}

TEST_CASE("What could mean two things to two parsers is refused") {
  CHECK(status_of(with_fields("")) == 200);
  CHECK(status_of(with_fields("Content-Length: 0\r\nContent-Length: 0\r\n")) == 400);
  CHECK(parse_head(with_fields("Content-Length: 5\r\n"), HeadLimits{})->body_bytes == 5);
  CHECK(status_of(with_fields("Content-Length: 99999999999999999999\r\n")) == 413);
  CHECK(parse_head(with_fields("Expect: 100-Continue\r\n"), HeadLimits{})->expects_continue);
  CHECK_FALSE(
      parse_head(with_fields("Expect: the unexpected\r\n"), HeadLimits{})->expects_continue);
  CHECK(status_of(with_fields("Content-Length: +0\r\n")) == 400);
  CHECK(status_of(with_fields("Content-Length: \r\n")) == 400);
  CHECK(status_of(with_fields("Transfer-Encoding: chunked\r\n")) == 411);
  CHECK(status_of(with_fields("Transfer-Encoding: \r\n")) == 411);
  CHECK(status_of(with_fields("Transfer-Encoding: chunked\r\nContent-Length: 0\r\n")) == 400);
  CHECK(status_of(with_fields("Host: other\r\n")) == 400);
  CHECK(status_of(with_fields("Range: bytes=0-1\r\nRange: bytes=2-3\r\n")) == 400);
  CHECK(status_of(with_fields("X : y\r\n")) == 400);
  CHECK(status_of(with_fields("X\r\n")) == 400);
  CHECK(status_of(with_fields(" folded\r\n")) == 400);
  CHECK(status_of(with_fields(": nameless\r\n")) == 400);
  CHECK(status_of(with_fields(std::string("X: a\0b\r\n", 8))) == 400);
  CHECK(status_of(with_fields("X: a\rb\r\n")) == 400);
  CHECK(status_of("GET / HTTP/1.1\r\n\r\n") == 400);
  CHECK(status_of("GET / HTTP/2.0\r\n\r\n") == 505);
  CHECK(status_of("GET /\r\n\r\n") == 400);
  CHECK(status_of("GET  / HTTP/1.1\r\n\r\n") == 400);
  CHECK(status_of("G(T / HTTP/1.1\r\n\r\n") == 400);
  CHECK(status_of("\r\n") == 400);

  std::string many;
  for (int i = 0; i < 101; ++i) {
    many += "X: y\r\n";
  }
  CHECK(status_of(with_fields(many)) == 431);
}

TEST_CASE("A target holds no control character and no hidden slash") {
  CHECK(status_of(with_fields("", "/v2/a/blobs/sha256%3Aab?last=a%20b")) == 200);
  const std::string bad =
      GENERATE("http://host/", "*", "/a%0d%0aX", "/?q=%0D%0A", "/%00", "/a%2fb", "/a%2F..%2Fb",
               "/a%5cb", "/%", "/%4", "/%zz", "/a#b", "/\x7f", "/\xc3\xa4");
  CAPTURE(bad);
  CHECK(status_of(with_fields("", bad)) == 400);
}
