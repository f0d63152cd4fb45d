// SPDX-License-Identifier: Apache-2.0
#include <cstdio>

namespace host_code {
namespace {

template <typename T, int VEC>
__global__ void scale(T* y, const T* x, int n, float factor) {
  const int first = (blockIdx.x * blockDim.x + threadIdx.x) * VEC;
  for (int i = first; i < first + VEC && i < n; ++i) {
    y[i] = static_cast<T>(x[i] * factor);
  }
}

}  // namespace

template <typename T>
__global__ void scale_ref(T* y, const T* x, int n, float factor) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    y[i] = static_cast<T>(x[i] * factor);
  }
}

__global__ void nobody_asked() {}

void launch() {
  std::printf("host code\n");
}

}  // namespace host_code
