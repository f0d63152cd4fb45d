// SPDX-License-Identifier: Apache-2.0
#include "builder/inspect/inspect.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "builder/inspect/elf.hpp"

namespace cubinary::builder {

using core::ByteView;
using core::ErrorCode;
using core::fail;
using core::Result;

namespace {

constexpr std::uint16_t k_type_executable = 2;
constexpr std::uint16_t k_machine_cuda = 190;
constexpr std::uint8_t k_symbol_function = 2;
constexpr std::uint8_t k_binding_local = 0;
constexpr std::uint8_t k_other_entry = 0x10;
constexpr std::uint32_t k_section_info = 0x70000000;

// Attributes of .nv.info. Each is four bytes (format, attribute, 16-bit value), and with format 4
// the value is the length of what follows.
constexpr std::uint8_t k_format_sized = 0x04;
constexpr std::uint8_t k_attribute_max_threads = 0x05;
constexpr std::uint8_t k_attribute_required_block = 0x10;
constexpr std::uint8_t k_attribute_min_stack_size = 0x12;
constexpr std::uint8_t k_attribute_parameter = 0x17;
constexpr std::uint8_t k_attribute_parameter_size = 0x19;
constexpr std::uint8_t k_attribute_register_count = 0x2f;
constexpr std::uint8_t k_attribute_required_cluster = 0x3d;
constexpr std::uint8_t k_attribute_large_parameter = 0x45;

struct Attribute {
  std::uint8_t format = 0;
  std::uint8_t id = 0;
  std::uint16_t value = 0;
  ByteView payload;
};

template <typename Visit>
Result<void> for_each_attribute(ByteView bytes, const Visit& visit) {
  std::uint64_t at = 0;
  while (at < bytes.size()) {
    Attribute attribute;
    if (!read_little_endian(bytes, at, attribute.format) ||
        !read_little_endian(bytes, at + 1, attribute.id) ||
        !read_little_endian(bytes, at + 2, attribute.value)) {
      return fail(ErrorCode::bad_cubin, "the cubin is damaged: .nv.info ends in mid-attribute");
    }
    at += 4;
    if (attribute.format == k_format_sized) {
      if (attribute.value > bytes.size() - at) {
        return fail(ErrorCode::bad_cubin, "the cubin is damaged: .nv.info ends in mid-attribute");
      }
      attribute.payload = bytes.subspan(at, attribute.value);
      at += attribute.value;
    }
    visit(attribute);
  }
  return {};
}

/// The strings of the toolkit note: tool, release, build and command line.
struct ToolkitNote {
  std::string release;
  std::string build;
  std::string command;
};

ToolkitNote read_toolkit_note(const ElfFile& file) {
  const ElfSection* section = file.find(".note.nv.tkinfo");
  ToolkitNote note;
  // Note header (12 bytes), owner "NVIDIA Corp" (12), six numbers (24), then the strings, the first
  // one empty.
  constexpr std::size_t k_strings = 48;
  if (section == nullptr || section->bytes.size() < k_strings) {
    return note;
  }
  std::string_view rest = core::as_text(section->bytes.subspan(k_strings));
  std::vector<std::string> strings;
  while (!rest.empty() && strings.size() < 8) {
    const std::size_t end = std::min(rest.find('\0'), rest.size());
    if (end != 0) {
      strings.emplace_back(rest.substr(0, end));
    }
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  if (strings.size() >= 4) {
    note = {strings[1], strings[2], strings[3]};
  }
  return note;
}

/// What target the bytes are for. The number is in the flags, at a place that depends on the ABI;
/// the suffix is there too in older ones, and otherwise only in the assembler's recorded command
/// line.
Result<std::string> read_target(const ElfFile& file, const ToolkitNote& note) {
  std::uint32_t number = 0;
  bool architecture = false;
  if (file.abi_version == 7) {
    number = file.flags & 0xFFU;
    architecture = (file.flags & 0x800U) != 0;
  } else if (file.abi_version == 8) {
    number = (file.flags >> 8U) & 0xFFU;
    architecture = (file.flags & 0x8U) != 0;
  } else {
    return fail(ErrorCode::bad_cubin, "the cubin has ABI version " +
                                          std::to_string(file.abi_version) +
                                          "; this Cubinary knows 7 and 8 (CUDA 12 and 13)");
  }
  const std::string base = "sm_" + std::to_string(number);
  const std::size_t at = note.command.find("-arch sm_");
  if (at != std::string::npos) {
    const std::size_t begin = at + std::string_view("-arch ").size();
    std::string named = note.command.substr(begin, note.command.find(' ', begin) - begin);
    if (named != base && named.substr(0, named.size() - 1) != base) {
      return fail(ErrorCode::bad_cubin,
                  "the cubin's flags say " + base + " and its compiler's note says " + named);
    }
    return named;
  }
  return base + (architecture ? "a" : "");
}

bool driver_provides(std::string_view name) {
  constexpr std::array<std::string_view, 4> k_known = {"vprintf", "__assertfail", "malloc", "free"};
  return name.empty() || name.starts_with(".nv.reservedSmem.") ||
         std::find(k_known.begin(), k_known.end(), name) != k_known.end();
}

/// The most threads a block may have so that its warps' registers fit an SM's 65536: registers are
/// given out a warp at a time in units of 256, to warps in groups of four.
std::int64_t threads_within_registers(std::int64_t registers) {
  constexpr std::int64_t k_registers = 65536;
  const std::int64_t per_warp = (std::max<std::int64_t>(registers, 1) * 32 + 255) / 256 * 256;
  const std::int64_t warps = k_registers / per_warp / 4 * 4;
  return std::clamp<std::int64_t>(warps * 32, 32, 1024);
}

/// Whether code comes to its end, unconditionally, after nothing but setting up registers: no
/// store, no call, no branch. Instructions are 16 bytes, the operation and its guard in the low 16
/// bits; the guard 7 is "always".
bool is_hollow(ByteView code) {
  constexpr std::uint16_t k_exit = 0x794d;
  constexpr std::array<std::uint16_t, 3> k_idle = {0x7b82, 0x7a02, 0x7918};  // LDC, MOV, NOP
  constexpr std::uint64_t k_instruction = 16;
  std::uint16_t operation = 0;
  for (std::uint64_t at = 0; read_little_endian(code, at, operation); at += k_instruction) {
    if (operation == k_exit) {
      return true;
    }
    if (std::find(k_idle.begin(), k_idle.end(), operation) == k_idle.end()) {
      return false;
    }
  }
  return false;
}

std::vector<CubinEntry> find_entries(const ElfFile& file, int number) {
  std::vector<CubinEntry> entries;
  // From 9.0 on the section of a block's shared memory begins with what the driver keeps for
  // itself.
  const std::uint64_t reserved = number >= 90 ? 1024 : 0;
  for (const ElfSymbol& symbol : file.symbols) {
    if (symbol.type != k_symbol_function || (symbol.other & k_other_entry) == 0) {
      continue;
    }
    CubinEntry entry;
    entry.symbol = symbol.name;
    if (const ElfSection* shared = file.find(".nv.shared." + entry.symbol)) {
      entry.static_smem =
          static_cast<std::int64_t>(shared->size - std::min(shared->size, reserved));
    }
    if (const ElfSection* constants = file.find(".nv.constant0." + entry.symbol)) {
      entry.constant_bytes = static_cast<std::int64_t>(constants->size);
    }
    const ElfSection* const code = file.find(".text." + entry.symbol);
    entry.hollow = code != nullptr && is_hollow(code->bytes);
    entries.push_back(std::move(entry));
  }
  std::sort(entries.begin(), entries.end(),
            [](const auto& a, const auto& b) { return a.symbol < b.symbol; });
  return entries;
}

/// Three dimensions of at most 1024 each, or nothing when the payload holds something else.
std::optional<std::array<std::int64_t, 3>> read_dimensions(ByteView payload) {
  std::array<std::int64_t, 3> dimensions{};
  for (std::size_t i = 0; i < dimensions.size(); ++i) {
    std::uint32_t value = 0;
    if (!read_little_endian(payload, 4 * i, value) || value > 1024) {
      return std::nullopt;
    }
    dimensions[i] = value;
  }
  return dimensions;
}

/// A parameter's number, offset and size; the size is bits 18 and up of a word, or a word of its
/// own where there may be more than these hold.
void read_parameter(const Attribute& attribute, CubinEntry& entry) {
  std::uint16_t ordinal = 0;
  std::uint16_t offset = 0;
  std::uint32_t size = 0;
  constexpr std::uint16_t k_most = 4096;
  if (!read_little_endian(attribute.payload, 4, ordinal) || ordinal >= k_most ||
      !read_little_endian(attribute.payload, 6, offset) ||
      !read_little_endian(attribute.payload, 8, size)) {
    return;
  }
  if (attribute.id == k_attribute_parameter) {
    size >>= 18U;
  }
  if (entry.parameters.size() <= ordinal) {
    entry.parameters.resize(ordinal + std::size_t{1});
  }
  entry.parameters[ordinal] = {offset, size};
}

/// What an entry's own section says of it.
void read_own_attribute(const Attribute& attribute, CubinEntry& entry) {
  switch (attribute.id) {
    case k_attribute_parameter_size:
      entry.parameter_bytes = attribute.value;
      break;
    case k_attribute_parameter:
    case k_attribute_large_parameter:
      read_parameter(attribute, entry);
      break;
    case k_attribute_max_threads:
      if (const auto most = read_dimensions(attribute.payload)) {
        entry.launch_bound = (*most)[0] * (*most)[1] * (*most)[2];
      }
      break;
    case k_attribute_required_block:
      entry.required_block = read_dimensions(attribute.payload).value_or(entry.required_block);
      break;
    case k_attribute_required_cluster:
      entry.required_cluster = read_dimensions(attribute.payload).value_or(entry.required_cluster);
      break;
    default:
      break;
  }
}

Result<void> read_attributes(const ElfFile& file, std::vector<CubinEntry>& entries) {
  const auto find = [&](std::string_view symbol) -> CubinEntry* {
    const auto found = std::lower_bound(
        entries.begin(), entries.end(), symbol,
        [](const CubinEntry& entry, std::string_view name) { return entry.symbol < name; });
    return found != entries.end() && found->symbol == symbol ? &*found : nullptr;
  };
  constexpr std::string_view k_prefix = ".nv.info.";
  for (const ElfSection& section : file.sections) {
    if (section.type != k_section_info) {
      continue;
    }
    CubinEntry* const own =
        section.name.starts_with(k_prefix) ? find(section.name.substr(k_prefix.size())) : nullptr;
    TRY(for_each_attribute(section.bytes, [&](const Attribute& attribute) {
      if (own != nullptr) {
        read_own_attribute(attribute, *own);
      }
      std::uint32_t symbol = 0;
      std::uint32_t value = 0;
      if (!read_little_endian(attribute.payload, 0, symbol) || symbol >= file.symbols.size() ||
          !read_little_endian(attribute.payload, 4, value)) {
        return;
      }
      CubinEntry* const named = find(file.symbols[symbol].name);
      if (named == nullptr) {
        return;
      }
      if (attribute.id == k_attribute_register_count) {
        named->registers = value;
      } else if (attribute.id == k_attribute_min_stack_size) {
        named->stack_bytes = value;
      }
    }));
  }
  for (CubinEntry& entry : entries) {
    entry.max_threads = threads_within_registers(entry.registers);
    const auto& block = entry.required_block;
    for (const std::int64_t most : {entry.launch_bound, block[0] * block[1] * block[2]}) {
      if (most != 0) {
        entry.max_threads = std::min(entry.max_threads, most);
      }
    }
  }
  return {};
}

}  // namespace

const CubinEntry* CubinInfo::find(std::string_view symbol) const {
  const auto found = std::find_if(entries.begin(), entries.end(),
                                  [&](const CubinEntry& entry) { return entry.symbol == symbol; });
  return found == entries.end() ? nullptr : &*found;
}

Result<CubinInfo> inspect_cubin(ByteView cubin) {
  TRY_ASSIGN(const ElfFile file, parse_elf(cubin));
  if (file.machine != k_machine_cuda) {
    return fail(ErrorCode::bad_cubin,
                "the ELF file is for machine " + std::to_string(file.machine) + ", not CUDA (190)");
  }
  if (file.type != k_type_executable) {
    return fail(ErrorCode::bad_cubin,
                "the cubin is not linked (ELF type " + std::to_string(file.type) +
                    ", not executable): compile without -rdc / --relocatable-device-code");
  }
  const ToolkitNote note = read_toolkit_note(file);
  CubinInfo info;
  TRY_ASSIGN(info.target, read_target(file, note));
  if (!note.release.empty()) {
    info.compiler = note.release + "; " + note.build;
  }
  for (const ElfSymbol& symbol : file.symbols) {
    if (symbol.section == 0 && symbol.binding != k_binding_local && !driver_provides(symbol.name)) {
      return fail(ErrorCode::bad_cubin,
                  "the cubin needs `" + std::string(symbol.name) +
                      "`, which nothing provides at load time: define it in the sources");
    }
  }
  const std::string_view digits = std::string_view(info.target).substr(3);
  int number = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), number);
  info.entries = find_entries(file, number);
  TRY(read_attributes(file, info.entries));
  return info;
}

