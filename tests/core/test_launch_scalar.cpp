// SPDX-License-Identifier: Apache-2.0
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include <catch2/catch_test_macros.hpp>

#include "core/launch/scalar.hpp"

using namespace cubinary::core;

namespace {

template <typename T>
std::uint64_t bits(std::string_view dtype, T value) {
  const ScalarBytes bytes = encode_scalar(*find_dtype(dtype), value).value();
  std::uint64_t result = 0;
  std::memcpy(&result, bytes.data(), bytes.size());
  return result;
}

template <typename T>
bool fits(std::string_view dtype, T value) {
  const auto encoded = encode_scalar(*find_dtype(dtype), value);
  if (!encoded) {
    CHECK(encoded.error().code == ErrorCode::usage);
    CHECK(encoded.error().message.find(dtype) != std::string::npos);
  }
  return encoded.has_value();
}

std::int64_t i(std::int64_t value) {
  return value;
}

}  // namespace

TEST_CASE("integers are exact or refused") {
  CHECK(bits("i32", i(-1)) == 0xFFFFFFFFU);
  CHECK(bits("i32", i(2147483647)) == 0x7FFFFFFFU);
  CHECK(bits("i8", i(-128)) == 0x80U);
  CHECK(bits("u8", i(255)) == 0xFFU);
  CHECK(bits("bool", i(1)) == 1U);
  CHECK(bits("i64", std::numeric_limits<std::int64_t>::min()) == 0x8000000000000000U);
  CHECK_FALSE(fits("i32", i(2147483648)));
  CHECK_FALSE(fits("i32", i(-2147483649)));
  CHECK_FALSE(fits("i8", i(128)));
  CHECK_FALSE(fits("u8", i(-1)));
  CHECK_FALSE(fits("u8", i(256)));
  CHECK_FALSE(fits("bool", i(2)));
}

TEST_CASE("numbers with a fraction do not become integers silently") {
  CHECK(bits("i32", 3.0) == 3U);
  CHECK(bits("i32", -3.0) == 0xFFFFFFFDU);
  CHECK_FALSE(fits("i32", 3.5));
  CHECK_FALSE(fits("i64", 0x1p63));
  CHECK(fits("i64", -0x1p63));
  CHECK_FALSE(fits("i64", std::nan("")));
}

TEST_CASE("f32 and f64 have the bits the compiler gives them") {
  std::mt19937_64 random(1);
  for (int round = 0; round < 20'000; ++round) {
    const auto value = std::bit_cast<double>(random());
    if (!std::isfinite(value)) {
      continue;
    }
    CHECK(bits("f64", value) == std::bit_cast<std::uint64_t>(value));
    const auto small = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    if (std::isfinite(small)) {
      const double near = static_cast<double>(small) * (1 + 1e-9 * static_cast<double>(round % 64));
      if (std::isfinite(static_cast<float>(near))) {
        CHECK(bits("f32", near) == std::bit_cast<std::uint32_t>(static_cast<float>(near)));
      }
    }
    const auto whole = static_cast<std::int64_t>(random());
    CHECK(bits("f32", whole) == std::bit_cast<std::uint32_t>(static_cast<float>(whole)));
    CHECK(bits("f64", whole) == std::bit_cast<std::uint64_t>(static_cast<double>(whole)));
  }
  CHECK(bits("f32", 1e-6) == std::bit_cast<std::uint32_t>(1e-6F));
  CHECK(bits("f32", -0.0) == 0x80000000U);
  CHECK_FALSE(fits("f32", 1e39));
  CHECK_FALSE(fits("f32", std::numeric_limits<double>::infinity()));
}

TEST_CASE("f16 rounds to nearest even, with subnormals") {
  CHECK(bits("f16", 1.0) == 0x3C00U);
  CHECK(bits("f16", -2.0) == 0xC000U);
  CHECK(bits("f16", 65504.0) == 0x7BFFU);
  CHECK(bits("f16", 65519.0) == 0x7BFFU);
  CHECK_FALSE(fits("f16", 65520.0));
  CHECK(bits("f16", 0.1) == 0x2E66U);
  CHECK(bits("f16", 0x1p-24) == 0x0001U);
  CHECK(bits("f16", 0x1p-25) == 0x0000U);
  CHECK(bits("f16", 0x1.8p-25) == 0x0001U);
  CHECK(bits("f16", 0x1p-14) == 0x0400U);
  CHECK(bits("f16", 0x1.ffep-15) == 0x0400U);  // rounds up out of the subnormals
  CHECK(bits("f16", 2049.0) == 0x6800U);       // tie to even
  CHECK(bits("f16", 2051.0) == 0x6802U);
  CHECK(bits("f16", 1e-6) == 0x0011U);
}

TEST_CASE("bf16 and the eight-bit floats") {
  CHECK(bits("bf16", 1.0) == 0x3F80U);
  CHECK(bits("bf16", 3.140625) == 0x4049U);
  CHECK(bits("bf16", 1.00390625) == 0x3F80U);  // tie to even
  CHECK(bits("bf16", 1.01171875) == 0x3F82U);
  CHECK(bits("bf16", 1e-6) == 0x3586U);
  CHECK_FALSE(fits("bf16", 3.4e38 * 1.0));
  CHECK(bits("f8_e4m3", 1.0) == 0x38U);
  CHECK(bits("f8_e4m3", 448.0) == 0x7EU);
  CHECK(bits("f8_e4m3", 0x1p-9) == 0x01U);
  CHECK_FALSE(fits("f8_e4m3", 480.0));
  CHECK(bits("f8_e5m2", 1.0) == 0x3CU);
  CHECK(bits("f8_e5m2", -57344.0) == 0xFBU);
  CHECK_FALSE(fits("f8_e5m2", 65536.0));
}

TEST_CASE("every f16 comes back as itself") {
  for (std::uint32_t pattern = 0; pattern < 0x7C00U; ++pattern) {
    const int exponent = static_cast<int>(pattern >> 10U);
    const double fraction = pattern & 0x3FFU;
    const double value =
        exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
    CHECK(bits("f16", value) == pattern);
  }
}
