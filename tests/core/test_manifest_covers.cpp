// SPDX-License-Identifier: Apache-2.0
#include <string>

#include <catch2/catch_test_macros.hpp>

#include "core/manifest/manifest.hpp"
#include "tests/core/manifest_fixture.hpp"

using namespace cubinary::core;

namespace {

std::string uncovered(std::string_view manifest, std::string_view from, std::string_view to) {
  const auto parsed = parse_manifest(replaced(manifest, from, to), "k");
  if (!parsed) {
    FAIL(parsed.error().message);
  }
  const auto covered = check_default_covers(*parsed);
  return covered ? "" : covered.error().message;
}

}  // namespace

TEST_CASE("a default that serves everything covers") {
  CHECK(uncovered(k_manifest, "name = \"rmsnorm\"", "name = \"rmsnorm\"").empty());
  CHECK(uncovered(k_steps_manifest, "name = \"row_sum\"", "name = \"row_sum\"").empty());
}

TEST_CASE("shapes that a kernel is not for need no config") {
  CHECK_FALSE(uncovered(k_manifest, "\"threads <= 1024\"", "\"rows % 64 == 0\"").empty());
  const auto with_shapes = [](const char* condition) {
    return uncovered(
        k_manifest, "require =",
        (std::string("shapes = [\"") + condition + "\"]\nrequire = [\"rows % 64 == 0\"] #")
            .c_str());
  };
  CHECK(with_shapes("rows % 64 == 0").empty());
  CHECK(with_shapes("rows % 128 == 0").empty());
  CHECK(with_shapes("rows < 1").empty());
  CHECK(with_shapes("rows % 2 == 0").find("rows=") != std::string::npos);
  // It is a rule as others are: a launch refuses what it excludes.
  const auto manifest = parse_manifest(
      "manifest = 1\nname = \"k\"\nsource = \"k.cu\"\nentry = \"k\"\n[axes]\nn = { tune = [64] }\n"
      "[rules]\nlet = { half = \"n / 2\" }\nrequire = [\"n > 0\"]\nshapes = [\"half % 32 == 0\"]\n"
      "[launch]\ngrid = [1]\nblock = [1]\nargs = [{ name = \"y\", out = \"f32\", len = \"n\" }]\n",
      "k");
  REQUIRE(manifest.has_value());
  CHECK(manifest->shape_rules == 1);
  REQUIRE(manifest->rules.size() == 2);
  CHECK(manifest->rules[0].expression.text() == "half % 32 == 0");
}

TEST_CASE("a vector that no tunable decides is the pointer's element") {
  const auto with_vector = [](const std::string& vector, const std::string& tunables) {
    const auto manifest = parse_manifest(
        "manifest = 1\nname = \"k\"\nsource = \"k.cu\"\nentry = \"k\"\ntypes.T = { values = "
        "[\"f32\", "
        "\"f16\"], macro = \"T\" }\n[axes]\nn = { tune = [64] }\n" +
            tunables +
            "[rules]\nlet = { wide = \"16 / sizeof(T)\" }\n[launch]\ngrid = [1]\nblock = [1]\nargs "
            "= [{ "
            "name = \"y\", out = \"T\", len = \"n\", vector = \"" +
            vector + "\" }]\n",
        "k");
    REQUIRE(manifest.has_value());
    const auto covered = check_default_covers(*manifest);
    return covered ? std::string() : covered.error().message;
  };
  CHECK(with_vector("4", "").empty());
  CHECK(with_vector("wide", "").empty());
  CHECK(with_vector("V", "[tunables]\nV = { values = [2, 4], default = 2 , as = \"define\" }\n")
            .find("their elements only") != std::string::npos);
}

TEST_CASE("what no config serves is named with its shape, types, target and rule") {
  CHECK(uncovered(k_manifest, "\"threads <= 1024\"", "\"rows != 7\"") ==
        "k:21:12: neither a preferred nor the default config is valid for head_dim=64 rows=7 with "
        "T=f32 on sm_90, pointers aligned to their elements only: \"rows != 7\": the rule does not "
        "hold (shapes it is not for are excluded by `shapes` in [rules])");
  // The preferred ones need more alignment than an element's.
  CHECK(uncovered(k_manifest, "\"head_dim % VEC == 0\"", "\"VEC > 1\"")
            .find("\"VEC > 1\": the rule does not hold") != std::string::npos);
  CHECK(uncovered(k_manifest, "\"threads <= 1024\"", "\"align(x) < 256\"")
            .find("pointers aligned to 256 bytes") != std::string::npos);
  CHECK(uncovered(k_manifest, "\"threads <= 1024\"", "\"target.cc == 90\"").find("on sm_120") !=
        std::string::npos);
  CHECK(uncovered(k_manifest, "\"threads <= 1024\"", "\"sizeof(T) == 4\"").find("with T=f16") !=
        std::string::npos);
  CHECK(uncovered(k_manifest, "\"threads <= 1024\"", "\"rows < 1000000\"").find("rows=1000003") !=
        std::string::npos);
}

TEST_CASE("a preferred config may serve what the default does not") {
  CHECK(uncovered(k_manifest, "\"threads <= 1024\"", "\"rows != 7 || WARPS == 8 || VEC == 2\"")
            .find("rows=7") != std::string::npos);  // those need alignment
  CHECK(uncovered(k_manifest, "prefer = [{ VEC = 4, WARPS = 8 }, { VEC = 2 }]",
                  "prefer = [{ WARPS = 8 }]")
            .empty());
  const std::string text = replaced(k_manifest, "prefer = [{ VEC = 4, WARPS = 8 }, { VEC = 2 }]",
                                    "prefer = [{ WARPS = 8 }]");
  CHECK(uncovered(text, "\"threads <= 1024\"", "\"rows != 7 || WARPS == 8\"").empty());
}

TEST_CASE("launches beyond the machine's limits do not cover") {
  CHECK(uncovered(k_manifest, "block = [\"threads\"]", "block = [\"threads\", \"rows\"]")
            .find("block") == std::string::npos);
  CHECK(uncovered(k_manifest, "block = [\"threads\"]", "block = [2048]")
            .find("the dimension is 2048, outside 1 to 1024") != std::string::npos);
  CHECK(uncovered(k_manifest, "block = [\"threads\"]", "block = [64, 32]")
            .find("2048 threads a block") != std::string::npos);
  CHECK(
      uncovered(k_manifest, "smem = \"smem\"", "smem = \"rows\"").find("bytes of shared memory") !=
      std::string::npos);
  CHECK(uncovered(k_manifest, "grid = [\"ceil_div(rows, 2)\"]", "grid = [1, \"rows\"]")
            .find("outside 0 to 65535") != std::string::npos);
  CHECK(uncovered(k_manifest, "grid = [\"ceil_div(rows, 2)\"]", "grid = [\"rows / (rows - 3)\"]")
            .find("divides by zero") != std::string::npos);
}

TEST_CASE("shapes that cannot be passed at all need no config") {
  // u8 ends at 255: larger shapes are refused by the scalar, not by a missing config.
  const std::string narrow =
      replaced(k_manifest, "scalar = \"i32\", is = \"rows\"", "scalar = \"u8\", is = \"rows\"");
  CHECK(uncovered(narrow, "\"threads <= 1024\"", "\"rows <= 255\"").empty());
  CHECK_FALSE(uncovered(narrow, "\"threads <= 1024\"", "\"rows <= 100\"").empty());
}
