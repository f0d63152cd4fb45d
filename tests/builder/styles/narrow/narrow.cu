// SPDX-License-Identifier: Apache-2.0
#include <cuda_fp16.h>
#include <cuda_fp4.h>
#include <cuda_fp6.h>
#include <cuda_fp8.h>

__global__ void narrow(float* y, const float* x, int n) {
  const int i = 2 * static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i + 1 < n) {
    const __half2 pair = __hfma2(__floats2half2_rn(x[i], x[i + 1]), __float2half2_rn(2.0f), __float2half2_rn(1.0f));
    const __nv_fp8x2_e4m3 eight(__half22float2(pair));
    const __nv_fp4x2_e2m1 four(__half22float2(pair));
    const __nv_fp6_e3m2 six(x[i]);
    y[i] = static_cast<float2>(eight).x + static_cast<float>(six);
    y[i + 1] = static_cast<float2>(four).y;
  }
}
