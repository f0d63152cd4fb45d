// SPDX-License-Identifier: Apache-2.0
template <int BOUND>
__global__ void __launch_bounds__(BOUND) bounded_some(float* y, const float* x, int n) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) {
    y[i] = x[i];
  }
}
