// SPDX-License-Identifier: Apache-2.0
__global__ void forgotten(float* y, const float* x, int n, float scale) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) {
    y[i] = x[i] * scale;
  }
}
