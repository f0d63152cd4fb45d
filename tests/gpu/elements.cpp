// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu/elements.hpp"

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace cubinary::gpu {

namespace {

std::uint16_t to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value)) {
    return static_cast<std::uint16_t>(bits >> 16 | 0x40U);
  }
  return static_cast<std::uint16_t>((bits + 0x7fffU + (bits >> 16 & 1U)) >> 16);
}

float from_bf16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

std::uint16_t to_f16(float value) {
  const auto sign = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16 & 0x8000U);
  const float magnitude = std::fabs(value);
  if (std::isnan(value)) {
    return static_cast<std::uint16_t>(sign | 0x7e00U);
  }
  if (magnitude >= 65520.0F) {  // halfway between the largest finite value and the next step
    return static_cast<std::uint16_t>(sign | 0x7c00U);
  }
  if (magnitude < 0x1p-14F) {  // subnormal: a multiple of 2^-24; nearbyint rounds to even
    return static_cast<std::uint16_t>(sign |
                                      static_cast<unsigned>(std::nearbyint(magnitude * 0x1p24F)));
  }
  const auto bits = std::bit_cast<std::uint32_t>(magnitude);
  const std::uint32_t rounded = bits + 0xfffU + (bits >> 13 & 1U);
  return static_cast<std::uint16_t>(sign | ((rounded >> 13) - (112U << 10)));
}

float from_f16(std::uint16_t bits) {
  const float sign = (bits & 0x8000U) != 0 ? -1.0F : 1.0F;
  const int exponent = bits >> 10 & 0x1f;
  const auto fraction = static_cast<float>(bits & 0x3ffU);
  if (exponent == 0x1f) {
    return fraction != 0 ? std::nanf("") : sign * INFINITY;
  }
  if (exponent == 0) {
    return sign * fraction * 0x1p-24F;
  }
  return sign * std::ldexp(1.0F + fraction * 0x1p-10F, exponent - 15);
}

}  // namespace

std::size_t element_size(std::string_view dtype) {
  return dtype == "f32" ? 4 : 2;
}

float round_to(std::string_view dtype, float value) {
  if (dtype == "f16") {
    return from_f16(to_f16(value));
  }
  return dtype == "bf16" ? from_bf16(to_bf16(value)) : value;
}

std::vector<std::byte> encode(std::string_view dtype, std::span<const float> values) {
  std::vector<std::byte> bytes(values.size() * element_size(dtype));
  if (dtype == "f32") {
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint16_t bits = dtype == "f16" ? to_f16(values[i]) : to_bf16(values[i]);
    std::memcpy(bytes.data() + 2 * i, &bits, 2);
  }
  return bytes;
}

std::vector<float> decode(std::string_view dtype, std::span<const std::byte> bytes) {
  std::vector<float> values(bytes.size() / element_size(dtype));
  if (dtype == "f32") {
    std::memcpy(values.data(), bytes.data(), values.size() * 4);
    return values;
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, bytes.data() + 2 * i, 2);
    values[i] = dtype == "f16" ? from_f16(bits) : from_bf16(bits);
  }
  return values;
}

std::vector<float> random_values(std::string_view dtype, std::size_t count,
                                 std::mt19937_64& random) {
  std::normal_distribution<float> normal(0.0F, 1.0F);
  std::vector<float> values(count);
  for (float& value : values) {
    value = round_to(dtype, normal(random));
  }
  return values;
}

}  // namespace cubinary::gpu
