// SPDX-License-Identifier: Apache-2.0
#include "tensor_core.cuh"

/// Nothing but mma.m16n8k16: `rounds` rounds of 16 independent ones a warp, 4096 flops each. What a
/// matrix product through mma.sync can reach at most on this GPU, clocks and power included.
template <typename T>
__global__ void __launch_bounds__(256) mma_peak(float* out, int rounds) {
  // Operands with random bits and exponents near one: power, and so the clock, depends on the data.
  unsigned bits = blockIdx.x * blockDim.x + threadIdx.x + 1U;
  const auto next = [&]() {
    bits ^= bits << 13;
    bits ^= bits >> 17;
    bits ^= bits << 5;
    return (bits & 0x83ff83ffU) | 0x38003800U;
  };
  unsigned a[4][4];
  unsigned b[4][2];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      a[i][j] = next();
    }
    b[i][0] = next();
    b[i][1] = next();
  }
  float sum[4][4][4] = {};
  for (int round = 0; round < rounds; ++round) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        multiply_add<T>(sum[i][j], a[i], b[j][0], b[j][1]);
      }
    }
  }
  float total = 0.0F;
#pragma unroll
  for (int i = 0; i < 64; ++i) {
    total += sum[i / 16][i / 4 % 4][i % 4];
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = total;
}
