// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "vector.cuh"

/// VEC channels' filters of WIDTH taps each, from w[channels, WIDTH], and their biases.
template <typename T, int WIDTH, int VEC>
struct Taps {
  float tap[WIDTH][VEC];
  float bias[VEC];

  /// Of the channels that start at `channel`; w is aligned to VEC elements there. `b` may be null.
  __device__ Taps(const T* w, const T* b, long long channel) {
    const T* from = w + channel * WIDTH;
#pragma unroll
    for (int i = 0; i < WIDTH; ++i) {
      const Pack<T, VEC> pack = load_pack<VEC>(from, i);
#pragma unroll
      for (int j = 0; j < VEC; ++j) {
        const int element = i * VEC + j;
        tap[element % WIDTH][element / WIDTH] = to_float(pack.value[j]);
      }
    }
#pragma unroll
    for (int j = 0; j < VEC; ++j) {
      bias[j] = 0.0F;
    }
    if (b != nullptr) {
      unpack(load_pack<VEC>(b + channel, 0), bias);
    }
  }

  /// One output from the WIDTH inputs that end with it: the earlier ones, oldest first, and the
  /// newest. The earlier ones move on by one.
  __device__ Pack<T, VEC> step(float (&past)[WIDTH - 1][VEC], const Pack<T, VEC>& newest,
                               bool activate) const {
    float last[VEC];
    unpack(newest, last);
    float sum[VEC];
#pragma unroll
    for (int j = 0; j < VEC; ++j) {
      sum[j] = bias[j];
#pragma unroll
      for (int i = 0; i < WIDTH - 1; ++i) {
        sum[j] += tap[i][j] * past[i][j];
        past[i][j] = i + 2 < WIDTH ? past[i + 1 < WIDTH - 1 ? i + 1 : i][j] : last[j];
      }
      sum[j] += tap[WIDTH - 1][j] * last[j];
    }
    // Without a branch, so that steps can overlap: x / (1 + 0) where nothing is to be activated.
    const float limit = activate ? infinity() : -infinity();
#pragma unroll
    for (int j = 0; j < VEC; ++j) {
      sum[j] *= fast_reciprocal(1.0F + fast_exp(fminf(-sum[j], limit)));
    }
    return rounded<T, VEC>(sum);
  }
};

/// A pack of zeros.
template <typename T, int VEC>
__device__ inline Pack<T, VEC> zeros() {
  Pack<T, VEC> pack;
#pragma unroll
  for (int j = 0; j < VEC; ++j) {
    pack.value[j] = from_float<T>(0.0F);
  }
  return pack;
}
