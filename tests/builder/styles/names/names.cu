// SPDX-License-Identifier: Apache-2.0
#include <cuda_bf16.h>

namespace lib {
enum class Mode : int { up = 1, down = -1 };
template <typename T, int N>
struct Pair {
  static constexpr int k_size = N;
};
namespace detail {
template <typename P, int Shift, bool Fast, Mode M, char C>
__global__ void apply(float* y, const float* x, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    const float shifted = x[i] + static_cast<float>(Shift * static_cast<int>(M) + P::k_size + C);
    y[i] = Fast ? __fdividef(shifted, 3.0f) : shifted / 3.0f;
  }
}
}  // namespace detail
}  // namespace lib
