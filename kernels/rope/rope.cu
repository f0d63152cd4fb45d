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

/// Rotates the first `rotary` elements of every head by a token's angles and passes the others through.
///
/// Pair i of a head is (x[2i], x[2i + 1]) when INTERLEAVED, else (x[i], x[i + rotary / 2]); it becomes (a cos - b
/// sin, a sin + b cos) with cos and sin at [position, i]. Tokens are `stride` elements apart in x and y, their
/// heads contiguous; y may be x. `positions` may be null: token t is at t. A position beyond the table
/// gives NaN. A thread has VEC pairs of HEADS heads, and so reads their angles once; blockDim.x threads work on
/// a token, blockDim.y tokens a block. All is whole packs of VEC elements, aligned to them.
template <typename T, int INTERLEAVED, int VEC, int HEADS>
__global__ void __launch_bounds__(512)
    rope(T* y, const T* x, const float* __restrict__ cosines, const float* __restrict__ sines,
         const long long* __restrict__ positions, long long tokens, int heads, int head_dim,
         int rotary, long long stride, long long table) {
  const int pairs = min(rotary, head_dim) / 2;
  const int units = pairs / VEC;  // of a head
  const int items = units * ((heads + HEADS - 1) / HEADS);
  const long long step = static_cast<long long>(gridDim.x) * blockDim.y;
  constexpr int k_second = INTERLEAVED != 0 ? VEC : 0;

  for (long long token = static_cast<long long>(blockIdx.x) * blockDim.y + threadIdx.y;
       token < tokens; token += step) {
    const long long position = positions != nullptr ? positions[token] : token;
    const bool known =
        static_cast<unsigned long long>(position) < static_cast<unsigned long long>(table);
    const T* in = x + token * stride;
    T* out = y + token * stride;
    for (int item = threadIdx.x; item < items; item += blockDim.x) {
      const int group = item / units;
      const int unit = item - group * units;
      const int low = INTERLEAVED != 0 ? 2 * unit * VEC : unit * VEC;
      const int high = INTERLEAVED != 0 ? low + k_second : low + pairs;
      Pack<T, VEC> a[HEADS];
      Pack<T, VEC> b[HEADS];
#pragma unroll
      for (int h = 0; h < HEADS; ++h) {
        const int head = group * HEADS + h;
        if (head < heads) {
          const T* from = in + static_cast<long long>(head) * head_dim;
          a[h] = load_pack<VEC>(from + low, 0);
          b[h] = load_pack<VEC>(from + high, 0);
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
          float first[VEC];
          float second[VEC];
#pragma unroll
          for (int i = 0; i < VEC; ++i) {
            // Where pair i stands in what was loaded: interleaved pairs are neighbours.
            const int at = INTERLEAVED != 0 ? 2 * i : i;
            const float u = to_float(at < VEC ? a[h].value[at % VEC] : b[h].value[at % VEC]);
            const int next = at + 1;
            const float v = to_float(INTERLEAVED == 0 ? b[h].value[i]
                                     : next < VEC     ? a[h].value[next % VEC]
                                                      : b[h].value[next % VEC]);
            const float turned = u * cosine[i] - v * sine[i];
            const float other = u * sine[i] + v * cosine[i];
            if (INTERLEAVED == 0) {
              first[i] = turned;
              second[i] = other;
            } else {
              (at < VEC ? first : second)[at % VEC] = turned;
              (next < VEC ? first : second)[next % VEC] = other;
            }
          }
          T* to = out + static_cast<long long>(head) * head_dim;
          store_pack(to + low, 0, rounded<T, VEC>(first));
          store_pack(to + high, 0, rounded<T, VEC>(second));
        }
      }
    }
    if (y != x) {
      const int rest = (head_dim - 2 * pairs) / VEC;
      for (int item = threadIdx.x; item < rest * heads; item += blockDim.x) {
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
