// SPDX-License-Identifier: Apache-2.0
#include <cub/cub.cuh>

__global__ void nothing(float* y, const float* x, int n) {
  if (n > 0) y[0] = x[0];
}
