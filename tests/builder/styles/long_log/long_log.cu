// SPDX-License-Identifier: Apache-2.0
#define TEN(M, X) M(X##0) M(X##1) M(X##2) M(X##3) M(X##4) M(X##5) M(X##6) M(X##7) M(X##8) M(X##9)
#define UNUSED(X) int unused_##X = X;
#define HUNDRED(X) TEN(UNUSED, X##1) TEN(UNUSED, X##2) TEN(UNUSED, X##3) TEN(UNUSED, X##4) TEN(UNUSED, X##5)

extern "C" __global__ void noisy(float* y, const float* x, int n) {
  { HUNDRED(1) }
  { HUNDRED(2) }
  { HUNDRED(3) }
  { HUNDRED(4) }
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i];
}
