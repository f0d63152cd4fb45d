// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "builder/triton/host_module.hpp"
#include "builder/triton/key.hpp"
#include "core/base/file.hpp"

using namespace cubinary;
using builder::HostModuleInfo;
using Catch::Matchers::ContainsSubstring;

namespace {

template <typename T>
void put(core::Bytes& bytes, std::size_t offset, T value) {
  if (bytes.size() < offset + sizeof value) {
    bytes.resize(offset + sizeof value);
  }
  for (std::size_t i = 0; i < sizeof value; ++i) {
    bytes[offset + i] =
        static_cast<std::byte>((static_cast<std::uint64_t>(value) >> (8 * i)) & 255);
  }
}

struct Section {
  std::uint32_t type = 0;
  std::uint32_t link = 0;
  core::Bytes content;
};

/// A shared object that holds just what is looked at; section names are all empty.
core::Bytes make_object(std::uint16_t machine, const std::vector<Section>& sections,
                        std::uint16_t type = 3) {
  core::Bytes bytes = core::to_bytes("\177ELF\002\001\001");
  put<std::uint16_t>(bytes, 16, type);
  put<std::uint16_t>(bytes, 18, machine);
  put<std::uint16_t>(bytes, 58, 64);
  put<std::uint16_t>(bytes, 60, static_cast<std::uint16_t>(sections.size()));
  put<std::uint16_t>(bytes, 62, 0);
  std::vector<std::uint64_t> places;
  for (const Section& section : sections) {
    places.push_back(std::max<std::size_t>(bytes.size(), 64));
    bytes.resize(places.back());
    bytes.insert(bytes.end(), section.content.begin(), section.content.end());
  }
  const std::size_t table = bytes.size();
  put<std::uint64_t>(bytes, 40, table);
  for (std::size_t i = 0; i < sections.size(); ++i) {
    const std::size_t at = table + 64 * i;
    put<std::uint32_t>(bytes, at + 4, sections[i].type);
    put<std::uint64_t>(bytes, at + 24, places[i]);
    put<std::uint64_t>(bytes, at + 32, sections[i].content.size());
    put<std::uint32_t>(bytes, at + 40, sections[i].link);
    put<std::uint64_t>(bytes, at + 56, 0);
  }
  return bytes;
}

constexpr std::string_view k_strings(
    "\0libc.so.6\0GLIBC_2.2.5\0GLIBC_2.14\0GLIBC_PRIVATE\0libcuda.so.1\0", 61);

std::uint32_t string_at(std::string_view text) {
  return static_cast<std::uint32_t>(k_strings.find(text));
}

/// A `.gnu.version_r` with one library and these versions.
core::Bytes version_needs(const std::vector<std::string_view>& versions) {
  core::Bytes bytes;
  put<std::uint16_t>(bytes, 0, 1);
  put<std::uint16_t>(bytes, 2, static_cast<std::uint16_t>(versions.size()));
  put<std::uint32_t>(bytes, 4, string_at("libc.so.6"));
  put<std::uint32_t>(bytes, 8, 16);
  put<std::uint32_t>(bytes, 12, 0);
  for (std::size_t i = 0; i < versions.size(); ++i) {
    put<std::uint32_t>(bytes, 16 + 16 * i + 8, string_at(versions[i]));
    put<std::uint32_t>(bytes, 16 + 16 * i + 12, i + 1 < versions.size() ? 16 : 0);
  }
  return bytes;
}

core::Bytes dynamic(const std::vector<std::string_view>& libraries) {
  core::Bytes bytes;
  for (const std::string_view library : libraries) {
    put<std::uint64_t>(bytes, bytes.size(), 1);
    put<std::uint64_t>(bytes, bytes.size(), string_at(library));
  }
  put<std::uint64_t>(bytes, bytes.size() + 8, 0);
  return bytes;
}

core::Bytes make_module(std::uint16_t machine, const std::vector<std::string_view>& versions) {
  return make_object(machine, {{3, 0, core::to_bytes(k_strings)},
                               {0x6ffffffe, 0, version_needs(versions)},
                               {6, 0, dynamic({"libc.so.6", "libcuda.so.1"})}});
}

}  // namespace

TEST_CASE("Triton's folder names") {
  // base64.b32encode(hashlib.sha256(b"").digest()).decode().rstrip("=")
  CHECK(builder::triton_folder_name(core::sha256("")) ==
        "4OYMIQUY7QOBJGX36TEJS35ZEQT24QPEMSNZGTFESWMRW6CSXBKQ");
}

