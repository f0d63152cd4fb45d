// SPDX-License-Identifier: Apache-2.0
#include <cuda/std/array>

enum class Op { scale, shift };

template <int STEP>
struct Strided {
  static __device__ int index(int i) { return i * STEP % 128; }
};

/// A template of a template, a value of whatever type, an enumerator, a lambda in a template.
template <Op OP, auto WIDTH, template <int> class Order>
__global__ void apply(float* y, const float* x, int n) {
  const auto change = [](auto value) {
    if constexpr (OP == Op::scale) {
      return value * static_cast<decltype(value)>(WIDTH);
    } else {
      return value + static_cast<decltype(value)>(WIDTH);
    }
  };
  cuda::std::array<float, 2> both{};
  const int i = static_cast<int>(blockIdx.x * 128) + Order<3>::index(static_cast<int>(threadIdx.x));
  if (i < n) {
    both[0] = change(x[i]);
    both[1] = both[0] - x[i];
    y[i] = both[0] + both[1];
  }
}
