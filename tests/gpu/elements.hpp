// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <random>
#include <span>
#include <string_view>
#include <vector>

namespace cubinary::gpu {

/// Bytes of an f32, f16 or bf16 element.
[[nodiscard]] std::size_t element_size(std::string_view dtype);

/// The value rounded to nearest even in `dtype`.
[[nodiscard]] float round_to(std::string_view dtype, float value);

/// Little-endian elements of `values`, each rounded to `dtype`.
[[nodiscard]] std::vector<std::byte> encode(std::string_view dtype, std::span<const float> values);

/// The values of such elements; exact.
[[nodiscard]] std::vector<float> decode(std::string_view dtype, std::span<const std::byte> bytes);

/// Normally distributed values, already rounded to `dtype`: what the CPU reference and the GPU see.
[[nodiscard]] std::vector<float> random_values(std::string_view dtype, std::size_t count,
                                               std::mt19937_64& random);

}  // namespace cubinary::gpu
