// SPDX-License-Identifier: Apache-2.0
__constant__ float g_weights[3] = {0.25f, 0.5f, 0.25f};
__device__ int g_calls;

template <int Width>
__global__ void smooth(float* y, const float* x, int n) {
  extern __shared__ float tile[];
  __shared__ int first;
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (threadIdx.x == 0) {
    first = blockIdx.x * blockDim.x;
    atomicAdd(&g_calls, 1);
  }
  __syncthreads();
  tile[threadIdx.x % Width] = i < n ? x[i] : 0.0f;
  __syncthreads();
  if (i < n) y[i] = g_weights[1] * tile[(i - first) % Width] + g_weights[0];
}
