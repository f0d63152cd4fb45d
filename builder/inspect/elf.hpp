// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "core/base/bytes.hpp"
#include "core/base/result.hpp"

namespace cubinary::builder {

/// One section of an ELF file; views into the file's bytes.
struct ElfSection {
  std::string_view name;
  std::uint32_t type = 0;
  std::uint64_t size = 0;  ///< also of a section that has no bytes in the file
  std::uint32_t link = 0;
  std::uint32_t info = 0;
  core::ByteView bytes;  ///< empty for SHT_NOBITS
};

/// One row of `.symtab`.
struct ElfSymbol {
  std::string_view name;
  std::uint8_t type = 0;     ///< STT_*
  std::uint8_t binding = 0;  ///< STB_*
  std::uint8_t other = 0;
  std::uint16_t section = 0;  ///< 0: undefined
  std::uint64_t value = 0;
};

/// A little-endian ELF64 file, every offset checked against the bytes before use.
struct ElfFile {
  std::uint16_t type = 0;
  std::uint16_t machine = 0;
  std::uint8_t abi_version = 0;
  std::uint32_t flags = 0;
  std::vector<ElfSection> sections;
  std::vector<ElfSymbol> symbols;

  /// The first section of that name, or null.
  [[nodiscard]] const ElfSection* find(std::string_view name) const;
};

/// Parses headers, section names and symbols. The result views `bytes`, which must outlive it.
/// Errors are `bad_cubin` and say what is out of place; safe on hostile bytes.
[[nodiscard]] core::Result<ElfFile> parse_elf(core::ByteView bytes);

/// Reads an unsigned little-endian integer at `offset`, or nothing when it does not fit.
template <typename T>
[[nodiscard]] bool read_little_endian(core::ByteView bytes, std::uint64_t offset, T& value) {
  if (bytes.size() < sizeof(T) || offset > bytes.size() - sizeof(T)) {
    return false;
  }
  std::uint64_t all = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    all |= std::to_integer<std::uint64_t>(bytes[offset + i]) << (8 * i);
  }
  value = static_cast<T>(all);
  return true;
}

}  // namespace cubinary::builder
