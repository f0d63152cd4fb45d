// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include <catch2/catch_test_macros.hpp>

#include "builder/inspect/elf.hpp"
#include "builder/inspect/inspect.hpp"
#include "core/base/file.hpp"

using namespace cubinary;
using builder::CubinInfo;

namespace {

core::Bytes golden(const std::string& name) {
  auto bytes = core::read_file(std::string(CUBINARY_GOLDEN "/") + name, 1U << 20U);
  REQUIRE(bytes.has_value());
  return *bytes;
}

core::Target target(const char* name) {
  return *core::Target::parse(name);
}

core::ErrorCode refusal(core::ByteView bytes) {
  const auto info = builder::inspect_cubin(bytes);
  REQUIRE_FALSE(info.has_value());
  REQUIRE_FALSE(info.error().message.empty());
  return info.error().code;
}

/// Overwrites a little-endian integer.
template <typename T>
void poke(core::Bytes& bytes, std::size_t offset, T value) {
  std::memcpy(bytes.data() + offset, &value, sizeof value);
}

constexpr const char* k_scale = "_Z5scaleIfLi4EEvPT_PKS0_if";

}  // namespace

// The expected numbers are those the vendor's cuobjdump -res-usage prints for these files; its
// shared memory counts the 1024 bytes the driver keeps for itself on 9.0 and later.
TEST_CASE("a cubin tells its target and what each entry needs") {
  const CubinInfo info = *builder::inspect_cubin(golden("cuda13-sm_90.cubin"));
  CHECK(info.target == "sm_90");
  CHECK(info.compiler ==
        "Cuda compilation tools, release 13.0, V13.0.88; Build system must define "
        "TOOLS_VERSION_EXTENDED");
  REQUIRE(info.entries.size() == 3);
  const builder::CubinEntry& scale = info.entries[0];
  CHECK(scale.symbol == k_scale);
  CHECK(scale.registers == 14);
  CHECK(scale.static_smem == 0);
  CHECK(scale.max_threads == 1024);
  CHECK(scale.stack_bytes == 0);
  CHECK(scale.constant_bytes == 552);
  CHECK(scale.parameter_bytes == 24);
  REQUIRE(scale.parameters.size() == 4);
  CHECK(scale.parameters[1].offset == 8);
  CHECK(scale.parameters[1].size == 8);
  CHECK(scale.parameters[3].offset == 20);
  CHECK(scale.parameters[3].size == 4);
  CHECK(scale.launch_bound == 1024);
  CHECK(scale.required_block[0] == 0);
  const builder::CubinEntry& shared = info.entries[1];
  CHECK(shared.symbol == "shared");
  CHECK(shared.registers == 10);
  CHECK(shared.static_smem == 512);
  CHECK(shared.max_threads == 1024);
  const builder::CubinEntry& spilled = info.entries[2];
  CHECK(spilled.registers == 64);
  CHECK(spilled.stack_bytes == 328);
  CHECK(info.find("spilled") == &info.entries[2]);
  CHECK(info.find("nothing") == nullptr);
}

TEST_CASE("both ABI versions tell the suffix") {
  CHECK(builder::inspect_cubin(golden("cuda12-sm_90a.cubin"))->target == "sm_90a");
  CHECK(builder::inspect_cubin(golden("cuda12-sm_120a.cubin"))->target == "sm_120a");
  CHECK(builder::inspect_cubin(golden("cuda13-sm_120a.cubin"))->target == "sm_120a");
  CHECK(builder::inspect_cubin(golden("cuda13-sm_120f.cubin"))->target == "sm_120f");
  const CubinInfo twelve = *builder::inspect_cubin(golden("cuda12-sm_90a.cubin"));
  CHECK(twelve.compiler.empty());
  CHECK(twelve.find("spilled")->registers == 64);
  CHECK(twelve.find("spilled")->stack_bytes == 328);
  CHECK(twelve.find("shared")->static_smem == 512);
}

