// SPDX-License-Identifier: Apache-2.0
namespace {
__global__ void hidden(float* y, const float* x, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i];
}
}  // namespace
