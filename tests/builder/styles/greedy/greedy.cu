// SPDX-License-Identifier: Apache-2.0
__global__ void greedy(float* y, const float* x, int n) {
  __shared__ float fixed[8192];
  extern __shared__ float more[];
  const int i = static_cast<int>(threadIdx.x);
  fixed[i * 31 % 8192] = x[i % n];
  more[i] = x[i % n];
  __syncthreads();
  y[i % n] = more[255 - i] + fixed[i];
}
