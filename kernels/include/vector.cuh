// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

/// What one load or store moves: 2, 4, 8 or 16 bytes.
template <int BYTES>
struct Word;
template <>
struct Word<2> {
  using Type = unsigned short;
};
template <>
struct Word<4> {
  using Type = unsigned;
};
template <>
struct Word<8> {
  using Type = uint2;
};
template <>
struct Word<16> {
  using Type = uint4;
};

/// N neighbouring elements, N * sizeof(T) bytes that a Word exists for.
template <typename T, int N>
struct Pack {
  T value[N];
};

/// Loads elements N * at … N * at + N - 1 at once; `from` is aligned to N elements. Through a Word,
/// since the compiler may split a struct's load into its elements.
template <int N, typename T>
__device__ inline Pack<T, N> load_pack(const T* from, long long at) {
  using Bits = typename Word<N * sizeof(T)>::Type;
  const Bits bits = reinterpret_cast<const Bits*>(from)[at];
  Pack<T, N> pack;
  memcpy(&pack, &bits, sizeof bits);
  return pack;
}

/// The store that matches load_pack.
template <typename T, int N>
__device__ inline void store_pack(T* to, long long at, const Pack<T, N>& pack) {
  using Bits = typename Word<N * sizeof(T)>::Type;
  Bits bits;
  memcpy(&bits, &pack, sizeof bits);
  reinterpret_cast<Bits*>(to)[at] = bits;
}

__device__ inline float to_float(float value) {
  return value;
}
__device__ inline float to_float(__half value) {
  return __half2float(value);
}
__device__ inline float to_float(__nv_bfloat16 value) {
  return __bfloat162float(value);
}

/// Rounds to nearest even.
template <typename T>
__device__ inline T from_float(float value);
template <>
__device__ inline float from_float<float>(float value) {
  return value;
}
template <>
__device__ inline __half from_float<__half>(float value) {
  return __float2half_rn(value);
}
template <>
__device__ inline __nv_bfloat16 from_float<__nv_bfloat16>(float value) {
  return __float2bfloat16_rn(value);
}

/// Sum of the squares of a pack's elements, in f32.
template <typename T, int N>
__device__ inline float sum_of_squares(const Pack<T, N>& pack) {
  float sum = 0.0F;
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const float value = to_float(pack.value[i]);
    sum += value * value;
  }
  return sum;
}
