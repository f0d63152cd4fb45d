// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <optional>
#include <string_view>

#include "core/table/kernel_table.hpp"

/// The wire's words and the reader's checks, for core/kernel_table_*.cpp only.
namespace cubinary::core {

template <typename Enum>
struct NamedValue {
  std::string_view name;
  Enum value;
};

inline constexpr std::array k_argument_kinds = {
    NamedValue<ArgumentKind>{"in", ArgumentKind::in},
    NamedValue<ArgumentKind>{"out", ArgumentKind::out},
    NamedValue<ArgumentKind>{"inout", ArgumentKind::inout},
    NamedValue<ArgumentKind>{"scalar", ArgumentKind::scalar},
    NamedValue<ArgumentKind>{"workspace", ArgumentKind::workspace},
    NamedValue<ArgumentKind>{"bytes", ArgumentKind::bytes},
    NamedValue<ArgumentKind>{"handle", ArgumentKind::handle},
};
inline constexpr std::array k_buckets = {
    NamedValue<Bucket>{"exact", Bucket::exact},
    NamedValue<Bucket>{"log2", Bucket::log2},
};
inline constexpr std::array k_origins = {
    NamedValue<Origin>{"default", Origin::fallback},
    NamedValue<Origin>{"tuned", Origin::tuned},
};

template <typename Table, typename Enum>
[[nodiscard]] constexpr std::string_view name_of(const Table& table, Enum value) {
  for (const auto& row : table) {
    if (row.value == value) {
      return row.name;
    }
  }
  return {};
}

/// Whether the table is consistent in itself: see catalogue_from_json. The message begins with the
/// place ("entries[3].offset: …").
[[nodiscard]] Result<void> check_table(const KernelTable& table);

}  // namespace cubinary::core