Result<CubinInfo> inspect_cubin(ByteView cubin, const core::Target& target) {
  TRY_ASSIGN(CubinInfo info, inspect_cubin(cubin));
  if (info.target != target.text()) {
    return fail(ErrorCode::bad_cubin,
                "the cubin is for " + info.target + ", not for " + target.text());
  }
  return info;
}

std::map<std::string, std::int64_t, std::less<>> spills_from_log(std::string_view log) {
  constexpr std::string_view k_function = "Function properties for ";
  std::map<std::string, std::int64_t, std::less<>> spills;
  std::string function;
  const auto number_before = [](std::string_view line, std::string_view words) -> std::int64_t {
    std::size_t end = line.find(words);
    if (end == std::string_view::npos) {
      return -1;
    }
    std::size_t begin = end;
    while (begin > 0 && line[begin - 1] >= '0' && line[begin - 1] <= '9') {
      --begin;
    }
    std::int64_t value = -1;
    std::from_chars(line.data() + begin, line.data() + end, value);
    return value;
  };
  while (!log.empty()) {
    const std::size_t end = std::min(log.find('\n'), log.size());
    const std::string_view line = log.substr(0, end);
    log.remove_prefix(std::min(end + 1, log.size()));
    if (const std::size_t at = line.find(k_function); at != std::string_view::npos) {
      function = line.substr(at + k_function.size());
      continue;
    }
    const std::int64_t stores = number_before(line, " bytes spill stores");
    const std::int64_t loads = number_before(line, " bytes spill loads");
    if (stores >= 0 && loads >= 0 && !function.empty()) {
      spills[function] = stores + loads;
      function.clear();
    }
  }
  return spills;
}

}  // namespace cubinary::builder
