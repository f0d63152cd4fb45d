// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <cuda_runtime.h>

__global__ void doubled(float* y, const float* x, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2 * x[i];
}

int main() {
  float* memory = nullptr;
  cudaMalloc(&memory, 1024);
  doubled<<<1, 128>>>(memory, memory, 128);
  std::printf("%d\n", static_cast<int>(cudaDeviceSynchronize()));
  return 0;
}
