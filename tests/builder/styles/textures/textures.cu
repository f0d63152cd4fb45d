// SPDX-License-Identifier: Apache-2.0
__constant__ float weights[2] = {0.25f, 0.75f};
__device__ unsigned long long visits;

__global__ void look_up(float* y, cudaTextureObject_t texture, cudaSurfaceObject_t surface, int n) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) {
    atomicAdd(&visits, 1ULL);
    const float value = weights[0] * tex1Dfetch<float>(texture, i) + weights[1] * tex2D<float>(texture, i + 0.5f, 0.5f);
    surf1Dwrite(value, surface, i * 4);
    y[i] = value;
  }
}
