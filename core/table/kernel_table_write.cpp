// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <tuple>

#include "core/base/json.hpp"
#include "core/table/entry_json.hpp"
#include "core/table/kernel_table_names.hpp"

namespace cubinary::core {
namespace {

using json::Array;
using json::Object;
using json::Value;

Value to_value(const LocatedExpression& located) {
  return located.expression.text();
}

Value to_value(const TunableValue& value) {
  return std::visit([](const auto& v) { return Value(v); }, value);
}

template <typename T>
Value to_value(const std::map<std::string, T>& map) {
  Object object;
  for (const auto& [key, value] : map) {
    if constexpr (std::is_same_v<T, TunableValue>) {
      object[key] = to_value(value);
    } else {
      object[key] = value;
    }
  }
  return object;
}

// Before to_array: its own look-up would not find what an unnamed namespace declares later.
Value to_value(const TypeParameter& type);
Value to_value(const Axis& axis);
Value to_value(const std::pair<std::string, LocatedExpression>& let);
Value to_value(const Argument& argument);
Value to_value(const Step& step);
Value to_value(const EntrySymbol& symbol);

template <typename T>
Value to_array(const std::vector<T>& items) {
  Array array;
  array.reserve(items.size());
  for (const T& item : items) {
    if constexpr (std::is_constructible_v<Value, T>) {
      array.emplace_back(item);
    } else {
      array.push_back(to_value(item));
    }
  }
  return array;
}

// Members at their default are left out: most are.
void put(Object& object, const char* key, const std::optional<LocatedExpression>& located) {
  if (located) {
    object[key] = to_value(*located);
  }
}

void put(Object& object, const char* key, bool value) {
  if (value) {
    object[key] = true;
  }
}

Value to_value(const TypeParameter& type) {
  return Object{{"name", type.name}, {"values", to_array(type.values)}};
}

Value to_value(const Axis& axis) {
  Object object{{"name", axis.name},
                {"bucket", name_of(k_buckets, axis.bucket)},
                {"tune", to_array(axis.tune)}};
  put(object, "compile", axis.compile);
  return object;
}

Value to_value(const std::pair<std::string, LocatedExpression>& let) {
  return Object{{"name", let.first}, {"is", to_value(let.second)}};
}

Value to_value(const Argument& argument) {
  Object object{{"name", argument.name}, {"kind", name_of(k_argument_kinds, argument.kind)}};
  if (!argument.type.empty()) {
    object["type"] = argument.type;
  }
  put(object, "vector", argument.vector);
  put(object, "length", argument.length);
  put(object, "is", argument.is);
  if (argument.default_value) {
    object["default"] = *argument.default_value;
  }
  if (argument.kind == ArgumentKind::bytes) {
    object["bytes"] = argument.byte_size;
    object["align"] = argument.byte_align;
  }
  put(object, "nullable", argument.nullable);
  put(object, "zeroed", argument.zeroed);
  return object;
}

Value to_value(const Step& step) {
  Object object{{"name", step.name},
                {"entry", step.entry},
                {"grid", to_array(step.launch.grid)},
                {"block", to_array(step.launch.block)},
                {"arguments", to_array(step.arguments)}};
  put(object, "smem", step.launch.smem);
  if (!step.launch.cluster.empty()) {
    object["cluster"] = to_array(step.launch.cluster);
  }
  put(object, "cooperative", step.launch.cooperative);
  return object;
}

Value to_value(const EntrySymbol& symbol) {
  return Object{{"symbol", symbol.symbol},
                {"max_threads", symbol.max_threads},
                {"registers", symbol.registers},
                {"static_smem", symbol.static_smem},
                {"spill_bytes", symbol.spill_bytes}};
}

}  // namespace

Object entry_to_json(const TableEntry& entry) {
  Object object{{"types", to_value(entry.types)},
                {"shape", to_value(entry.shape)},
                {"config", to_value(entry.config)},
                {"origin", name_of(k_origins, entry.origin)},
                {"rank", entry.rank},
                {"artifact", entry.artifact.text()},
                {"offset", entry.offset},
                {"size", entry.size},
                {"symbols", to_array(entry.symbols)},
                {"provenance", to_value(entry.provenance)}};
  if (!entry.device_class.empty()) {
    object["device_class"] = entry.device_class;
  }
  if (entry.time_us) {
    object["time_us"] = *entry.time_us;
  }
  if (entry.confidence) {
    object["confidence"] = *entry.confidence;
  }
  return object;
}

namespace {

// The one order of entries, whatever order they were found in.
Value sorted_entries(const std::vector<TableEntry>& entries) {
  std::vector<const TableEntry*> order;
  order.reserve(entries.size());
  for (const TableEntry& entry : entries) {
    order.push_back(&entry);
  }
  std::ranges::stable_sort(order, [](const TableEntry* a, const TableEntry* b) {
    const auto key = [](const TableEntry& e) {
      return std::tie(e.types, e.shape, e.device_class, e.rank, e.config, e.artifact);
    };
    return key(*a) < key(*b);
  });
  Array array;
  array.reserve(order.size());
  for (const TableEntry* entry : order) {
    array.emplace_back(entry_to_json(*entry));
  }
  return array;
}

Value to_value(const KernelTable& table) {
  return Object{{"name", table.name},
                {"summary", table.summary},
                {"interface", table.interface.text()},
                {"types", to_array(table.types)},
                {"axes", to_array(table.axes)},
                {"lets", to_array(table.lets)},
                {"rules", to_array(table.rules)},
                {"arguments", to_array(table.arguments)},
                {"steps", to_array(table.steps)},
                {"entries", sorted_entries(table.entries)},
                {"pack", Object{{"digest", table.pack.text()},
                                {"size", table.pack_size},
                                {"raw_size", table.pack_raw_size}}}};
}

}  // namespace

std::string table_to_json(const KernelTable& table) {
  return json::to_text(to_value(table));
}

std::string catalogue_to_json(const Catalogue& catalogue) {
  std::vector<const KernelTable*> order;
  for (const KernelTable& table : catalogue.kernels) {
    order.push_back(&table);
  }
  std::ranges::stable_sort(
      order, {}, [](const KernelTable* table) -> const std::string& { return table->name; });
  Array kernels;
  for (const KernelTable* table : order) {
    kernels.push_back(to_value(*table));
  }
  return json::to_text(Object{{"catalogue", 1},
                              {"release", catalogue.release},
                              {"target", catalogue.target.text()},
                              {"toolkit", catalogue.toolkit.text()},
                              {"minimum_driver", catalogue.minimum_driver},
                              {"kernels", std::move(kernels)}});
}

}  // namespace cubinary::core
