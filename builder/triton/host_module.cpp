// SPDX-License-Identifier: Apache-2.0
#include "builder/triton/host_module.hpp"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <utility>

#include "builder/inspect/elf.hpp"

namespace cubinary::builder {
namespace {

using core::ErrorCode;
using core::fail;
using core::Result;

constexpr std::uint16_t k_type_shared = 3;
constexpr std::uint16_t k_machine_x86_64 = 62;
constexpr std::uint16_t k_machine_aarch64 = 183;
constexpr std::uint32_t k_section_dynamic = 6;
constexpr std::uint32_t k_section_version_needs = 0x6ffffffe;
constexpr std::uint64_t k_tag_needed = 1;

using Version = std::vector<int>;

/// `GLIBC_2.34` → {2, 34}; empty for anything else, `GLIBC_PRIVATE` too.
Version glibc_version(std::string_view name) {
  constexpr std::string_view k_prefix = "GLIBC_";
  Version version;
  if (!name.starts_with(k_prefix)) {
    return version;
  }
  name.remove_prefix(k_prefix.size());
  while (true) {
    int number = 0;
    const auto read = std::from_chars(name.data(), name.data() + name.size(), number);
    if (read.ec != std::errc()) {
      return {};
    }
    version.push_back(number);
    name.remove_prefix(static_cast<std::size_t>(read.ptr - name.data()));
    if (name.empty()) {
      return version;
    }
    if (name.front() != '.') {
      return {};
    }
    name.remove_prefix(1);
  }
}

/// The text at `offset` of a string table.
std::string_view string_at(core::ByteView strings, std::uint64_t offset) {
  if (offset >= strings.size()) {
    return {};
  }
  const std::string_view rest = core::as_text(strings.subspan(offset));
  return rest.substr(0, rest.find('\0'));
}

core::ByteView linked_strings(const ElfFile& file, const ElfSection& section) {
  return section.link < file.sections.size() ? file.sections[section.link].bytes : core::ByteView();
}

Version newest_glibc(const ElfFile& file, const ElfSection& section) {
  const core::ByteView strings = linked_strings(file, section);
  Version newest;
  std::uint64_t need = 0;
  // Each step goes on by an offset the file gives; as many steps as could fit end any circle.
  for (std::size_t left = section.bytes.size() / 16; left > 0; --left) {
    std::uint16_t count = 0;
    std::uint32_t first = 0;
    std::uint32_t next = 0;
    if (!read_little_endian(section.bytes, need + 2, count) ||
        !read_little_endian(section.bytes, need + 8, first) ||
        !read_little_endian(section.bytes, need + 12, next)) {
      break;
    }
    std::uint64_t at = need + first;
    for (; count > 0; --count) {
      std::uint32_t name = 0;
      std::uint32_t step = 0;
      if (!read_little_endian(section.bytes, at + 8, name) ||
          !read_little_endian(section.bytes, at + 12, step)) {
        break;
      }
      newest = std::max(newest, glibc_version(string_at(strings, name)));
      at += step;
    }
    if (next == 0) {
      break;
    }
    need += next;
  }
  return newest;
}

std::vector<std::string> needed_libraries(const ElfFile& file, const ElfSection& section) {
  const core::ByteView strings = linked_strings(file, section);
  std::vector<std::string> needed;
  constexpr std::uint64_t k_entry = 16;
  for (std::uint64_t at = 0; at + k_entry <= section.bytes.size(); at += k_entry) {
    std::uint64_t tag = 0;
    std::uint64_t value = 0;
    if (!read_little_endian(section.bytes, at, tag) ||
        !read_little_endian(section.bytes, at + 8, value) || tag == 0) {
      break;
    }
    if (tag == k_tag_needed) {
      needed.emplace_back(string_at(strings, value));
    }
  }
  return needed;
}

}  // namespace

Result<HostModuleInfo> inspect_host_module(core::ByteView bytes) {
  const auto file = parse_elf(bytes);
  if (!file) {
    return fail(ErrorCode::unsupported, "damaged, or no 64-bit ELF file");
  }
  if (file->type != k_type_shared) {
    return fail(ErrorCode::unsupported, "an ELF file, but no shared object");
  }
  HostModuleInfo info;
  if (file->machine == k_machine_x86_64) {
    info.machine = "x86_64";
  } else if (file->machine == k_machine_aarch64) {
    info.machine = "aarch64";
  } else {
    return fail(ErrorCode::unsupported, "made for ELF machine " + std::to_string(file->machine) +
                                            ": only x86_64 and aarch64 drive CUDA devices");
  }
  Version newest;
  for (const ElfSection& section : file->sections) {
    if (section.type == k_section_version_needs) {
      newest = std::max(newest, newest_glibc(*file, section));
    } else if (section.type == k_section_dynamic) {
      info.needed = needed_libraries(*file, section);
    }
  }
  for (const int number : newest) {
    info.glibc_floor += (info.glibc_floor.empty() ? "" : ".") + std::to_string(number);
  }
  return info;
}

}  // namespace cubinary::builder
