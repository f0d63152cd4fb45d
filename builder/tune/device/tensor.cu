// SPDX-License-Identifier: Apache-2.0
// The peak of matrix products through mma.sync, which every device from sm_80 on has. Compiled into tensor.ptx by
// scripts/device_ptx.
using u32 = unsigned int;

/// 16 independent mma.m16n8k16 of f16 into f32 a round and warp: 65536 flops.
extern "C" __global__ void __launch_bounds__(256) mma_f16(float* sink, u32 rounds, u32 never) {
  // Random bits with exponents near one: power, and so the clock, depends on the data.
  u32 bits = blockIdx.x * blockDim.x + threadIdx.x + 1U;
  const auto next = [&]() {
    bits ^= bits << 13;
    bits ^= bits >> 17;
    bits ^= bits << 5;
    return (bits & 0x83ff83ffU) | 0x38003800U;
  };
  u32 a[4][4];
  u32 b[4][2];
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
  for (u32 round = 0; round < rounds; ++round) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        float* c = sum[i][j];
        asm volatile(
            "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
            "{%8, %9}, {%0, %1, %2, %3};"
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
            : "r"(a[i][0]), "r"(a[i][1]), "r"(a[i][2]), "r"(a[i][3]), "r"(b[j][0]), "r"(b[j][1]));
      }
    }
  }
  if (never != 0) {
    float total = 0;
#pragma unroll
    for (int i = 0; i < 64; ++i) {
      total += sum[i / 16][i / 4 % 4][i % 4];
    }
    sink[blockIdx.x * blockDim.x + threadIdx.x] = total;
  }
}
