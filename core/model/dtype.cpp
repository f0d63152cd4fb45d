// SPDX-License-Identifier: Apache-2.0
#include "core/model/dtype.hpp"

#include <algorithm>
#include <array>

#include "core/base/nearest.hpp"

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

struct OtherName {
  std::string_view name;
  std::string_view dtype;
};
constexpr std::array k_other_names = std::to_array<OtherName>({
    {"double", "f64"},       {"float64", "f64"}, {"fp64", "f64"},      {"float", "f32"},
    {"float32", "f32"},      {"fp32", "f32"},    {"half", "f16"},      {"__half", "f16"},
    {"float16", "f16"},      {"fp16", "f16"},    {"bfloat16", "bf16"}, {"__nv_bfloat16", "bf16"},
    {"fp8", "f8_e4m3"},      {"long", "i64"},    {"int64", "i64"},     {"int64_t", "i64"},
    {"u64", "i64"},          {"uint64", "i64"},  {"uint64_t", "i64"},  {"size_t", "i64"},
    {"int", "i32"},          {"int32", "i32"},   {"int32_t", "i32"},   {"u32", "i32"},
    {"uint", "i32"},         {"uint32", "i32"},  {"uint32_t", "i32"},  {"unsigned", "i32"},
    {"unsigned int", "i32"}, {"int8", "i8"},     {"int8_t", "i8"},     {"uint8", "u8"},
    {"uint8_t", "u8"},       {"char", "i8"},     {"byte", "u8"},
});

}  // namespace

std::span<const DType> dtype_table() {
  return k_dtypes;
}

const DType* find_dtype(std::string_view name) {
  const auto found = std::ranges::find(k_dtypes, name, &DType::name);
  return found == k_dtypes.end() ? nullptr : &*found;
}

std::string did_you_mean_type(std::string_view wrong, std::span<const std::string> known) {
  const auto other = std::ranges::find(k_other_names, wrong, &OtherName::name);
  if (other == k_other_names.end()) {
    return did_you_mean(wrong, known);
  }
  const std::string dtype(other->dtype);
  const bool of_unsigned = wrong.front() == 'u' || wrong == "size_t";
  return " (did you mean \"" + dtype + "\"" +
         (of_unsigned && find_dtype(dtype)->kind == DTypeKind::signed_integer
              ? "? An unsigned integer goes by the signed one of its size)"
              : "?)");
}

}  // namespace cubinary::core
