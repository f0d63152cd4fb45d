// SPDX-License-Identifier: Apache-2.0
extern "C" __device__ float somewhere_else(float x);

extern "C" __global__ void calls(float* y, const float* x, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = somewhere_else(x[i]);
}
