// SPDX-License-Identifier: Apache-2.0
template <typename T, int VEC>
__global__ void broken(T* y, const T* x, int n, float factor) {
  static_assert(VEC != 4, "four is right out");
  if (threadIdx.x < n) {
    y[threadIdx.x] = x[threadIdx.x] * factor;
  }
}

template <typename T>
__global__ void broken_ref(T* y, const T* x, int n, float factor) {
  y[threadIdx.x] = x[threadIdx.x] * factor;
}
