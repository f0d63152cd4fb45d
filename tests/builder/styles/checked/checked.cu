// SPDX-License-Identifier: Apache-2.0
#ifndef __CUDACC_RTC__
#include <assert.h>
#include <stdio.h>
#endif

#define STRINGIFY(x) #x
#define PRAGMA(x) _Pragma(STRINGIFY(x))
#define KERNEL extern "C" __global__ void

struct Table {
  float by[4];
};

KERNEL checked(float* y, const float* x, int n, const __grid_constant__ Table table) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  assert(n >= 0);
  if (i < n) {
    float sum = x[i];
    PRAGMA(unroll 4)
    for (int k = 0; k < 4; ++k) {
      sum += table.by[k];
    }
    if (sum != sum) {
      printf("no number at %d\n", i);
    }
    y[i] = sum;
  }
}
