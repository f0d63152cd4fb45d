// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Sums `value` over the threads of one row and gives the sum to all of them.
///
/// A row is the blockDim.x threads that share a threadIdx.y; blockDim.x is a multiple of 32 and a
/// block has at most 32 warps. `partial` is 32 floats of shared memory. Every thread of the block
/// must call it. The order of additions depends on the block's shape only, so the sum is
/// reproducible.
__device__ inline float row_sum(float value, float* partial) {
  constexpr unsigned all_lanes = 0xffffffffU;
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) {
    value += __shfl_xor_sync(all_lanes, value, offset);
  }
  const unsigned warps = blockDim.x / 32;
  if (warps == 1) {
    return value;
  }
  float* mine = partial + threadIdx.y * warps;
  const unsigned lane = threadIdx.x % 32;
  __syncthreads();  // a previous row's readers are done
  if (lane == 0) {
    mine[threadIdx.x / 32] = value;
  }
  __syncthreads();
  value = lane < warps ? mine[lane] : 0.0F;
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) {
    value += __shfl_xor_sync(all_lanes, value, offset);
  }
  return value;
}
