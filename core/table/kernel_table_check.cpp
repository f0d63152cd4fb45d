// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <set>

#include "core/base/nearest.hpp"
#include "core/launch/scalar.hpp"
#include "core/model/device_class.hpp"
#include "core/model/dtype.hpp"
#include "core/table/kernel_table_names.hpp"
#include "core/wire/oci.hpp"

namespace cubinary::core {
namespace {

// CUDA's bounds, generous: exact ones are checked when a launch is planned.
constexpr std::int64_t k_max_threads = 1024;
constexpr std::int64_t k_max_byte_size = 32764;  // all parameters of one launch together
constexpr std::int64_t k_max_byte_align = 256;
constexpr std::size_t k_max_dimensions = 3;
constexpr std::size_t k_max_items = 4096;  // of any one list but entries

tl::unexpected<Error> bad(std::string message) {
  return fail(ErrorCode::corrupt, std::move(message));
}

std::string element(std::string_view list, std::size_t index) {
  return std::string(list) + "[" + std::to_string(index) + "]";
}

bool is_identifier(std::string_view text) {
  const auto letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  return !text.empty() && text.size() <= 128 && letter(text.front()) &&
         std::ranges::all_of(text, [&](char c) { return letter(c) || (c >= '0' && c <= '9'); });
}

bool is_pointer(ArgumentKind kind) {
  return kind == ArgumentKind::in || kind == ArgumentKind::out || kind == ArgumentKind::inout ||
         kind == ArgumentKind::workspace;
}

// Checks one table part by part; what later parts may name is collected on the way.
class Checker {
 public:
  explicit Checker(const KernelTable& table) : m_table(table) {}

  Result<void> run() {
    if (!oci::is_tag(m_table.name)) {
      return bad("name: is no kernel name");
    }
    for (const std::size_t size :
         {m_table.types.size(), m_table.axes.size(), m_table.lets.size(), m_table.rules.size(),
          m_table.arguments.size(), m_table.steps.size()}) {
      if (size > k_max_items) {
        return bad("has a list of " + std::to_string(size) + " items");
      }
    }
    for (const std::string_view name :
         {"target.smem_optin", "target.max_threads", "target.max_threads_per_sm", "target.regs",
          "target.cc", "target.specific", "device.sm_count"}) {
      m_known.insert(std::string(name));
    }
    for (const DType& dtype : dtype_table()) {
      m_known.insert("sizeof(" + std::string(dtype.name) + ")");
    }
    TRY(types());
    TRY(axes());
    TRY(tunables());
    TRY(argument_names());
    // The interface is what an application trusts when it passes pointers.
    if (m_table.interface != sha256(interface_text(m_table.arguments))) {
      return bad("interface: is not the digest of the arguments");
    }
    TRY(lets());
    for (std::size_t i = 0; i < m_table.rules.size(); ++i) {
      TRY(expression(m_table.rules[i], element("rules", i)));
    }
    TRY(arguments());
    TRY(steps());
    return entries();
  }

 private:
  // Type parameters, axes, tunables and lets share one name space; arguments have their own.
  Result<void> name(const std::string& text, const std::string& where) {
    if (!is_identifier(text)) {
      return bad(where + ": the name is no identifier");
    }
    if (!m_names.insert(text).second) {
      return bad(where + ": the name \"" + text + "\" is there twice");
    }
    return {};
  }

  Result<void> types() {
    for (std::size_t i = 0; i < m_table.types.size(); ++i) {
      const TypeParameter& type = m_table.types[i];
      TRY(name(type.name, element("types", i)));
      for (const std::string& value : type.values) {
        if (find_dtype(value) == nullptr) {
          return bad(element("types", i) + ".values: \"" + value + "\" is no dtype");
        }
      }
      if (type.values.empty()) {
        return bad(element("types", i) + ".values: is empty");
      }
      m_known.insert("sizeof(" + type.name + ")");
    }
    return {};
  }

  Result<void> axes() {
    for (std::size_t i = 0; i < m_table.axes.size(); ++i) {
      TRY(name(m_table.axes[i].name, element("axes", i)));
      m_known.insert(m_table.axes[i].name);
    }
    return {};
  }

  // A table does not list its tunables: every entry has them all.
  Result<void> tunables() {
    if (m_table.entries.empty()) {
      return {};
    }
    for (const auto& [tunable, value] : m_table.entries.front().config) {
      TRY(name(tunable, "entries[0].config"));
      if (!std::holds_alternative<std::string>(value)) {
        m_known.insert(tunable);
      }
    }
    return {};
  }

