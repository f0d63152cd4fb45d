// SPDX-License-Identifier: Apache-2.0
#include <curand_kernel.h>

__global__ void noise(float* y, unsigned long long seed, int n) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    curandStatePhilox4_32_10_t state;
    curand_init(seed, i, 0, &state);
    y[i] = curand_normal(&state);
  }
}
