// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include "builder/expand/specialise.hpp"
#include "builder/inspect/launch_gate.hpp"
#include "builder/inspect/match_entry.hpp"
#include "core/manifest/manifest.hpp"

using namespace cubinary;
using builder::CubinEntry;
using builder::LaunchGate;
using builder::Variant;
using store::CandidateRole;

namespace {

constexpr const char* k_manifest = R"(manifest = 1
name     = "tiles"
source   = "tiles.cu"
entry    = "tiles<{T}, {TILE}>"
types.T  = ["f32", "f16"]
[axes]
n = { tune = [1024], bucket = "log2" }
[tunables]
TILE  = { values = [1, 2], default = 1 }
WARPS = { values = [4, 8, 16], default = 8, as = "launch" }
[rules]
let     = { threads = "32 * WARPS" }
require = ["threads * TILE >= 256"]
[launch]
grid  = ["n"]
block = ["threads", "TILE"]
smem  = "threads * sizeof(T) * 64"
args  = [
  { name = "y", out = "T", len = "n" },
  { name = "scale", scalar = "T", default = 1 },
  { name = "options", bytes = 12 },
  { name = "map", handle = true },
  { name = "rows", scalar = "i32", is = "n" },
]
[check]
reference = { entry = "tiles_ref", grid = [1], block = [128], args = ["y", "rows"] }
tolerance = { f32 = [0, 0], f16 = [0, 0] }
)";

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

core::Manifest manifest_of(const std::string& text) {
  auto manifest = core::parse_manifest(text, "k");
  if (!manifest) {
    FAIL(manifest.error().message);
  }
  return *manifest;
}

CubinEntry entry_of(std::vector<std::int64_t> sizes) {
  CubinEntry entry;
  entry.symbol = "tiles";
  entry.registers = 32;
  entry.max_threads = 1024;
  for (const std::int64_t size : sizes) {
    entry.parameters.push_back({entry.parameter_bytes, size});
    entry.parameter_bytes += size;
  }
  return entry;
}

Variant variant_of(std::int64_t tile, const char* type = "f32") {
  return {CandidateRole::kernel, {{"T", type}}, {}, {{"TILE", tile}}};
}

/// What is wrong; empty: nothing.
std::string judged(const CubinEntry& entry, const Variant& variant,
                   const std::string& text = k_manifest, const char* target = "sm_90") {
  const core::Manifest manifest = manifest_of(text);
  const LaunchGate gate(manifest, *core::Target::parse(target));
  REQUIRE(gate.knows(variant));
  const CubinEntry* const entries[] = {&entry};
  const auto special = builder::specialise(manifest, variant);
  REQUIRE(special.has_value());
  const auto result = gate.judge(variant, entries, special->entries);
  return result ? std::string() : result.error().message;
}

}  // namespace

TEST_CASE("the arguments a manifest passes are the parameters an entry takes") {
  CHECK(judged(entry_of({8, 4, 12, 8, 4}), variant_of(1)).empty());
  CHECK(judged(entry_of({8, 2, 12, 8, 4}), variant_of(1, "f16")).empty());
  CHECK(judged(entry_of({8, 4, 12, 8}), variant_of(1)) ==
        "`tiles<float, 1>` takes 4 parameters, and the manifest passes 5: y, scale, options, map, "
        "rows");
  CHECK(judged(entry_of({8, 4, 12, 8, 8}), variant_of(1)) ==
        "parameter 5 of `tiles<float, 1>` is 8 bytes long, and the manifest passes rows, i32 of 4");
  CHECK(judged(entry_of({8, 4, 16, 8, 4}), variant_of(2, "f32")) ==
        "parameter 3 of `tiles<float, 2>` is 16 bytes long, and the manifest passes options, a "
        "struct of 12");
  CHECK(judged(entry_of({4, 4, 12, 8, 4}), variant_of(1)).ends_with("passes y, a pointer of 8"));
  CHECK(judged(entry_of({8, 4, 12, 8, 4}), variant_of(1, "f16")).ends_with("scale, f16 of 2"));
  CubinEntry silent = entry_of({});
  silent.parameter_bytes = 40;
  CHECK(judged(silent, variant_of(1)).empty());
}

TEST_CASE("some valid config must launch a block the entry can have") {
  CubinEntry entry = entry_of({8, 4, 12, 8, 4});
  entry.launch_bound = entry.max_threads = 256;
  CHECK(judged(entry, variant_of(1)).empty());  // with WARPS=8
  CHECK(judged(entry, variant_of(2)).empty());  // with WARPS=4
  entry.launch_bound = entry.max_threads = 128;
  CHECK(judged(entry, variant_of(1)) ==
        "`tiles<float, 1>` can have at most 128 threads a block (its __launch_bounds__), and the "
        "manifest's block has 256 with WARPS=8, the nearest valid config");
  entry.launch_bound = 512;
  entry.registers = 255;
  CHECK(judged(entry, variant_of(2)).find("(its 255 registers a thread)") != std::string::npos);
  // What the shape decides is the launch's to judge; what it does not is judged without it.
  const std::string by_shape =
      replaced(k_manifest, "block = [\"threads\"", "block = [\"min(n, 64)\"");
  CHECK(judged(entry, variant_of(2), by_shape).empty());
  entry.max_threads = 1;
  CHECK(judged(entry, variant_of(2), by_shape).find("the manifest's block has 2") !=
        std::string::npos);
}

