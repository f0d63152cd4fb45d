// SPDX-License-Identifier: Apache-2.0
#include "vector.cuh"

/// Loads N neighbouring floats in words of at most 16 bytes.
template <int N>
__device__ inline void load_floats(const float* from, float (&to)[N]) {
  constexpr int W = N < 4 ? N : 4;
#pragma unroll
  for (int i = 0; i < N; i += W) {
    const Pack<float, W> pack = load_pack<W>(from + i, 0);
#pragma unroll
    for (int j = 0; j < W; ++j) {
      to[i + j] = pack.value[j];
    }
  }
}

/// N elements at once, or, where VEC is 1 and so nothing is aligned, at any place.
template <int N, int VEC, typename T>
__device__ inline Pack<T, N> load(const T* from) {
  if constexpr (VEC == 1) {
    return load_any<N>(from);
  } else {
    return load_pack<N>(from, 0);
  }
}
template <int VEC, typename T, int N>
__device__ inline void store(T* to, const Pack<T, N>& pack) {
  if constexpr (VEC == 1) {
    store_any(to, pack);
  } else {
    store_pack(to, 0, pack);
  }
}

/// Rotates the first `rotary` elements of every head by a token's angles and passes the others through.
///
/// Pair i of a head is (x[2i], x[2i + 1]) when INTERLEAVED, else (x[i], x[i + rotary / 2]); it becomes (a cos - b
/// sin, a sin + b cos) with cos and sin at [position, i]. Tokens are `stride` elements apart in x and y, their
/// heads contiguous; y may be x. `positions` may be null: token t is at t. A position beyond the table
/// gives NaN. A thread has VEC pairs of HEADS heads, and so reads their angles once; blockDim.x
/// threads of gridDim.y blocks work on a token, blockDim.y tokens a block. Unless VEC is 1, all is whole packs of 16 bytes, aligned to them.
template <typename T, int INTERLEAVED, int VEC, int HEADS>
__global__ void __launch_bounds__(512)
    rope(T* y, const T* x, const float* __restrict__ cosines, const float* __restrict__ sines,
         const long long* __restrict__ positions, long long tokens, int heads, int head_dim,
         int rotary, long long stride, long long table) {
  const int pairs = min(rotary, head_dim) / 2;
  const int units = pairs / VEC;  // of a head
  const int items = units * ((heads + HEADS - 1) / HEADS);
  const long long step = static_cast<long long>(gridDim.x) * blockDim.y;
  const int mine = static_cast<int>(blockIdx.y * blockDim.x + threadIdx.x);
  const int stride_y = static_cast<int>(gridDim.y * blockDim.x);
  constexpr int k_stretches = INTERLEAVED != 0 ? 1 : 2;
  constexpr int k_stretch = 2 * VEC / k_stretches;

  for (long long token = static_cast<long long>(blockIdx.x) * blockDim.y + threadIdx.y;
       token < tokens; token += step) {
    const long long position = positions != nullptr ? positions[token] : token;
    const bool known =
        static_cast<unsigned long long>(position) < static_cast<unsigned long long>(table);
    const T* in = x + token * stride;
    T* out = y + token * stride;
    for (int item = mine; item < items; item += stride_y) {
      const int group = item / units;
      const int unit = item - group * units;
      // Interleaved pairs are one stretch of 2 VEC elements, the others two stretches of VEC.
      const int low = INTERLEAVED != 0 ? 2 * unit * VEC : unit * VEC;
      Pack<T, k_stretch> values[HEADS][k_stretches];
#pragma unroll
      for (int h = 0; h < HEADS; ++h) {
        const int head = group * HEADS + h;
        if (head < heads) {
          const T* from = in + static_cast<long long>(head) * head_dim + low;
#pragma unroll
          for (int s = 0; s < k_stretches; ++s) {
            values[h][s] = load<k_stretch, VEC>(from + s * pairs);
          }
        }
      }
      float cosine[VEC];
      float sine[VEC];
      if (known) {
        const long long angle = position * (rotary / 2) + unit * VEC;
        load_floats<VEC>(cosines + angle, cosine);
        load_floats<VEC>(sines + angle, sine);
      } else {
#pragma unroll
        for (int i = 0; i < VEC; ++i) {
          cosine[i] = sine[i] = __int_as_float(0x7fffffff);
        }
      }
#pragma unroll
      for (int h = 0; h < HEADS; ++h) {
        const int head = group * HEADS + h;
        if (head < heads) {
          float turned[k_stretches][k_stretch];
#pragma unroll
          for (int s = 0; s < k_stretches; ++s) {
            unpack(values[h][s], turned[s]);
          }
#pragma unroll
          for (int i = 0; i < VEC; ++i) {
            float& a = INTERLEAVED != 0 ? turned[0][(2 * i) % k_stretch] : turned[0][i];
            float& b = INTERLEAVED != 0 ? turned[0][(2 * i + 1) % k_stretch]
                                        : turned[k_stretches - 1][i];
            const float was = a;
            a = was * cosine[i] - b * sine[i];
            b = was * sine[i] + b * cosine[i];
          }
          T* to = out + static_cast<long long>(head) * head_dim + low;
#pragma unroll
          for (int s = 0; s < k_stretches; ++s) {
            store<VEC>(to + s * pairs, rounded<T, k_stretch>(turned[s]));
          }
        }
      }
    }
    if (y != x) {
      const int rest = (head_dim - 2 * pairs) / VEC;
#pragma unroll 4
      for (int item = mine; item < rest * heads; item += stride_y) {
        const int head = item / rest;
        const long long at =
            static_cast<long long>(head) * head_dim + 2 * pairs + (item - head * rest) * VEC;
        store_pack(out + at, 0, load_pack<VEC>(in + at, 0));
      }
    }
  }
}

template <typename T, int INTERLEAVED>
__global__ void rope_ref(T* y, const T* x, const float* cosines, const float* sines,
                         const long long* positions, long long tokens, int heads, int head_dim,
                         int rotary, long long stride, long long table) {
  const int pairs = min(rotary, head_dim) / 2;
  for (long long token = blockIdx.x; token < tokens; token += gridDim.x) {
    const long long position = positions != nullptr ? positions[token] : token;
    const bool known = position >= 0 && position < table;
    for (int item = threadIdx.x; item < heads * head_dim; item += blockDim.x) {
      const int i = item % head_dim;
      const T* in = x + token * stride + item - i;
      double result = to_float(in[i]);
      if (i < 2 * pairs) {
        const int pair = INTERLEAVED != 0 ? i / 2 : i % pairs;
        const bool second = INTERLEAVED != 0 ? i % 2 == 1 : i >= pairs;
        const double u = to_float(in[INTERLEAVED != 0 ? 2 * pair : pair]);
        const double v = to_float(in[INTERLEAVED != 0 ? 2 * pair + 1 : pair + pairs]);
        const long long angle = position * (rotary / 2) + pair;
        const double c = known ? cosines[angle] : __int_as_float(0x7fffffff);
        const double s = known ? sines[angle] : __int_as_float(0x7fffffff);
        result = second ? u * s + v * c : u * c - v * s;
      }
      y[token * stride + item] = from_float<T>(static_cast<float>(result));
    }
  }
}
