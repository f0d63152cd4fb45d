// SPDX-License-Identifier: Apache-2.0

__global__ void many_configs_ref(float* y, const float* x, long long n) {
  const long long i = blockIdx.x * 256LL + threadIdx.x;
  if (i < n) {
    y[i] = 2.0F * x[i] + 1.0F;
  }
}

template <int VEC>
struct alignas(4 * VEC) Pack {
  float values[VEC];
};

template <int VEC, int UNROLL>
__global__ void many_configs(float* y, const float* x, long long n) {
  const Pack<VEC>* from = reinterpret_cast<const Pack<VEC>*>(x);
  Pack<VEC>* to = reinterpret_cast<Pack<VEC>*>(y);
  const long long step = static_cast<long long>(gridDim.x) * blockDim.x;
  const long long packs = n / VEC;
#pragma unroll UNROLL
  for (long long i = blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x; i < packs; i += step) {
    Pack<VEC> pack = from[i];
#pragma unroll
    for (int j = 0; j < VEC; ++j) {
      pack.values[j] = 2.0F * pack.values[j] + 1.0F;
    }
    to[i] = pack;
  }
}