TEST_CASE("a cubin for another target is refused") {
  const core::Bytes cubin = golden("cuda13-sm_120a.cubin");
  CHECK(builder::inspect_cubin(cubin, target("sm_120a")).has_value());
  for (const char* other : {"sm_120", "sm_120f", "sm_90"}) {
    const auto info = builder::inspect_cubin(cubin, target(other));
    REQUIRE_FALSE(info.has_value());
    CHECK(info.error().code == core::ErrorCode::bad_cubin);
    CHECK(info.error().message == "the cubin is for sm_120a, not for " + std::string(other));
  }
}

TEST_CASE("every truncation of a cubin is refused") {
  const core::Bytes cubin = golden("cuda13-sm_90.cubin");
  for (std::size_t size = 0; size < cubin.size(); size += size < 256 ? 1 : 97) {
    INFO(size);
    const auto info = builder::inspect_cubin(core::ByteView(cubin).first(size));
    // What lies behind the last section header is of no use to us.
    if (info) {
      CHECK(size > cubin.size() - 1024);
    } else {
      CHECK(info.error().code == core::ErrorCode::bad_cubin);
    }
  }
}

TEST_CASE("what is no executable cubin is refused by what it is") {
  CHECK(refusal({}) == core::ErrorCode::bad_cubin);
  CHECK(refusal(core::as_bytes(std::string(100, 'x'))) == core::ErrorCode::bad_cubin);
  core::Bytes cubin = golden("cuda13-sm_90.cubin");
  core::Bytes relocatable = cubin;
  poke<std::uint16_t>(relocatable, 16, 1);
  const auto unlinked = builder::inspect_cubin(relocatable);
  REQUIRE_FALSE(unlinked.has_value());
  CHECK(unlinked.error().message.find("not linked") != std::string::npos);
  core::Bytes host = cubin;
  poke<std::uint16_t>(host, 18, 62);
  CHECK(builder::inspect_cubin(host).error().message.find("machine 62") != std::string::npos);
  core::Bytes future = cubin;
  future[8] = std::byte{9};
  CHECK(builder::inspect_cubin(future).error().message.find("ABI version 9") != std::string::npos);
}

TEST_CASE("an undefined symbol nothing provides is refused by name") {
  core::Bytes cubin = golden("cuda13-sm_90.cubin");
  const builder::ElfFile file = *builder::parse_elf(cubin);
  const std::string_view name = ".nv.reservedSmem.offset0";
  const std::size_t at = core::as_text(cubin).find(name);
  REQUIRE(at != std::string_view::npos);
  cubin[at] = std::byte{'x'};
  const auto info = builder::inspect_cubin(cubin);
  REQUIRE_FALSE(info.has_value());
  CHECK(info.error().message.find("`xnv.reservedSmem.offset0`") != std::string::npos);
}

TEST_CASE("damaged headers never read outside the bytes") {
  const core::Bytes cubin = golden("cuda13-sm_90.cubin");
  std::uint64_t random = 88172645463325252ULL;
  for (int round = 0; round < 2000; ++round) {
    core::Bytes damaged = cubin;
    for (int flips = 0; flips < 4; ++flips) {
      random ^= random << 13U;
      random ^= random >> 7U;
      random ^= random << 17U;
      damaged[random % damaged.size()] ^= static_cast<std::byte>(1U << (random >> 60U) % 8);
    }
    if (const auto info = builder::inspect_cubin(damaged); !info) {
      CHECK(info.error().code == core::ErrorCode::bad_cubin);
    }
  }
}

TEST_CASE("spills come from the assembler's log") {
  const core::Bytes log = golden("cuda13-sm_90.log");
  const auto spills = builder::spills_from_log(core::as_text(log));
  CHECK(spills.size() == 3);
  CHECK(spills.at("spilled") == 376 + 416);
  CHECK(spills.at(k_scale) == 0);
  CHECK(builder::spills_from_log("").empty());
  CHECK(builder::spills_from_log("8 bytes spill stores, 8 bytes spill loads\n").empty());
}