TEST_CASE("blocks and clusters an entry was compiled for alone") {
  CubinEntry entry = entry_of({8, 4, 12, 8, 4});
  entry.required_block = {256, 1, 1};
  entry.max_threads = 256;
  CHECK(judged(entry, variant_of(1)).empty());
  CHECK(judged(entry, variant_of(2))
            .find("blocks of 256x1x1 alone (__block_size__), and the "
                  "manifest's block is ") != std::string::npos);
  entry.required_block = {};
  entry.required_cluster = {2, 1, 1};
  CHECK(judged(entry, variant_of(1))
            .find("clusters of 2x1x1 alone (__cluster_dims__), and the "
                  "manifest's launch names none") != std::string::npos);
  const auto with_cluster = [](const char* cluster) {
    return replaced(k_manifest, "smem  =", std::string("cluster = ") + cluster + "\nsmem =");
  };
  CHECK(judged(entry, variant_of(1), with_cluster("[2]")).empty());
  CHECK(judged(entry, variant_of(1), with_cluster("[\"WARPS / 4\"]")).empty());
  CHECK(judged(entry, variant_of(1), with_cluster("[4]")).find("names others") !=
        std::string::npos);
}

TEST_CASE("static and dynamic shared memory fit the target together") {
  CubinEntry entry = entry_of({8, 4, 12, 8, 4});
  entry.static_smem = 40'000;
  CHECK(judged(entry, variant_of(1)).empty());
  // 256 threads take 64 KiB; sm_120 has 99.
  CHECK(judged(entry, variant_of(1), k_manifest, "sm_120") ==
        "`tiles<float, 1>` has 40000 bytes of static shared memory and the manifest's launch asks "
        "for 65536 more; a block can have 101376 on sm_120 with WARPS=8, the nearest valid config");
  CHECK(judged(entry, variant_of(2), k_manifest, "sm_120").empty());
  CHECK(judged(entry, variant_of(1, "f16"), k_manifest, "sm_120").find("scale, f16") !=
        std::string::npos);
}

TEST_CASE("helpers are launched as their own part of the manifest says") {
  const core::Manifest manifest = manifest_of(k_manifest);
  const LaunchGate gate(manifest, *core::Target::parse("sm_90"));
  const Variant reference{CandidateRole::reference, {{"T", "f32"}}, {}, {}};
  CubinEntry entry = entry_of({8, 4});
  const CubinEntry* const entries[] = {&entry};
  const std::string names[] = {"tiles_ref"};
  CHECK(gate.judge(reference, entries, names).has_value());
  entry.max_threads = entry.launch_bound = 64;
  CHECK(gate.judge(reference, entries, names).error().message ==
        "`tiles_ref` can have at most 64 threads a block (its __launch_bounds__), and the "
        "manifest's block has 128");
  CHECK_FALSE(gate.knows({CandidateRole::prepare, {{"T", "f32"}}, {}, {}}));
  CHECK_FALSE(gate.knows({CandidateRole::kernel, {{"T", "f64"}}, {}, {{"TILE", std::int64_t{1}}}}));
  CHECK_FALSE(gate.knows({CandidateRole::kernel, {{"T", "f32"}}, {}, {{"TILE", std::int64_t{3}}}}));
  CHECK_FALSE(gate.knows({CandidateRole::kernel, {}, {}, {{"TILE", std::int64_t{1}}}}));
}

TEST_CASE("every entry that is missing or does nothing is named") {
  builder::CubinInfo info;
  info.target = "sm_90";
  for (const char* symbol : {"_Z1aIiEvPi", "b", "c"}) {
    info.entries.push_back({});
    info.entries.back().symbol = symbol;
  }
  const std::vector<std::string> names{"a<int>", "first", "b", "last<3>"};
  CHECK(builder::find_entries(info, names, {}).error().message ==
        "the cubin has no entry for `first`, `last<3>`; it has _Z1aIiEvPi, b, c");
  const std::vector<std::string> told{"", "c", "b", "gone"};
  CHECK(builder::find_entries(info, names, told).error().message ==
        "the cubin has no entry for `last<3>`; it has _Z1aIiEvPi, b, c");
  const std::vector<std::string> there{"b", "a<int>", "b"};
  const auto found = builder::find_entries(info, there, {});
  REQUIRE(found.has_value());
  CHECK(found->entries ==
        std::vector<const CubinEntry*>{&info.entries[1], &info.entries[0], &info.entries[1]});
  CHECK(found->extra == std::vector<std::string>{"c"});
  info.entries[0].hollow = info.entries[1].hollow = true;
  CHECK(builder::find_entries(info, there, {})
            .error()
            .message.starts_with("`b`, `a<int>`, `b` do nothing when compiled for sm_90"));
  info.entries.clear();
  CHECK(builder::find_entries(info, there, {})
            .error()
            .message.starts_with("the cubin has no entry at all"));
}
