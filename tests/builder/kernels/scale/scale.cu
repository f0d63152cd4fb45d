// SPDX-License-Identifier: Apache-2.0
#include "scale.cuh"

template <typename T, int VEC>
__global__ void __launch_bounds__(1024) scale(T* y, const T* x, int n, float factor) {
  const int first = (blockIdx.x * blockDim.x + threadIdx.x) * VEC;
#pragma unroll
  for (int i = 0; i < VEC; ++i) {
    if (first + i < n) {
      y[first + i] = scaled(x[first + i], factor);
    }
  }
}

template <typename T>
__global__ void scale_ref(T* y, const T* x, int n, float factor) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    y[i] = scaled(x[i], factor);
  }
}
