// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <catch2/catch_test_macros.hpp>

#include "server/http.hpp"
#include "server/range.hpp"

using namespace cubinary;
using namespace cubinary::server;

namespace {

using Kind = RangeRequest::Kind;

std::string header(const Response& response, std::string_view name) {
  for (const auto& [key, value] : response.headers) {
    if (key == name) {
      return value;
    }
  }
  return "";
}

Response ten_bytes() {
  Response response;
  response.set_body("0123456789", "text/plain");
  response.etag = "\"e\"";
  return response;
}

Request get() {
  Request request;
  request.method = "GET";
  return request;
}

}  // namespace

TEST_CASE("One range is understood, several are not, nonsense is ignored") {
  const auto part = [](std::string_view text, std::uint64_t offset, std::uint64_t length) {
    const RangeRequest range = parse_range(text, 10);
    return range.kind == Kind::part && range.offset == offset && range.length == length;
  };
  CHECK(part("bytes=0-0", 0, 1));
  CHECK(part("bytes=2-5", 2, 4));
  CHECK(part("bytes=2-", 2, 8));
  CHECK(part("bytes=-3", 7, 3));
  CHECK(part("bytes=-30", 0, 10));
  CHECK(part("bytes=9-99", 9, 1));
  CHECK(part("bytes=0-99999999999999999999999", 0, 10));
  CHECK(part("bytes= 0-1 ", 0, 2));

  for (const char* text :
       {"bytes=10-", "bytes=10-11", "bytes=-0", "bytes=0-1,3-4", "bytes=99999999999999999999-"}) {
    CAPTURE(text);
    CHECK(parse_range(text, 10).kind == Kind::unsatisfiable);
  }
  for (const char* text : {"", "items=0-1", "bytes=", "bytes=-", "bytes=5-2", "bytes=a-b",
                           "bytes=+1-2", "bytes=1--2", "bytes 0-1", "bytes=0x1-2"}) {
    CAPTURE(text);
    CHECK(parse_range(text, 10).kind == Kind::whole);
  }
  CHECK(parse_range("bytes=0-", 0).kind == Kind::unsatisfiable);
}

TEST_CASE("If-None-Match answers 304 without a body") {
  Request request = get();
  for (const char* list : {"\"e\"", "*", "W/\"e\"", "\"a\", \"e\"", "\"a\",W/\"e\" "}) {
    request.if_none_match = list;
    const Response response = apply_conditions(request, ten_bytes());
    CAPTURE(list);
    CHECK(response.status == 304);
    CHECK(response.body.empty());
    CHECK(header(response, "ETag") == "\"e\"");
  }
  request.if_none_match = "\"other\", e";
  CHECK(apply_conditions(request, ten_bytes()).status == 200);
}

TEST_CASE("A range is cut out of a body held or produced") {
  Request request = get();
  request.range = "bytes=2-4";
  Response held = apply_conditions(request, ten_bytes());
  CHECK(held.status == 206);
  CHECK(held.body == "234");
  CHECK(held.length == 3);
  CHECK(header(held, "Content-Range") == "bytes 2-4/10");

  Response produced = ten_bytes();
  produced.body.clear();
  produced.reader = [](std::uint64_t offset, std::uint64_t length, const BodySink& sink) {
    const std::string_view all = "0123456789";
    CHECK(sink(core::as_bytes(all.substr(offset, length))));
    return core::Result<void>();
  };
  produced = apply_conditions(request, std::move(produced));
  std::string got;
  REQUIRE(produced.reader(1, 2, [&](core::ByteView piece) {
    got += core::as_text(piece);
    return true;
  }));
  CHECK(got == "34");

  request.range = "bytes=10-";
  const Response beyond = apply_conditions(request, ten_bytes());
  CHECK(beyond.status == 416);
  CHECK(header(beyond, "Content-Range") == "bytes */10");

  request.range = "bytes=2-4";
  request.if_range = "\"older\"";
  CHECK(apply_conditions(request, ten_bytes()).status == 200);
  request.if_range = "\"e\"";
  CHECK(apply_conditions(request, ten_bytes()).status == 206);
  request.method = "HEAD";
  CHECK(apply_conditions(request, ten_bytes()).status == 200);
}

TEST_CASE("Errors have the registry's form, whatever bytes they quote") {
  CHECK(error_response(404, "BLOB_UNKNOWN", "no \"x\"").body ==
        R"({"errors":[{"code":"BLOB_UNKNOWN","message":"no \"x\""}]})");
  CHECK(error_response(400, "X", "\xff").body.find("\xff") == std::string::npos);
  const Response mapped = error_response(core::Error{core::ErrorCode::no_match, "nothing fits"});
  CHECK(mapped.status == core::error_info(core::ErrorCode::no_match).http_status);
  CHECK(mapped.body == R"({"errors":[{"code":"no_match","message":"nothing fits"}]})");
}

TEST_CASE("A query parameter given twice is refused") {
  Request request;
  request.query = {{"n", "1"}, {"last", "a"}, {"n", "2"}};
  CHECK_FALSE(query_value(request, "n"));
  REQUIRE(query_value(request, "last"));
  CHECK(**query_value(request, "last") == "a");
  CHECK(*query_value(request, "none") == nullptr);
}
