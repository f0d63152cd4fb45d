// SPDX-License-Identifier: Apache-2.0
#include "core/launch/scalar.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <limits>
#include <string>

namespace cubinary::core {
namespace {

// A binary floating format: its largest finite value is stated, since f8_e4m3 gives up infinity for
// it.
struct FloatFormat {
  std::string_view dtype;
  int exponent_bits;
  int mantissa_bits;
  long double largest;
};

constexpr std::array k_formats = {
    FloatFormat{"f64", 11, 52, std::numeric_limits<double>::max()},
    FloatFormat{"f32", 8, 23, std::numeric_limits<float>::max()},
    FloatFormat{"f16", 5, 10, 65504.0L},
    FloatFormat{"bf16", 8, 7, 0x1.FEp127L},
    FloatFormat{"f8_e4m3", 4, 3, 448.0L},
    FloatFormat{"f8_e5m2", 5, 2, 57344.0L},
};

ScalarBytes little_endian(std::uint64_t bits) {
  ScalarBytes bytes{};
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<std::byte>(bits >> (8 * i));
  }
  return bytes;
}

std::string text_of(long double value) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.17Lg", value);
  return text.data();
}

Error does_not_fit(const DType& dtype, long double value) {
  return Error{ErrorCode::usage, text_of(value) + " does not fit " + std::string(dtype.name)};
}

// long double holds every int64 and double, so that there is one rounding only.
Result<ScalarBytes> encode_float(const DType& dtype, long double value) {
  const FloatFormat* format = nullptr;
  for (const FloatFormat& candidate : k_formats) {
    if (candidate.dtype == dtype.name) {
      format = &candidate;
    }
  }
  if (format == nullptr || !std::isfinite(value)) {
    return fail(does_not_fit(dtype, value));
  }
  const int bias = (1 << (format->exponent_bits - 1)) - 1;
  const int mantissa_bits = format->mantissa_bits;
  std::uint64_t bits = 0;
  if (const long double size = std::fabs(value); size > 0) {
    int exponent = std::max(std::ilogb(size), 1 - bias);
    long double scaled = std::nearbyint(std::scalbn(size, mantissa_bits - exponent));
    const std::uint64_t one = std::uint64_t{1} << mantissa_bits;
    if (scaled >= 2.0L * static_cast<long double>(one)) {
      scaled /= 2;
      ++exponent;
    }
    if (std::scalbn(scaled, exponent - mantissa_bits) > format->largest) {
      return fail(does_not_fit(dtype, value));
    }
    bits = static_cast<std::uint64_t>(scaled);
    if (bits >= one) {
      bits += (static_cast<std::uint64_t>(exponent + bias) - 1) << mantissa_bits;
    }
  }
  if (std::signbit(value)) {
    bits |= std::uint64_t{1} << (format->exponent_bits + mantissa_bits);
  }
  return little_endian(bits);
}

// Inclusive bounds of an integer type.
struct Range {
  std::int64_t low;
  std::int64_t high;
};

Range range_of(const DType& dtype) {
  const int bits = static_cast<int>(8 * dtype.bytes);
  switch (dtype.kind) {
    case DTypeKind::boolean:
      return {0, 1};
    case DTypeKind::unsigned_integer:
      return {
          0, bits == 64 ? std::numeric_limits<std::int64_t>::max() : (std::int64_t{1} << bits) - 1};
    default:
      return {std::numeric_limits<std::int64_t>::min() >> (64 - bits),
              std::numeric_limits<std::int64_t>::max() >> (64 - bits)};
  }
}

std::uint64_t low_bytes(std::uint64_t bits, std::int64_t bytes) {
  return bytes >= 8 ? bits : bits & ((std::uint64_t{1} << (8 * bytes)) - 1);
}

}  // namespace

Result<ScalarBytes> encode_scalar(const DType& dtype, std::int64_t value) {
  if (dtype.kind == DTypeKind::floating) {
    return encode_float(dtype, static_cast<long double>(value));
  }
  const Range range = range_of(dtype);
  if (value < range.low || value > range.high) {
    return fail(ErrorCode::usage,
                std::to_string(value) + " does not fit " + std::string(dtype.name));
  }
  return little_endian(low_bytes(std::bit_cast<std::uint64_t>(value), dtype.bytes));
}

Result<ScalarBytes> encode_scalar(const DType& dtype, double value) {
  if (dtype.kind == DTypeKind::floating) {
    return encode_float(dtype, static_cast<long double>(value));
  }
  constexpr double k_limit = 0x1p63;
  if (!(value >= -k_limit && value < k_limit) || std::trunc(value) != value) {
    return fail(does_not_fit(dtype, static_cast<long double>(value)));
  }
  return encode_scalar(dtype, static_cast<std::int64_t>(value));
}

}  // namespace cubinary::core
