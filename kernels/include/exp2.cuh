// SPDX-License-Identifier: Apache-2.0
#pragma once

/// 2^x; results below 2^-126 become 0.
__device__ inline float fast_exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
