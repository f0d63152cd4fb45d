// SPDX-License-Identifier: Apache-2.0
__global__ void wrong_width(float* y, const float* x, long long n) {
  const long long i = blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x;
  if (i < n) {
    y[i] = x[i];
  }
}