TEST_CASE("host modules are looked for with what `file` says, and without") {
  const auto keys = builder::triton_host_keys("int x;", "x86_64");
  const std::string with =
      builder::triton_folder_name(core::sha256("int x;x86_64,Linux,64bit,ELF"));
  const std::string without =
      builder::triton_folder_name(core::sha256("int x;x86_64,Linux,64bit,"));
  REQUIRE(keys.size() == 2);
  CHECK(keys[0] < keys[1]);
  CHECK(((keys[0] == with && keys[1] == without) || (keys[0] == without && keys[1] == with)));
}

TEST_CASE("versions of Triton") {
  for (const char* version : {"3.4.0", "3.5.1", "3.6.0", "3.7.0+git1234"}) {
    CHECK(builder::is_supported_triton(version));
    CHECK(builder::has_plain_host_keys(version));
  }
  CHECK(builder::is_supported_triton("3.8.0"));
  CHECK_FALSE(builder::has_plain_host_keys("3.8.0"));
  CHECK(builder::is_supported_triton("4.0"));
  for (const char* version : {"3.3.1", "3.2.0", "2.1.0", "", "main", "3", "3."}) {
    CHECK_FALSE(builder::is_supported_triton(version));
    CHECK_FALSE(builder::has_plain_host_keys(version));
  }
}

TEST_CASE("a module's Python from its name") {
  CHECK(builder::abi_of_module("cuda_utils.cpython-312-x86_64-linux-gnu.so") == "cp312");
  CHECK(builder::abi_of_module("x.cpython-313t-aarch64-linux-gnu.so") == "cp313t");
  CHECK(builder::abi_of_module("cuda_utils.so").empty());
  CHECK(builder::abi_of_module("cuda_utils.abi3.so").empty());
}

TEST_CASE("what a host module needs is read from its ELF") {
  const auto info =
      builder::inspect_host_module(make_module(62, {"GLIBC_2.2.5", "GLIBC_2.14", "GLIBC_PRIVATE"}));
  REQUIRE(info);
  CHECK(*info == HostModuleInfo{"x86_64", "2.14", {"libc.so.6", "libcuda.so.1"}});
  CHECK(builder::inspect_host_module(make_module(183, {"GLIBC_2.2.5"})).value().machine ==
        "aarch64");
  CHECK(builder::inspect_host_module(make_module(62, {})).value().glibc_floor.empty());
}

TEST_CASE("what is no host module is said to be none") {
  CHECK_THAT(builder::inspect_host_module(make_module(243, {})).error().message,
             ContainsSubstring("ELF machine 243"));
  CHECK_THAT(builder::inspect_host_module(
                 make_object(62, {{3, 0, core::to_bytes(std::string_view("\0", 1))}}, 2))
                 .error()
                 .message,
             ContainsSubstring("no shared object"));
  CHECK_THAT(builder::inspect_host_module(core::to_bytes("no ELF")).error().message,
             ContainsSubstring("damaged, or no 64-bit ELF file"));
}

TEST_CASE("no damaged module is read beyond its end, or for ever") {
  const core::Bytes module = make_module(62, {"GLIBC_2.2.5", "GLIBC_2.14"});
  // Refused, or a module of a machine there is: never something in between.
  const auto sound = [](const core::Result<builder::HostModuleInfo>& info) {
    return info ? info->machine == "x86_64" || info->machine == "aarch64"
                : info.error().code == core::ErrorCode::unsupported;
  };
  CHECK(sound(builder::inspect_host_module(module)));
  constexpr std::size_t k_elf_header = 64;
  std::size_t unsound = 0;
  std::size_t headless_taken = 0;
  for (std::size_t size = 0; size < module.size(); size += 3) {
    const auto info = builder::inspect_host_module(core::ByteView(module).first(size));
    unsound += sound(info) ? 0 : 1;
    headless_taken += size < k_elf_header && info ? 1 : 0;
  }
  for (std::size_t at = 0; at < module.size(); ++at) {
    for (const unsigned value : {0x00U, 0x01U, 0x7fU, 0xffU}) {
      core::Bytes changed = module;
      changed[at] = static_cast<std::byte>(value);
      unsound += sound(builder::inspect_host_module(changed)) ? 0 : 1;
    }
  }
  CHECK(unsound == 0);
  CHECK(headless_taken == 0);
}
