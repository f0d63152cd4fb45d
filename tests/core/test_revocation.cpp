// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch_test_macros.hpp>

#include "core/wire/revocation.hpp"

using namespace cubinary;
using core::RevocationList;

namespace {

RevocationList sample() {
  return {7,
          1'764'500'000,
          {{core::sha256("b"), "wrong for odd sizes", 1'764'400'000},
           {core::sha256("a"), "", 1'764'300'000}}};
}

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  const auto at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

}  // namespace

TEST_CASE("a revocation list is read back as it was written, sorted by digest") {
  const std::string text = core::revocations_to_json(sample());
  const auto list = core::revocations_from_json(text);
  REQUIRE(list);
  CHECK(list->serial == 7);
  CHECK(list->created == 1'764'500'000);
  REQUIRE(list->revoked.size() == 2);
  CHECK(list->revoked[0].digest < list->revoked[1].digest);
  const auto& with_reason =
      list->revoked[0].digest == core::sha256("b") ? list->revoked[0] : list->revoked[1];
  CHECK(with_reason.digest == core::sha256("b"));
  CHECK(with_reason.reason == "wrong for odd sizes");
  CHECK(with_reason.at == 1'764'400'000);
  CHECK(core::revocations_to_json(*list) == text);
}

TEST_CASE("a revocation list is nothing else, and says everything") {
  const std::string text = core::revocations_to_json(sample());
  const std::string digest = core::sha256("a").text();
  for (const std::string& bad : {
           replaced(text, "revocations/v1", "release/v1"),
           replaced(text, "Statement/v1", "Statement/v2"),
           replaced(text, "\"serial\":7", "\"serial\":0"),
           replaced(text, "\"serial\":7", "\"serial\":\"7\""),
           replaced(text, "\"serial\":7", "\"other\":7"),
           replaced(text, "\"created\":1764500000", "\"created\":-1"),
           replaced(text, "\"digest\":\"" + digest, "\"digest\":\"" + digest.substr(7)),
           replaced(text, "\"digest\":\"" + digest,
                    "\"digest\":\"" + core::sha256("b").text()),  // twice
           replaced(text, "\"revoked\":[", "\"revoke\":["),
           text + " x",
           std::string("[]"),
       }) {
    CAPTURE(bad);
    CHECK_FALSE(core::revocations_from_json(bad));
  }
}
