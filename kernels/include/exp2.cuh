// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "vector.cuh"

/// 2^x; results below 2^-126 become 0.
__device__ inline float fast_exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// The same on the units that add and multiply, for x < 128: 2^x of the nearest integer, times a
/// polynomial for the rest that is off by at most 7.5e-5 of itself. About 2^-127 becomes 0.
__device__ inline float fma_exp2(float x) {
  constexpr float to_integer = 12582912.0F;  // 1.5 * 2^23: a sum's low bits are the integer
  x = max_or_nan(x, -127.0F);
  const float sum = x + to_integer;
  const float f = x - (sum - to_integer);
  const float power = __int_as_float((__float_as_int(sum) << 23) + 0x3f800000);
  return power * fmaf(fmaf(fmaf(0.05517167F, f, 0.24261112F), f, 0.69326099F), f, 0.99992807F);
}
