// SPDX-License-Identifier: Apache-2.0
// The suite's own arithmetic, which needs no GPU: a comparison that accepts anything proves
// nothing.
#include <cmath>

#include <catch2/catch_test_macros.hpp>

#include "tests/gpu/elements.hpp"
#include "tests/gpu/launcher.hpp"
#include "tests/gpu/problem.hpp"

using namespace cubinary::gpu;

TEST_CASE("f16 rounds to nearest even, with subnormals and infinity") {
  CHECK(round_to("f16", 1.0F) == 1.0F);
  CHECK(round_to("f16", 2049.0F) == 2048.0F);
  CHECK(round_to("f16", 2051.0F) == 2052.0F);
  CHECK(round_to("f16", -0.1F) == -0.0999755859375F);
  CHECK(round_to("f16", 0x1p-24F) == 0x1p-24F);
  CHECK(round_to("f16", 0x1p-25F) == 0.0F);
  CHECK(round_to("f16", 0x1.8p-24F) == 0x1p-23F);
  CHECK(round_to("f16", 65519.0F) == 65504.0F);
  CHECK(std::isinf(round_to("f16", 65520.0F)));
  CHECK(std::isnan(round_to("f16", std::nanf(""))));
}

TEST_CASE("bf16 rounds to nearest even") {
  CHECK(round_to("bf16", 1.0F) == 1.0F);
  CHECK(round_to("bf16", 257.0F) == 256.0F);
  CHECK(round_to("bf16", 259.0F) == 260.0F);
  CHECK(round_to("bf16", -3.14159F) == -3.140625F);
  CHECK(std::isnan(round_to("bf16", std::nanf(""))));
}

TEST_CASE("encoded elements decode to the same values") {
  std::mt19937_64 random(1);
  for (const char* dtype : {"f32", "f16", "bf16"}) {
    const auto values = random_values(dtype, 1000, random);
    const auto bytes = encode(dtype, values);
    CHECK(bytes.size() == 1000 * element_size(dtype));
    CHECK(decode(dtype, bytes) == values);
  }
}

TEST_CASE("all bits set is NaN in every dtype: what poisons an output") {
  for (const char* dtype : {"f32", "f16", "bf16"}) {
    const std::vector<std::byte> poison(4, std::byte{0xff});
    for (const float value : decode(dtype, poison)) {
      CHECK(std::isnan(value));
    }
  }
}

TEST_CASE("a comparison counts what is beyond tolerance, NaN included") {
  const std::vector<double> expected = {1.0, 2.0, 0.0, 4.0};
  const auto good = compare({1.0F, 2.001F, 0.0005F, 4.0F}, expected, 1e-3, 1e-3);
  CHECK(good.wrong == 0);
  CHECK(good.of_tolerance > 0.3);
  CHECK(good.of_tolerance < 0.6);
  const auto bad = compare({1.0F, 2.1F, std::nanf(""), 4.0F}, expected, 1e-3, 1e-3);
  CHECK(bad.wrong == 2);
  CHECK(std::isnan(bad.of_tolerance));
}

TEST_CASE("references of small problems are what a hand computes") {
  std::mt19937_64 random(2);
  const Problem gemm = gemm_nt_problem("bf16", 2, 3, 2, random);
  const auto& a = gemm.inputs[0].second;
  const auto& b = gemm.inputs[1].second;
  const auto product = [&](std::size_t row, std::size_t column) {
    return static_cast<double>(a[2 * row]) * static_cast<double>(b[2 * column]) +
           static_cast<double>(a[2 * row + 1]) * static_cast<double>(b[2 * column + 1]);
  };
  CHECK(gemm.expected.size() == 6);
  CHECK(gemm.expected[5] == product(1, 2));
  CHECK(gemm.expected[1] == product(0, 1));

  const Problem l2norm = l2norm_problem("f32", 1, 1, {}, random);
  CHECK(std::fabs(std::fabs(l2norm.expected[0]) - 1.0) < 1e-9);
  const Problem rmsnorm = rmsnorm_problem("f32", 1, 1, 3.0F, random);
  const auto x = static_cast<double>(rmsnorm.inputs[0].second[0]);
  const auto w = static_cast<double>(rmsnorm.inputs[1].second[0]);
  CHECK(std::fabs(rmsnorm.expected[0] - x / std::sqrt(x * x + 3.0) * w) < 1e-12);
}
