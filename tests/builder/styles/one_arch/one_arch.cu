// SPDX-License-Identifier: Apache-2.0
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ == 900
extern "C" __global__ void only_90(float* y, const float* x, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    float value;
    asm volatile("ld.global.nc.f32 %0, [%1];" : "=f"(value) : "l"(x + i));
    y[i] = value;
  }
}
#endif
