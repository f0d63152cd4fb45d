// SPDX-License-Identifier: Apache-2.0
__global__ void hoarder(float* y, const float* x, int n) {
  __shared__ float held[70000];
  for (int i = static_cast<int>(threadIdx.x); i < 70000; i += 256) {
    held[i] = i < n ? x[i] : 0.0f;
  }
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < n; i += 256) {
    y[i] = held[(i * 7919) % 70000];
  }
}
