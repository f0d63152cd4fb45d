// SPDX-License-Identifier: Apache-2.0
#include <random>

#include <catch2/catch_test_macros.hpp>

#include "core/base/base64.hpp"

using namespace cubinary::core;

TEST_CASE("base64 gives the published test vectors") {
  const std::pair<std::string_view, std::string_view> vectors[] = {{"", ""},
                                                                   {"f", "Zg=="},
                                                                   {"fo", "Zm8="},
                                                                   {"foo", "Zm9v"},
                                                                   {"foob", "Zm9vYg=="},
                                                                   {"fooba", "Zm9vYmE="},
                                                                   {"foobar", "Zm9vYmFy"}};
  for (const auto& [raw, text] : vectors) {
    CHECK(base64_encode(as_bytes(raw)) == text);
    CHECK(to_text(base64_decode(text).value()) == raw);
  }
}

TEST_CASE("both alphabets are read, not a mixture") {
  const std::string raw = "\xfb\xff\xbe\xfb\xff\xbf";
  CHECK(base64_encode(as_bytes(raw)) == "+/+++/+/");
  CHECK(to_text(base64_decode("+/+++/+/").value()) == raw);
  CHECK(to_text(base64_decode("-_---_-_").value()) == raw);
  CHECK_FALSE(base64_decode("+/--"));
}

TEST_CASE("one value has one text") {
  for (const std::string_view bad : {"Zg", "Zg=", "Zh==", "Zm9=", "=", "====", "Zg==Zg==", "Zm 9",
                                     "Zm9v\n", "Zm9*", "Z===", "Zm9v===="}) {
    INFO(bad);
    const auto decoded = base64_decode(bad);
    REQUIRE_FALSE(decoded);
    CHECK(decoded.error().code == ErrorCode::corrupt);
  }
}

TEST_CASE("random bytes come back") {
  std::mt19937 random(1);
  for (std::size_t size = 0; size < 100; ++size) {
    Bytes bytes(size);
    for (std::byte& byte : bytes) {
      byte = static_cast<std::byte>(random());
    }
    CHECK(base64_decode(base64_encode(bytes)).value() == bytes);
  }
}
