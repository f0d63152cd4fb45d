// SPDX-License-Identifier: Apache-2.0
#include "core/launch/names.hpp"

#include <algorithm>

#include "core/base/nearest.hpp"
#include "core/model/dtype.hpp"

namespace cubinary::core {
namespace {

tl::unexpected<Error> usage(const KernelTable& table, std::string message) {
  return fail(ErrorCode::usage, "kernel " + table.name + ": " + std::move(message));
}

template <typename Items>
std::vector<std::string> names_of(const Items& items) {
  std::vector<std::string> names;
  for (const auto& item : items) {
    names.push_back(item.name);
  }
  return names;
}

// Both ways: what is asked for exists, what exists is given.
template <typename Items, typename Given>
Result<void> check_names(const KernelTable& table, const Items& known, const Given& given,
                         std::string_view what) {
  for (const auto& [name, value] : given) {
    if (std::ranges::find(known, name, &Items::value_type::name) == known.end()) {
      return usage(table, "unknown " + std::string(what) + " \"" + name + "\"" +
                              did_you_mean(name, names_of(known)));
    }
  }
  for (const auto& item : known) {
    if (!given.contains(item.name)) {
      return usage(table, "no value is given for " + std::string(what) + " " + item.name);
    }
  }
  return {};
}

}  // namespace

const DType* argument_dtype(const Argument& argument, const Types& types) {
  if (argument.type.empty()) {
    return nullptr;
  }
  const auto bound = types.find(argument.type);
  return find_dtype(bound == types.end() ? argument.type : bound->second);
}

Result<void> check_types(const KernelTable& table, const Types& types) {
  TRY(check_names(table, table.types, types, "type"));
  for (const auto& [name, dtype] : types) {
    if (find_dtype(dtype) == nullptr) {
      std::string known;
      for (const DType& row : dtype_table()) {
        known += " " + std::string(row.name);
      }
      return usage(table, "type " + name + ": unknown dtype \"" + dtype + "\"; known are" + known);
    }
  }
  return {};
}

Result<void> check_shape(const KernelTable& table, const Shape& shape) {
  TRY(check_names(table, table.axes, shape, "axis"));
  for (const auto& [name, value] : shape) {
    if (value < 0) {
      return usage(table, "axis " + name + " is " + std::to_string(value) + "; it must be ≥ 0");
    }
  }
  return {};
}

Result<void> check_alignments(const KernelTable& table, const Types& types,
                              const Alignments& alignments) {
  for (const auto& [name, bytes] : alignments) {
    const auto argument = std::ranges::find(table.arguments, name, &Argument::name);
    if (argument == table.arguments.end() || !is_pointer(argument->kind)) {
      std::vector<std::string> known;
      for (const Argument& candidate : table.arguments) {
        if (is_pointer(candidate.kind)) {
          known.push_back(candidate.name);
        }
      }
      return usage(table, "unknown pointer argument \"" + name + "\"" + did_you_mean(name, known));
    }
    const DType* dtype = argument_dtype(*argument, types);
    const std::int64_t element = dtype == nullptr ? 1 : dtype->bytes;
    if (bytes < element || (bytes & (bytes - 1)) != 0) {
      return usage(table, "argument " + name + ": an alignment of " + std::to_string(bytes) +
                              " bytes is no power of two of at least its element's " +
                              std::to_string(element));
    }
  }
  return {};
}

}  // namespace cubinary::core
