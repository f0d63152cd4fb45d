// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "epilogue.cuh"

/// The tile of C that block `index` computes: blocks that run together take tiles from a few rows
/// of tiles, so that their operands meet in L2.
template <int BM, int BN>
__device__ inline void tile_origin(unsigned index, long long m, long long n, long long& row0,
                                   long long& column0) {
  constexpr unsigned group_rows = 8;
  const unsigned grid_m = static_cast<unsigned>((m + BM - 1) / BM);
  const unsigned grid_n = static_cast<unsigned>((n + BN - 1) / BN);
  const unsigned long long group_size = static_cast<unsigned long long>(group_rows) * grid_n;
  const unsigned group = static_cast<unsigned>(index / group_size);
  const unsigned in_group = static_cast<unsigned>(index % group_size);
  const unsigned rows_here = min(grid_m - group * group_rows, group_rows);
  row0 = static_cast<long long>(group * group_rows + in_group % rows_here) * BM;
  column0 = static_cast<long long>(in_group / rows_here) * BN;
}

/// Finishes and stores 16 rows of a warp's sums, COLUMNS wide, through `strip`: 16 * (COLUMNS + 8)
/// floats of the warp's own in shared memory, so that global accesses are 16 bytes wide. `sum(j,
/// e)` is element e of this lane's four of columns 8 j to 8 j + 7, as mma.sync and wgmma leave
/// them.
template <int COLUMNS, typename T, typename Sum>
__device__ inline void store_rows(float* strip, const Sum& sum, const Epilogue<T>& epilogue,
                                  long long row0, long long column0, bool whole) {
  constexpr int stride = COLUMNS + 8;  // eight more keep the writes free of conflicts
  const int lane = static_cast<int>(threadIdx.x) % 32;
  __syncwarp();
#pragma unroll
  for (int j = 0; j < COLUMNS / 8; ++j) {
    float* to = strip + lane / 4 * stride + j * 8 + lane % 4 * 2;
    *reinterpret_cast<float2*>(to) = make_float2(sum(j, 0), sum(j, 1));
    *reinterpret_cast<float2*>(to + 8 * stride) = make_float2(sum(j, 2), sum(j, 3));
  }
  __syncwarp();
#pragma unroll 1
  for (int chunk = lane; chunk < 2 * COLUMNS; chunk += 32) {
    const int row = chunk / (COLUMNS / 8);
    const int column = chunk % (COLUMNS / 8) * 8;
    float values[8];
    memcpy(values, strip + row * stride + column, sizeof values);
    epilogue.store(values, row0 + row, column0 + column, whole);
  }
}
