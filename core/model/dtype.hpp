// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace cubinary::core {

enum class DTypeKind : std::uint8_t { floating, signed_integer, unsigned_integer, boolean };

/// One element type. The table is the single place that maps names to sizes and C++ spellings.
struct DType {
  std::string_view name;    ///< canonical: f64 f32 f16 bf16 f8_e4m3 f8_e5m2 i64 i32 i8 u8 bool
  std::int64_t bytes;       ///< size of one element
  std::string_view c_name;  ///< CUDA C++ spelling (`__nv_bfloat16`)
  DTypeKind kind;
};

[[nodiscard]] std::span<const DType> dtype_table();
/// Null for an unknown name.
[[nodiscard]] const DType* find_dtype(std::string_view name);

/// What follows "unknown type …": the dtype that languages and libraries call by this name
/// (`float`, `half`, `u32`), otherwise the nearest of `known`, otherwise nothing.
[[nodiscard]] std::string did_you_mean_type(std::string_view wrong,
                                            std::span<const std::string> known);

}  // namespace cubinary::core
