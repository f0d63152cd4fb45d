// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gemm_tile.cuh"
#include "operand.cuh"
#include "tensor_core.cuh"

/// WARPS warps, two above each other, compute BM x BN elements of C through mma.sync, a BK-wide
/// slice of K at a time; STAGES slices are in flight. Elements a load: ALIGN (1, 2 or 8). `shared`
/// holds STAGES * (BM + BN) * BK * sizeof(T) bytes.
template <typename T, int BM, int BN, int BK, int STAGES, int WARPS, int ALIGN>
__device__ inline void multiply_by_warps(unsigned char* shared, T* c, const T* a, const T* b,
                                         const T* bias, const T* residual, int activation,
                                         long long m, long long n, long long k) {
  constexpr int threads = 32 * WARPS;
  constexpr int warps_n = WARPS / 2;  // side by side; two lie above each other
  constexpr int warp_m = BM / 2;
  constexpr int warp_n = BN / warps_n;
  constexpr int tiles_m = warp_m / 16;  // mma tiles of a warp
  constexpr int tiles_n = warp_n / 8;
  constexpr int steps = BK / 16;  // mma steps of a slice
  static_assert(steps % 2 == 0, "fragments of B alternate between two buffers");
  static_assert(tiles_n % 2 == 0, "B is loaded two mma tiles at once");
  constexpr int a_bytes = BM * BK * static_cast<int>(sizeof(T));
  constexpr int stage_bytes = a_bytes + BN * BK * static_cast<int>(sizeof(T));

  const unsigned base = shared_address(shared);
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp_row = warp / warps_n * warp_m;
  const int warp_column = warp % warps_n * warp_n;
  long long row0 = 0;
  long long column0 = 0;
  tile_origin<BM, BN>(blockIdx.x, m, n, row0, column0);

  Operand<T, BM, BK, threads, ALIGN> operand_a(a, m, k, row0, k);
  Operand<T, BN, BK, threads, ALIGN> operand_b(b, n, k, column0, k);
  const int slices = static_cast<int>((k + BK - 1) / BK);
  const auto finish_slice = [&](int slice, int stage) {
    if (slice < slices) {
      operand_a.finish(base + stage * stage_bytes);
      operand_b.finish(base + stage * stage_bytes + a_bytes);
    }
  };

  // This lane's row and chunk of the first ldmatrix of a slice; a step further is an XOR away.
  const unsigned lane_a = chunk_offset<BK>(warp_row + lane % 16, lane / 16);
  const unsigned lane_b =
      a_bytes + chunk_offset<BK>(warp_column + lane / 16 * 8 + lane % 8, lane / 8 % 2);
  constexpr unsigned tile_bytes = 16 * BK * sizeof(T);
  // A batch of loads runs ahead of the products by one batch: ldmatrix is slow to answer when
  // shared memory is busy. A whole step, or what registers allow beside the sums.
  constexpr int batch = tiles_m * tiles_n <= 32 ? tiles_m : 2;  // rows of tiles
  constexpr int batches = tiles_m / batch;
  static_assert(tiles_m % batch == 0 && (steps * batches) % 2 == 0, "batches alternate in a slice");
  unsigned fragment_a[2][batch][4];
  unsigned fragment_b[2][tiles_n / 2][4];
  const auto load_batch = [&](unsigned stage_base, int index) {  // index: of the slice
    const int step = index / batches;
#pragma unroll
    for (int i = 0; i < batch; ++i) {
      load_matrices(fragment_a[index % 2][i],
                    stage_base + (lane_a ^ step * 32) + (index % batches * batch + i) * tile_bytes);
    }
    if (index % batches == 0) {
#pragma unroll
      for (int j = 0; j < tiles_n / 2; ++j) {
        load_matrices(fragment_b[step % 2][j], stage_base + (lane_b ^ step * 32) + j * tile_bytes);
      }
    }
  };

  float sum[tiles_m][tiles_n][4] = {};
#pragma unroll
  for (int stage = 0; stage < STAGES - 1; ++stage) {
    if (stage < slices) {
      operand_a.start(base + stage * stage_bytes, static_cast<long long>(stage) * BK);
      operand_b.start(base + stage * stage_bytes + a_bytes, static_cast<long long>(stage) * BK);
    }
    commit_copies();  // also when empty, so that groups and slices keep step
    finish_slice(stage, stage);
  }
  wait_copies<STAGES - 2>();
  __syncthreads();
  load_batch(base, 0);

  unsigned stage_base = base;   // of the slice being multiplied
  int free_stage = STAGES - 1;  // of the slice to copy next
  for (int slice = 0; slice < slices; ++slice) {
    const int next = slice + STAGES - 1;
    const long long next_k = static_cast<long long>(next) * BK;
    const unsigned free_base = base + free_stage * stage_bytes;
#pragma unroll
    for (int index = 0; index < steps * batches; ++index) {
      if (index == steps * batches - 1) {
        finish_slice(next, free_stage);
        // The next slice has arrived, and every warp has read the last of this one.
        wait_copies<STAGES - 2>();
        __syncthreads();
        stage_base += stage_bytes;
        if (stage_base == base + STAGES * stage_bytes) {
          stage_base = base;
        }
      }
      load_batch(stage_base, (index + 1) % (steps * batches));
      if (index == 0) {
        if (next < slices) {
          operand_a.start(free_base, next_k);
          operand_b.start(free_base + a_bytes, next_k);
        }
        commit_copies();
      }
#pragma unroll
      for (int i = 0; i < batch; ++i) {
#pragma unroll
        for (int j = 0; j < tiles_n; ++j) {
          multiply_add<T>(sum[index % batches * batch + i][j], fragment_a[index % 2][i],
                          fragment_b[index / batches % 2][j / 2][j % 2 * 2],
                          fragment_b[index / batches % 2][j / 2][j % 2 * 2 + 1]);
        }
      }
    }
    free_stage = free_stage + 1 == STAGES ? 0 : free_stage + 1;
  }

  wait_copies<0>();
  __syncthreads();
  static_assert(WARPS * 16 * (warp_n + 8) * 4 <= STAGES * stage_bytes,
                "the sums' way out must fit in the stages");
  float* strip = reinterpret_cast<float*>(shared) + warp * 16 * (warp_n + 8);
  const Epilogue<T> epilogue{c, bias, residual, m, n, activation};
  const bool whole = epilogue.whole_chunks();
#pragma unroll
  for (int i = 0; i < tiles_m; ++i) {
    store_rows<warp_n>(
        strip, [&](int j, int e) { return sum[i][j][e]; }, epilogue, row0 + warp_row + i * 16,
        column0 + warp_column, whole);
  }
}
