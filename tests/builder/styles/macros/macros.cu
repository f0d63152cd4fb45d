// SPDX-License-Identifier: Apache-2.0
#ifndef TILE
#error TILE is missing
#endif
extern "C" __global__ void __launch_bounds__(block_size_x) vector_add(REAL* y, const REAL* x, int n) {
#pragma unroll
  for (int j = 0; j < TILE; ++j) {
    const int i = (blockIdx.x * TILE + j) * block_size_x + threadIdx.x;
    if (i < n) {
      REAL sum = 0;
#pragma unroll
      for (int d = 0; d < DEPTH; ++d) sum += x[(i + d) % n];
      y[i] = sum;
    }
  }
}
