// SPDX-License-Identifier: Apache-2.0
#include <unordered_set>

#include <catch2/catch_test_macros.hpp>

#include "core/base/digest.hpp"

using namespace cubinary::core;

namespace {
constexpr std::string_view k_abc =
    "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
}

TEST_CASE("sha256 gives the published test vectors") {
  CHECK(sha256("").hex() == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(sha256("abc").hex() == k_abc);
  CHECK(sha256(std::string(1'000'000, 'a')).hex() ==
        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST_CASE("a hasher may be fed in pieces and used again") {
  Hasher hasher;
  hasher.update("a").update("").update("bc");
  CHECK(hasher.finish().hex() == k_abc);
  CHECK(hasher.update("abc").finish().hex() == k_abc);
  Hasher moved = std::move(hasher);
  CHECK(moved.update("abc").finish().hex() == k_abc);
}

TEST_CASE("fields cannot run together") {
  CHECK(Hasher().field("ab").field("c").finish() != Hasher().field("a").field("bc").finish());
  const std::string spelled("\x02\0\0\0\0\0\0\0ab", 10);
  CHECK(Hasher().field("ab").finish() == sha256(spelled));
}

TEST_CASE("digests are parsed strictly and written as OCI does") {
  const Digest digest = sha256("abc");
  CHECK(digest.text() == "sha256:" + std::string(k_abc));
  CHECK(Digest::parse(digest.text()).value() == digest);
  CHECK(Digest::parse(k_abc).value() == digest);
  CHECK(Digest::from_raw(digest.raw()).value() == digest);

  std::string upper(k_abc);
  upper[0] = 'B';
  for (const std::string& bad :
       {std::string(), std::string("sha256:"), std::string(k_abc.substr(1)), upper,
        "sha512:" + std::string(k_abc), std::string(k_abc) + "0", std::string(64, 'g')}) {
    const auto parsed = Digest::parse(bad);
    REQUIRE_FALSE(parsed);
    CHECK(parsed.error().code == ErrorCode::usage);
    CHECK(parsed.error().message.find("64 lower-case hexadecimal digits") != std::string::npos);
  }
  CHECK_FALSE(Digest::from_raw(as_bytes("short")));
}

TEST_CASE("digests order, hash and know zero") {
  CHECK(Digest().is_zero());
  CHECK_FALSE(sha256("").is_zero());
  CHECK(Digest() < sha256(""));
  const std::unordered_set<Digest> set = {sha256("a"), sha256("b"), sha256("a")};
  CHECK(set.size() == 2);
}
