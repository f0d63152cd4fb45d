// SPDX-License-Identifier: Apache-2.0
__global__ void hollow(float* y, const float* x, int n) {
#if __CUDA_ARCH__ == 860
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) {
    y[i] = x[i];
  }
#endif
}
