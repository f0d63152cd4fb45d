// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "barrier.cuh"
#include "gemm_tile.cuh"
#include "operand.cuh"
#include "warpgroup.cuh"

/// A warpgroup copies, and WARPS / 4 more compute BM x BN elements of C through wgmma (sm_90a), a
/// 64-wide slice of K at a time; STAGES slices are in flight. K divides by 8; A and B are aligned
/// to 16 bytes. `shared`, aligned to 1024 bytes, holds STAGES * (BM + BN) * 64 * sizeof(T) bytes of
/// slices and 128 of barriers.
template <typename T, int BM, int BN, int STAGES, int WARPS>
__device__ inline void multiply_by_warpgroups(unsigned char* shared, T* c, const T* a, const T* b,
                                              const T* bias, const T* residual, int activation,
                                              long long m, long long n, long long k) {
  constexpr int groups = WARPS / 4;
  static_assert(groups * 64 == BM, "a warpgroup computes 64 rows");
  constexpr int bk = 64;  // 128 bytes: rows as the swizzle has them
  constexpr unsigned a_bytes = BM * bk * sizeof(T);
  constexpr unsigned stage_bytes = a_bytes + BN * bk * sizeof(T);
  const unsigned stages = shared_address(shared);
  const unsigned full = stages + STAGES * stage_bytes;  // of each stage, 8 bytes apart
  const unsigned empty = full + STAGES * 8;
  long long row0 = 0;
  long long column0 = 0;
  tile_origin<BM, BN>(blockIdx.x, m, n, row0, column0);
  const int slices = static_cast<int>((k + bk - 1) / bk);

  if (threadIdx.x == 0) {
#pragma unroll
    for (unsigned i = 0; i < STAGES; ++i) {
      barrier_init(full + i * 8, 128);
      barrier_init(empty + i * 8, WARPS);
    }
  }
  __syncthreads();
  int stage = 0;
  unsigned phase = 0;
  const auto next_stage = [&] {
    stage = stage + 1 == STAGES ? 0 : stage + 1;
    phase ^= stage == 0 ? 1U : 0U;
  };

  const int warp = __shfl_sync(0xffffffffU, static_cast<int>(threadIdx.x) / 32, 0);  // uniform
  if (warp < 4) {
    give_registers<groups == 2 ? 40 : 32>();
    Operand<T, BM, bk, 128, 8> operand_a(a, m, k, row0, k);
    Operand<T, BN, bk, 128, 8> operand_b(b, n, k, column0, k);
#pragma unroll 1
    for (int slice = 0; slice < slices; ++slice) {
      barrier_wait(empty + stage * 8, phase ^ 1U);
      operand_a.start(stages + stage * stage_bytes, static_cast<long long>(slice) * bk);
      operand_b.start(stages + stage * stage_bytes + a_bytes, static_cast<long long>(slice) * bk);
      barrier_arrive_after_copies(full + stage * 8);
      next_stage();
    }
    commit_copies();
    wait_copies<0>();
    return;
  }
  take_registers<groups == 2 ? 232 : 160>();

  const int first_row = (warp / 4 - 1) * 64;
  float sum[BN / 2] = {};
  unsigned last = 0;  // the barrier of the slice before
#pragma unroll 1
  for (int slice = 0; slice < slices; ++slice) {
    const unsigned stage_base = stages + stage * stage_bytes;
    barrier_wait(full + stage * 8, phase);
    fence_for_products();
    warpgroup_fence();
#pragma unroll
    for (int step = 0; step < bk / 16; ++step) {
      warpgroup_multiply<T, BN>(sum, SlabOperand(stage_base + first_row * 128 + step * 32),
                                SlabOperand(stage_base + a_bytes + step * 32));
    }
    warpgroup_commit();
    // The products of the slice before are done, so its stage is free.
    warpgroup_wait<1>();
    if (slice > 0) {
      barrier_arrive(last, threadIdx.x % 32 == 0);
    }
    last = empty + stage * 8;
    next_stage();
  }
  warpgroup_wait<0>();
  warpgroup_result(sum);

  // The sums leave through the stages, when every warpgroup is done with them.
  block_barrier_wait(1, 128 * groups);
  static_assert(WARPS * 16 * (BN + 8) * 4 <= STAGES * stage_bytes,
                "the sums' way out must fit in the stages");
  float* strip = reinterpret_cast<float*>(shared) + (warp - 4) * 16 * (BN + 8);
  const Epilogue<T> epilogue{c, bias, residual, m, n, activation};
  const bool whole = epilogue.whole_chunks();
  store_rows<BN>(
      strip, [&](int j, int e) { return sum[j * 4 + e]; }, epilogue,
      row0 + first_row + warp % 4 * 16, column0, whole);
}
