// SPDX-License-Identifier: Apache-2.0
__global__ void leader(float* y, const float* x, int n) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  int elected = 0;
#if __CUDA_ARCH__ >= 900
  asm volatile("{ .reg .pred p; elect.sync _|p, 0xffffffff; selp.s32 %0, 1, 0, p; }" : "=r"(elected));
#endif
  if (i < n) {
    y[i] = x[i] + elected;
  }
}
