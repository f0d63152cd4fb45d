// SPDX-License-Identifier: Apache-2.0
#include "builder/inspect/elf.hpp"

#include <algorithm>
#include <string>

namespace cubinary::builder {

using core::ByteView;
using core::ErrorCode;
using core::fail;
using core::Result;

namespace {

constexpr std::uint64_t k_header_size = 64;
constexpr std::uint64_t k_section_header_size = 64;
constexpr std::uint64_t k_symbol_size = 24;
constexpr std::uint32_t k_section_symbols = 2;
constexpr std::uint32_t k_section_no_bits = 8;

auto damaged(const std::string& what) {
  return fail(ErrorCode::bad_cubin, "the cubin is truncated or damaged: " + what);
}

/// The NUL-terminated string at `offset` of a string table.
bool string_at(ByteView table, std::uint64_t offset, std::string_view& text) {
  if (offset >= table.size()) {
    return false;
  }
  const std::string_view rest = core::as_text(table.subspan(offset));
  const std::size_t end = rest.find('\0');
  if (end == std::string_view::npos) {
    return false;
  }
  text = rest.substr(0, end);
  return true;
}

struct RawSection {
  std::uint32_t name = 0;
  std::uint32_t type = 0;
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  std::uint32_t link = 0;
  std::uint32_t info = 0;
};

Result<std::vector<RawSection>> read_sections(ByteView bytes, std::uint64_t table,
                                              std::uint16_t count) {
  std::vector<RawSection> sections(count);
  for (std::uint16_t i = 0; i < count; ++i) {
    const std::uint64_t at = table + i * k_section_header_size;
    RawSection& section = sections[i];
    if (!read_little_endian(bytes, at, section.name) ||
        !read_little_endian(bytes, at + 4, section.type) ||
        !read_little_endian(bytes, at + 24, section.offset) ||
        !read_little_endian(bytes, at + 32, section.size) ||
        !read_little_endian(bytes, at + 40, section.link) ||
        !read_little_endian(bytes, at + 44, section.info)) {
      return damaged("section header " + std::to_string(i) + " lies outside the file");
    }
    if (section.type != k_section_no_bits &&
        (section.offset > bytes.size() || section.size > bytes.size() - section.offset)) {
      return damaged("section " + std::to_string(i) + " lies outside the file");
    }
  }
  return sections;
}

Result<void> read_symbols(ElfFile& file) {
  const auto table = std::find_if(file.sections.begin(), file.sections.end(),
                                  [](const auto& s) { return s.type == k_section_symbols; });
  if (table == file.sections.end()) {
    return {};
  }
  if (table->link >= file.sections.size()) {
    return damaged("the symbol table names no string table");
  }
  const ByteView strings = file.sections[table->link].bytes;
  const std::uint64_t count = table->bytes.size() / k_symbol_size;
  file.symbols.reserve(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    const ByteView row = table->bytes.subspan(i * k_symbol_size, k_symbol_size);
    ElfSymbol symbol;
    std::uint32_t name = 0;
    std::uint8_t info = 0;
    if (!read_little_endian(row, 0, name) || !read_little_endian(row, 4, info) ||
        !read_little_endian(row, 5, symbol.other) || !read_little_endian(row, 6, symbol.section) ||
        !read_little_endian(row, 8, symbol.value) || !string_at(strings, name, symbol.name)) {
      return damaged("symbol " + std::to_string(i) + " has no name");
    }
    symbol.type = info & 0x0F;
    symbol.binding = info >> 4;
    file.symbols.push_back(symbol);
  }
  return {};
}

}  // namespace

const ElfSection* ElfFile::find(std::string_view name) const {
  const auto found = std::find_if(sections.begin(), sections.end(),
                                  [&](const ElfSection& section) { return section.name == name; });
  return found == sections.end() ? nullptr : &*found;
}

Result<ElfFile> parse_elf(ByteView bytes) {
  if (bytes.size() < k_header_size) {
    return damaged("it has " + std::to_string(bytes.size()) + " bytes");
  }
  constexpr std::string_view k_magic = "\177ELF\002\001\001";  // 64-bit, little endian, version 1
  if (core::as_text(bytes.first(k_magic.size())) != k_magic) {
    return fail(ErrorCode::bad_cubin, "these bytes are no 64-bit little-endian ELF file");
  }
  ElfFile file;
  file.abi_version = std::to_integer<std::uint8_t>(bytes[8]);
  std::uint64_t table = 0;
  std::uint16_t entry_size = 0;
  std::uint16_t count = 0;
  std::uint16_t names_index = 0;
  const bool read =
      read_little_endian(bytes, 16, file.type) && read_little_endian(bytes, 18, file.machine) &&
      read_little_endian(bytes, 40, table) && read_little_endian(bytes, 48, file.flags) &&
      read_little_endian(bytes, 58, entry_size) && read_little_endian(bytes, 60, count) &&
      read_little_endian(bytes, 62, names_index);
  if (!read || entry_size != k_section_header_size || count == 0 || names_index >= count ||
      table > bytes.size() || count * k_section_header_size > bytes.size() - table) {
    return damaged("its section headers lie outside the file");
  }
  TRY_ASSIGN(const std::vector<RawSection> raw, read_sections(bytes, table, count));
  const auto contents = [&](const RawSection& section) {
    return section.type == k_section_no_bits ? ByteView()
                                             : bytes.subspan(section.offset, section.size);
  };
  const ByteView names = contents(raw[names_index]);
  file.sections.reserve(raw.size());
  for (const RawSection& from : raw) {
    ElfSection section{{}, from.type, from.size, from.link, from.info, contents(from)};
    if (!string_at(names, from.name, section.name)) {
      return damaged("a section has no name");
    }
    file.sections.push_back(section);
  }
  TRY(read_symbols(file));
  return file;
}

}  // namespace cubinary::builder
