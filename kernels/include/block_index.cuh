// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The number of this block in a grid of more blocks than one dimension holds. The last row or
/// layer may reach past the end.
__device__ inline long long block_index() {
  return (static_cast<long long>(blockIdx.z) * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
}
