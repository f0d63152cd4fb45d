// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "vector.cuh"

/// Combines a value of each thread of a row over that row and gives the result to all of them.
///
/// A row is the blockDim.x threads that share a threadIdx.y: a power of two, at most 1024; blocks are whole
/// warps. ROWS rows are reduced at once. Every thread of the block must call. The order depends on the
/// block's shape only, so sums are reproducible.
template <int ROWS>
class RowReduce {
 public:
  static constexpr int k_scratch = 2 * 32 * ROWS;  ///< floats of shared memory

  __device__ explicit RowReduce(float* scratch) : m_scratch(scratch) {}

  __device__ void sum(float (&value)[ROWS]) {
    combine(value, 0.0F, [](float a, float b) { return a + b; });
  }
  /// NaN is passed over.
  __device__ void max(float (&value)[ROWS]) {
    combine(value, -infinity(), [](float a, float b) { return fmaxf(a, b); });
  }

  template <typename Combine>
  __device__ void combine(float (&value)[ROWS], float identity, Combine with) {
#pragma unroll
    for (int i = 0; i < ROWS; ++i) {
      value[i] = in_warp(value[i], with);
    }
    const unsigned warps = blockDim.x / 32;
    if (warps <= 1) {
      return;
    }
    // Two halves in turn: who writes one half has passed the barrier behind all reads of it.
    float* half = m_scratch + m_turn * 32 * ROWS;
    m_turn ^= 1U;
    const unsigned lane = threadIdx.x % 32;
    float* mine = half + threadIdx.y * warps * ROWS;
    if (lane == 0) {
#pragma unroll
      for (int i = 0; i < ROWS; ++i) {
        mine[i * warps + threadIdx.x / 32] = value[i];
      }
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < ROWS; ++i) {
      value[i] = lane < warps ? mine[i * warps + lane] : identity;
#pragma unroll
      for (int offset = 16; offset > 0; offset /= 2) {
        value[i] = with(value[i], __shfl_xor_sync(k_all_lanes, value[i], offset));
      }
    }
  }

 private:
  static constexpr unsigned k_all_lanes = 0xffffffffU;

  template <typename Combine>
  __device__ static float in_warp(float value, Combine with) {
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) {
      const float other = __shfl_xor_sync(k_all_lanes, value, offset);
      value = static_cast<unsigned>(offset) < blockDim.x ? with(value, other) : value;
    }
    return value;
  }

  float* m_scratch;
  unsigned m_turn = 0;
};
