// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <string_view>

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>

#include "core/model/occupancy.hpp"

using namespace cubinary::core;

namespace {

struct Known {
  std::string target;
  BlockResources block;
  std::int64_t blocks = 0;
  std::string_view limit;
};

Target target(std::string_view text) {
  return Target::parse(text).value();
}

}  // namespace

TEST_CASE("occupancy is what NVIDIA's calculator says") {
  // Blocks an SM as cudaOccMaxActiveBlocksPerMultiprocessor of CUDA 13.0 gives them for these.
  const Known known[] = {
      {"sm_100", {176, 115, 114262}, 2, "registers"}, {"sm_89", {441, 22, 33579}, 2, "smem"},
      {"sm_86", {260, 112, 1912}, 1, "registers"},    {"sm_80", {183, 126, 1357}, 2, "registers"},
      {"sm_75", {932, 22, 31}, 1, "threads"},         {"sm_100", {872, 42, 210461}, 1, "registers"},
      {"sm_80", {214, 99, 7898}, 2, "registers"},     {"sm_89", {59, 249, 23311}, 4, "registers"},
      {"sm_100", {152, 38, 107563}, 2, "smem"},       {"sm_90", {256, 19, 74007}, 3, "smem"},
      {"sm_86", {327, 110, 38196}, 1, "registers"},   {"sm_100", {316, 94, 203753}, 1, "smem"},
      {"sm_80", {685, 41, 3504}, 1, "registers"},     {"sm_86", {79, 126, 1449}, 5, "registers"},
      {"sm_100", {888, 50, 202637}, 1, "registers"},  {"sm_120", {216, 112, 97986}, 1, "smem"},
      {"sm_80", {383, 66, 33619}, 2, "registers"},    {"sm_121", {241, 202, 42691}, 1, "registers"},
      {"sm_86", {12, 239, 25110}, 3, "smem"},         {"sm_100", {29, 173, 2703}, 8, "registers"},
      {"sm_89", {467, 17, 85919}, 1, "smem"},         {"sm_86", {645, 41, 866}, 1, "registers"},
  };
  for (const Known& each : known) {
    CAPTURE(each.target, each.block.threads, each.block.registers, each.block.smem);
    const Occupancy found = occupancy(target(each.target), each.block);
    CHECK(found.blocks == each.blocks);
    CHECK(found.limit == each.limit);
  }
}

TEST_CASE("warps are a share of what an SM holds") {
  const Occupancy full = occupancy(target("sm_90"), {.threads = 256, .registers = 32, .smem = 0});
  CHECK(full.blocks == 8);
  CHECK(full.warps == 1);
  const Occupancy third = occupancy(target("sm_120"), {.threads = 512, .registers = 96, .smem = 0});
  CHECK(third.blocks == 1);
  CHECK(third.warps == Catch::Approx(1.0 / 3));
}

TEST_CASE("a block that does not fit is told by what it has too much of") {
  CHECK(occupancy(target("sm_90"), {.threads = 1025, .registers = 16, .smem = 0}).limit ==
        "threads");
  CHECK(occupancy(target("sm_90"), {.threads = 0, .registers = 16, .smem = 0}).blocks == 0);
  const Occupancy registers =
      occupancy(target("sm_90"), {.threads = 1024, .registers = 65, .smem = 0});
  CHECK(registers.blocks == 0);
  CHECK(registers.limit == "registers");
  const Occupancy smem =
      occupancy(target("sm_120"), {.threads = 32, .registers = 16, .smem = 99 * 1024 + 1});
  CHECK(smem.blocks == 0);
  CHECK(smem.limit == "smem");
}
