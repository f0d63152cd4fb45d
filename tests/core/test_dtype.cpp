// SPDX-License-Identifier: Apache-2.0
#include <set>
#include <string>

#include <catch2/catch_test_macros.hpp>

#include "core/model/dtype.hpp"

using namespace cubinary::core;

TEST_CASE("the dtype table") {
  struct Row {
    const char* name;
    int bytes;
    const char* c_name;
  };
  const Row rows[] = {{"f64", 8, "double"},
                      {"f32", 4, "float"},
                      {"f16", 2, "__half"},
                      {"bf16", 2, "__nv_bfloat16"},
                      {"f8_e4m3", 1, "__nv_fp8_e4m3"},
                      {"f8_e5m2", 1, "__nv_fp8_e5m2"},
                      {"i64", 8, "long long"},
                      {"i32", 4, "int"},
                      {"i8", 1, "signed char"},
                      {"u8", 1, "unsigned char"},
                      {"bool", 1, "bool"}};
  CHECK(dtype_table().size() == std::size(rows));
  for (const Row& row : rows) {
    const DType* dtype = find_dtype(row.name);
    REQUIRE(dtype != nullptr);
    CHECK(dtype->name == row.name);
    CHECK(dtype->bytes == row.bytes);
    CHECK(dtype->c_name == row.c_name);
  }
  CHECK(find_dtype("f31") == nullptr);
  CHECK(find_dtype("") == nullptr);
  CHECK(find_dtype("F32") == nullptr);
  CHECK(find_dtype("bf16")->kind == DTypeKind::floating);
  CHECK(find_dtype("i64")->kind == DTypeKind::signed_integer);
  CHECK(find_dtype("u8")->kind == DTypeKind::unsigned_integer);
  CHECK(find_dtype("bool")->kind == DTypeKind::boolean);
}
