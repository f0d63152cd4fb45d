// SPDX-License-Identifier: Apache-2.0

// Each level needs two of the next with other arguments: 2^30 instantiations.
template <int DEPTH, long PATH>
struct Slow {
  static constexpr int value =
      Slow<DEPTH - 1, PATH * 2>::value + Slow<DEPTH - 1, PATH * 2 + 1>::value;
};
template <long PATH>
struct Slow<0, PATH> {
  static constexpr int value = 1;
};

template <typename T, int VEC>
__global__ void slow(T* y, const T* x, int n, float factor) {
  y[0] = x[0] * factor + Slow<30 * VEC, 1>::value;
}

template <typename T>
__global__ void slow_ref(T* y, const T* x, int n, float factor) {
  y[0] = x[0] * factor;
}
