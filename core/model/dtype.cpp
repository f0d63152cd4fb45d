// SPDX-License-Identifier: Apache-2.0
#include "core/model/dtype.hpp"

#include <algorithm>
#include <array>

namespace cubinary::core {
namespace {

using enum DTypeKind;
constexpr std::array k_dtypes = {
    DType{"f64", 8, "double", floating},
    DType{"f32", 4, "float", floating},
    DType{"f16", 2, "__half", floating},
    DType{"bf16", 2, "__nv_bfloat16", floating},
    DType{"f8_e4m3", 1, "__nv_fp8_e4m3", floating},
    DType{"f8_e5m2", 1, "__nv_fp8_e5m2", floating},
    DType{"i64", 8, "long long", signed_integer},
    DType{"i32", 4, "int", signed_integer},
    DType{"i8", 1, "signed char", signed_integer},
    DType{"u8", 1, "unsigned char", unsigned_integer},
    DType{"bool", 1, "bool", boolean},
};

}  // namespace

std::span<const DType> dtype_table() {
  return k_dtypes;
}

const DType* find_dtype(std::string_view name) {
  const auto found = std::ranges::find(k_dtypes, name, &DType::name);
  return found == k_dtypes.end() ? nullptr : &*found;
}

}  // namespace cubinary::core