  Result<void> argument_names() {
    std::set<std::string_view> seen;
    for (std::size_t i = 0; i < m_table.arguments.size(); ++i) {
      const Argument& argument = m_table.arguments[i];
      if (!is_identifier(argument.name) || !seen.insert(argument.name).second) {
        return bad(element("arguments", i) + ".name: is no identifier, or there twice");
      }
      if (is_pointer(argument.kind)) {
        m_known.insert("align(" + argument.name + ")");
      }
    }
    return {};
  }

  Result<void> lets() {
    for (std::size_t i = 0; i < m_table.lets.size(); ++i) {
      const auto& [let, is] = m_table.lets[i];
      TRY(name(let, element("lets", i)));
      TRY(expression(is, element("lets", i) + ".is"));
      m_known.insert(let);
    }
    return {};
  }

  Result<void> expression(const LocatedExpression& located, const std::string& where) const {
    for (const std::string& variable : located.expression.variables()) {
      // Without entries nothing says which plain names are tunables.
      if (m_known.contains(variable) || (m_table.entries.empty() && is_identifier(variable))) {
        continue;
      }
      const std::vector<std::string> known(m_known.begin(), m_known.end());
      return bad(where + ": unknown name \"" + variable + "\"" + did_you_mean(variable, known));
    }
    return {};
  }
  Result<void> expression(const std::optional<LocatedExpression>& located,
                          const std::string& where) const {
    return located ? expression(*located, where) : Result<void>();
  }

  Result<void> arguments() {
    for (std::size_t i = 0; i < m_table.arguments.size(); ++i) {
      const Argument& argument = m_table.arguments[i];
      const std::string where = element("arguments", i);
      TRY(expression(argument.vector, where + ".vector"));
      TRY(expression(argument.length, where + ".length"));
      TRY(expression(argument.is, where + ".is"));
      TRY(argument_shape(argument, where));
      TRY(argument_default(argument, where));
    }
    return {};
  }

  static bool fits_kind(const Argument& argument) {
    const bool pointer = is_pointer(argument.kind);
    const bool scalar = argument.kind == ArgumentKind::scalar;
    const bool workspace = argument.kind == ArgumentKind::workspace;
    return (pointer || (!argument.vector && !argument.length && !argument.nullable)) &&
           (scalar || (!argument.is && !argument.default_value)) &&
           (workspace || !argument.zeroed) && (!workspace || argument.length) &&
           (pointer || scalar) == !argument.type.empty();
  }

  Result<void> argument_shape(const Argument& argument, const std::string& where) const {
    if (!fits_kind(argument)) {
      return bad(where + ": has members its kind does not have, or lacks some");
    }
    if (!argument.type.empty() && dtypes_of(argument.type).empty()) {
      return bad(where + ".type: \"" + argument.type + "\" is no type parameter and no dtype");
    }
    if (argument.kind == ArgumentKind::bytes) {
      const std::int64_t align = argument.byte_align;
      if (argument.byte_size < 1 || argument.byte_size > k_max_byte_size) {
        return bad(where + ".bytes: " + std::to_string(argument.byte_size) +
                   " is no size a kernel parameter can have");
      }
      if (align < 1 || align > k_max_byte_align || (align & (align - 1)) != 0) {
        return bad(where + ".align: must be a power of two up to " +
                   std::to_string(k_max_byte_align));
      }
    }
    return {};
  }

  Result<void> argument_default(const Argument& argument, const std::string& where) const {
    if (argument.default_value) {
      for (const std::string& dtype : dtypes_of(argument.type)) {
        if (const auto encoded = encode_scalar(*find_dtype(dtype), *argument.default_value);
            !encoded) {
          return bad(where + ".default: " + encoded.error().message);
        }
      }
    }
    return {};
  }

  // What a type parameter may be, or the dtype itself; empty when it is neither.
  [[nodiscard]] std::vector<std::string> dtypes_of(const std::string& type) const {
    for (const TypeParameter& parameter : m_table.types) {
      if (parameter.name == type) {
        return parameter.values;
      }
    }
    return find_dtype(type) != nullptr ? std::vector{type} : std::vector<std::string>();
  }

  Result<void> dimensions(const std::vector<LocatedExpression>& list, std::size_t least,
                          const std::string& where) const {
    if (list.size() < least || list.size() > k_max_dimensions) {
      return bad(where + ": must have " + std::to_string(least) + " to 3 dimensions");
    }
    for (std::size_t i = 0; i < list.size(); ++i) {
      TRY(expression(list[i], element(where, i)));
    }
    return {};
  }

