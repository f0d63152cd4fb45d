// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "vector.cuh"

/// Combines a value of each thread of a row over that row and gives the result to all of them.
///
/// A row is the blockDim.x threads that share a threadIdx.y, a power of two below 32 or whole
/// warps; blocks are whole warps, at most 32. Every thread of the block must call. The order
/// depends on the block's shape only, so sums are reproducible.
class RowReduce {
 public:
  static constexpr int k_scratch = 2 * 32;  ///< floats of shared memory

  __device__ explicit RowReduce(float* scratch) : m_scratch(scratch) {}

  __device__ float sum(float value) {
    return combine(value, 0.0F, [](float a, float b) { return a + b; });
  }
  /// NaN is passed over.
  __device__ float max(float value) {
    return combine(value, -infinity(), [](float a, float b) { return fmaxf(a, b); });
  }

  template <typename Combine>
  __device__ float combine(float value, float identity, Combine with) {
    value = in_warp(value, with);
    const unsigned warps = blockDim.x / 32;
    if (warps <= 1) {
      return value;
    }
    // Two halves in turn: who writes one half has passed the barrier behind all reads of it.
    float* mine = m_scratch + m_turn * 32 + threadIdx.y * warps;
    m_turn ^= 1U;
    const unsigned lane = threadIdx.x % 32;
    if (lane == 0) {
      mine[threadIdx.x / 32] = value;
    }
    __syncthreads();
    // Every so many lanes the same again: the fewest that are a power of two and hold all warps'
    // values.
    const unsigned nth = lane & ((2U << (31 - __clz(static_cast<int>(warps - 1)))) - 1);
    value = nth < warps ? mine[nth] : identity;
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) {
      if (static_cast<unsigned>(offset) < warps) {
        value = with(value, __shfl_xor_sync(k_all_lanes, value, offset));
      }
    }
    return value;
  }

 private:
  static constexpr unsigned k_all_lanes = 0xffffffffU;

  template <typename Combine>
  __device__ static float in_warp(float value, Combine with) {
    if (blockDim.x >= 32) {
#pragma unroll
      for (int offset = 16; offset > 0; offset /= 2) {
        value = with(value, __shfl_xor_sync(k_all_lanes, value, offset));
      }
    } else {
#pragma unroll
      for (int offset = 8; offset > 0; offset /= 2) {
        if (static_cast<unsigned>(offset) < blockDim.x) {
          value = with(value, __shfl_xor_sync(k_all_lanes, value, offset));
        }
      }
    }
    return value;
  }

  float* m_scratch;
  unsigned m_turn = 0;
};
