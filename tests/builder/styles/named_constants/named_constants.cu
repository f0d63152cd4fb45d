// SPDX-License-Identifier: Apache-2.0
#include <cstdio>

#define UNROLL 4
enum Mode { k_copy, k_negate };
constexpr int k_threads = 128;

template <typename T, int THREADS, int STEPS, int MODE>
static __global__ void __launch_bounds__(THREADS)
    apply(T* __restrict__ const y, const T* __restrict__ const x, const int n) {
  for (int step = 0; step < STEPS; ++step) {
    const int i = static_cast<int>(blockIdx.x * STEPS + step) * THREADS + threadIdx.x;
    if (i < n) {
      y[i] = MODE == k_negate ? -x[i] : x[i];
    }
  }
}

template __global__ void apply<float, 128, 4, 0>(float*, const float*, int);
template __global__ void apply<float, 128, 4, 1>(float*, const float*, int);
template __global__ void apply<float, 64, 4, 1>(float*, const float*, int);
