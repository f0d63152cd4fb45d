// SPDX-License-Identifier: Apache-2.0
struct Half {
  short low, high;
};

__global__ void packed(float4* y, const float4* x, const unsigned* offsets, unsigned groups,
                       unsigned long long stride, uint3 fast, Half halves, bool negate) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < groups) {
    float4 value = x[offsets[i] * stride + fast.x % (fast.y + 1)];
    value.x = negate ? -value.x : value.x + static_cast<float>(halves.low + halves.high);
    y[i] = value;
  }
}
