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

/// The pack at `from`, whatever its alignment; at once where that is a pack's.
template <int N, typename T>
__device__ inline Pack<T, N> load_any(const T* from) {
  if (reinterpret_cast<size_t>(from) % (N * sizeof(T)) == 0) {
    return load_pack<N>(from, 0);
  }
  Pack<T, N> pack;
#pragma unroll
  for (int i = 0; i < N; ++i) {
    pack.value[i] = from[i];
  }
  return pack;
}

/// The store that matches load_any.
template <typename T, int N>
__device__ inline void store_any(T* to, const Pack<T, N>& pack) {
  if (reinterpret_cast<size_t>(to) % (N * sizeof(T)) == 0) {
    store_pack(to, 0, pack);
    return;
  }
#pragma unroll
  for (int i = 0; i < N; ++i) {
    to[i] = pack.value[i];
  }
}

__device__ inline float infinity() {
  return __int_as_float(0x7f800000);
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

/// A pack's elements as floats.
template <typename T, int N>
__device__ inline void unpack(const Pack<T, N>& pack, float (&to)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) {
    to[i] = to_float(pack.value[i]);
  }
}
/// An instruction each: of a word's halves one is a shift away from its float, the other a mask.
template <int N>
__device__ inline void unpack(const Pack<__nv_bfloat16, N>& pack, float (&to)[N]) {
  if constexpr (N == 1) {
    to[0] = to_float(pack.value[0]);
  } else {
    unsigned words[N / 2];
    memcpy(words, &pack, sizeof words);
#pragma unroll
    for (int i = 0; i < N / 2; ++i) {
      to[2 * i] = __uint_as_float(words[i] << 16);
      to[2 * i + 1] = __uint_as_float(words[i] & 0xffff0000U);
    }
  }
}

/// Sum of the squares of a pack's elements, in f32.
template <typename T, int N>
__device__ inline float sum_of_squares(const Pack<T, N>& pack) {
  float values[N];
  unpack(pack, values);
  float sum = 0.0F;
#pragma unroll
  for (int i = 0; i < N; ++i) {
    sum += values[i] * values[i];
  }
  return sum;
}

/// Two floats rounded to nearest even, in a word.
template <typename T>
__device__ inline unsigned rounded_pair(float low, float high);
template <>
__device__ inline unsigned rounded_pair<__nv_bfloat16>(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  unsigned word;
  memcpy(&word, &pair, sizeof word);
  return word;
}
template <>
__device__ inline unsigned rounded_pair<__half>(float low, float high) {
  const __half2 pair = __floats2half2_rn(low, high);
  unsigned word;
  memcpy(&word, &pair, sizeof word);
  return word;
}

/// Floats rounded to nearest even, two at once where the hardware can.
template <typename T, int N>
__device__ inline Pack<T, N> rounded(const float (&from)[N]) {
  Pack<T, N> pack;
  if constexpr (sizeof(T) == 2 && N > 1) {
    unsigned words[N / 2];
#pragma unroll
    for (int i = 0; i < N / 2; ++i) {
      words[i] = rounded_pair<T>(from[2 * i], from[2 * i + 1]);
    }
    memcpy(&pack, words, sizeof words);
  } else {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      pack.value[i] = from_float<T>(from[i]);
    }
  }
  return pack;
}

/// The larger, or NaN when either is.
__device__ inline float max_or_nan(float a, float b) {
  float most;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(most) : "f"(a), "f"(b));
  return most;
}

/// e^x, 2 units in the last place off; results below 2^-126 are 0.
__device__ inline float fast_exp(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x * 1.4426950408889634F));
  return result;
}

/// 1 / x, a unit in the last place off; results below 2^-126 are 0.
__device__ inline float fast_reciprocal(float x) {
  float result;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

/// x / (1 + e^-x); NaN at -infinity, as that formula has it.
__device__ inline float silu(float x) {
  return x * fast_reciprocal(1.0F + fast_exp(-x));
}