  Result<void> steps() const {
    if (m_table.steps.empty()) {
      return bad("steps: is empty");
    }
    for (std::size_t i = 0; i < m_table.steps.size(); ++i) {
      const Step& step = m_table.steps[i];
      const std::string where = element("steps", i);
      TRY(dimensions(step.launch.grid, 1, where + ".grid"));
      TRY(dimensions(step.launch.block, 1, where + ".block"));
      TRY(dimensions(step.launch.cluster, 0, where + ".cluster"));
      TRY(expression(step.launch.smem, where + ".smem"));
      if (step.arguments.size() > k_max_items) {
        return bad(where + ".arguments: are too many");
      }
      for (const std::size_t index : step.arguments) {
        if (index >= m_table.arguments.size()) {
          return bad(where + ".arguments: there is no argument " + std::to_string(index));
        }
      }
    }
    return {};
  }

  Result<void> entries() const {
    for (std::size_t i = 0; i < m_table.entries.size(); ++i) {
      const TableEntry& entry = m_table.entries[i];
      const std::string where = element("entries", i);
      TRY(entry_types(entry, where));
      TRY(entry_shape(entry, where));
      TRY(entry_config(entry, where));
      TRY(entry_artifact(entry, where));
      TRY(entry_measurement(entry, where));
    }
    return {};
  }

  Result<void> entry_types(const TableEntry& entry, const std::string& where) const {
    if (entry.types.size() != m_table.types.size()) {
      return bad(where + ".types: must name every type parameter, and no other");
    }
    for (const TypeParameter& type : m_table.types) {
      const auto found = entry.types.find(type.name);
      if (found == entry.types.end() || std::ranges::count(type.values, found->second) == 0) {
        return bad(where + ".types: " + type.name + " is missing or none of its values");
      }
    }
    return {};
  }

  Result<void> entry_shape(const TableEntry& entry, const std::string& where) const {
    const bool tuned = entry.origin == Origin::tuned;
    std::size_t wanted = 0;
    for (const Axis& axis : m_table.axes) {
      if (tuned || axis.compile) {
        ++wanted;
        const auto found = entry.shape.find(axis.name);
        if (found == entry.shape.end() || found->second < 0) {
          return bad(where + ".shape: axis " + axis.name + " is missing or negative");
        }
      }
    }
    if (entry.shape.size() != wanted) {
      return bad(where + ".shape: must name " + (tuned ? "every axis" : "every compile axis") +
                 ", and no other");
    }
    if (entry.device_class.empty() ? tuned : !DeviceClass::parse(entry.device_class)) {
      return bad(where + ".device_class: is no device class");
    }
    return {};
  }

  Result<void> entry_config(const TableEntry& entry, const std::string& where) const {
    const Config& first = m_table.entries.front().config;
    const bool same = std::ranges::equal(entry.config, first, [](const auto& a, const auto& b) {
      return a.first == b.first && a.second.index() == b.second.index();
    });
    if (!same) {
      return bad(where + ".config: must name the same tunables as every entry");
    }
    return {};
  }

  Result<void> entry_artifact(const TableEntry& entry, const std::string& where) const {
    if (entry.offset > m_table.pack_raw_size || entry.size > m_table.pack_raw_size - entry.offset ||
        entry.size == 0) {
      return bad(where + ".offset: " + std::to_string(entry.offset) + " + " +
                 std::to_string(entry.size) + " bytes do not lie inside the pack of " +
                 std::to_string(m_table.pack_raw_size));
    }
    if (entry.symbols.size() != m_table.steps.size()) {
      return bad(where + ".symbols: must be one a step");
    }
    for (const EntrySymbol& symbol : entry.symbols) {
      if (symbol.symbol.empty() || symbol.symbol.find('\0') != std::string::npos ||
          symbol.max_threads < 1 || symbol.max_threads > k_max_threads || symbol.registers < 0 ||
          symbol.static_smem < 0 || symbol.spill_bytes < 0) {
        return bad(where + ".symbols: a name or number is none a function can have");
      }
    }
    return {};
  }

  static Result<void> entry_measurement(const TableEntry& entry, const std::string& where) {
    if (entry.rank < 0) {
      return bad(where + ".rank: must not be negative");
    }
    if (entry.time_us && !(*entry.time_us > 0 && std::isfinite(*entry.time_us))) {
      return bad(where + ".time_us: must be above zero");
    }
    if (entry.confidence && !(*entry.confidence >= 0 && std::isfinite(*entry.confidence))) {
      return bad(where + ".confidence: must not be negative");
    }
    return {};
  }

  const KernelTable& m_table;
  std::set<std::string> m_names;
  std::set<std::string> m_known;
};

}  // namespace

Result<void> check_table(const KernelTable& table) {
  return Checker(table).run();
}

}  // namespace cubinary::core
