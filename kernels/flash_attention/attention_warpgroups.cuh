// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "barrier.cuh"
#include "exp2.cuh"
#include "tensor_core.cuh"
#include "vector.cuh"
#include "warpgroup.cuh"

// Attention through wgmma (sm_90a), after FlashAttention-3 (Shah et al. 2024): one warpgroup
// copies keys and values, the others keep 64 queries each.

/// Starts copying ROWS rows of D elements, `stride` elements apart, to slabs in shared memory, by
/// the block's first 128 threads; rows from `rows` on become zeros.
template <typename T, int ROWS, int D>
__device__ inline void copy_slabs(unsigned to, const T* from, long long stride, int rows) {
  constexpr int chunks = D / 8;
  constexpr int rows_a_pass = 128 / chunks;
  constexpr int passes = ROWS / rows_a_pass;
  static_assert(ROWS % rows_a_pass == 0, "passes must be whole");
  const int row = static_cast<int>(threadIdx.x) / chunks;
  const int chunk = static_cast<int>(threadIdx.x) % chunks;
  const T* source = from + row * stride + chunk * 8;
  const int left = rows - row;
  const unsigned even = to + slab_offset<ROWS>(row, chunk);
  // A pass of four rows swaps the halves of the swizzle's eight.
  const unsigned odd = rows_a_pass % 8 == 0 ? even : even ^ 64U;
#pragma unroll
  for (int pass = 0; pass < passes; ++pass) {
    copy_async<16>((pass % 2 == 0 ? even : odd) + pass * rows_a_pass * 128, source,
                   pass * rows_a_pass < left);
    source += rows_a_pass * stride;
  }
}

/// What a warpgroup keeps of 64 queries: of two rows a thread, lane / 4 of its warp's 16 and 8 on.
template <typename T, int D, int BN>
struct Attended {
  float out[D / 2] = {};
  float highest[2] = {-infinity(), -infinity()};  ///< of scaled scores, base 2
  float total[2] = {};
  float factor[2];              ///< what a raised maximum scales earlier results by
  float score[BN / 2];          ///< of BN keys; then its exponentials
  unsigned weight[BN / 16][4];  ///< the exponentials of BN keys as the left operand

  /// Starts score = q k^T, with slabs of Q_ROWS queries.
  template <int Q_ROWS>
  __device__ void start_scores(SlabOperand q, SlabOperand k) {
    warpgroup_fence();
#pragma unroll
    for (int step = 0; step < D / 16; ++step) {
      const unsigned within = step % 4 * 32;
      warpgroup_multiply<T, BN>(score, q + (step / 4 * Q_ROWS * 128 + within),
                                k + (step / 4 * BN * 128 + within), step != 0);
    }
    warpgroup_commit();
  }

  /// Starts out += weight v.
  __device__ void start_values(SlabOperand v) {
    warpgroup_fence();
#pragma unroll
    for (int step = 0; step < BN / 16; ++step) {
      warpgroup_multiply<T, D, true>(out, weight[step], v + step * 2048);
    }
    warpgroup_commit();
  }

  /// Scores of keys that a row does not see, of so many of this block it does, become minus
  /// infinity.
  __device__ void mask(const int (&seen)[2]) {
    const int column = static_cast<int>(threadIdx.x) % 4 * 2;
#pragma unroll
    for (int i = 0; i < BN / 2; ++i) {
      if (i / 4 * 8 + column + i % 2 >= seen[i / 2 % 2]) {
        score[i] = -infinity();
      }
    }
  }

  /// Scores become exponentials. A row's maximum is
  /// raised only when it grew by 2^8: until then the exponentials stay small enough for f16, and
  /// nothing summed before needs scaling. Returns whether a row of this warp was raised.
  __device__ bool exponentials(float scale2) {
    constexpr float slack = 8.0F;
    bool raised = false;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float largest = -infinity();
#pragma unroll
      for (int i = half * 2; i < BN / 2; i += 4) {
        largest = fmaxf(largest, fmaxf(score[i], score[i + 1]));
      }
      largest = fmaxf(largest, __shfl_xor_sync(0xffffffffU, largest, 1));
      largest = fmaxf(largest, __shfl_xor_sync(0xffffffffU, largest, 2)) * scale2;
      const bool raise = largest > highest[half] + slack;
      factor[half] = raise ? fast_exp2(highest[half] - largest) : 1.0F;
      highest[half] = raise ? largest : highest[half];
      raised = raised || raise;
      // A row that has seen no key yet has only exponents of minus infinity.
      const float shift = highest[half] == -infinity() ? 0.0F : -highest[half];
      float sum[2] = {};
#pragma unroll
      for (int i = half * 2; i < BN / 2; i += 4) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          score[i + e] = fast_exp2(fmaf(score[i + e], scale2, shift));
          sum[e] += score[i + e];
        }
      }
      total[half] = total[half] * factor[half] + (sum[0] + sum[1]);
    }
    return __any_sync(0xffffffffU, raised) != 0;
  }

  __device__ void rescale() {
#pragma unroll
    for (int i = 0; i < D / 2; ++i) {
      out[i] *= factor[i / 2 % 2];
    }
  }

  __device__ void pack() {
#pragma unroll
    for (int i = 0; i < BN / 4; ++i) {
      weight[i / 4][i % 4] = pack_pair<T>(score[i * 2], score[i * 2 + 1]);
    }
  }
};

/// 128 threads copy, and 128 more compute each 64 of a tile's 64 * GROUPS queries, BN keys at a
/// time; pointers are aligned to 16 bytes. `shared`, aligned to 1024 bytes, holds (64 * GROUPS + 4
/// * BN) * D * sizeof(T) bytes of queries, keys and values, and 128 of barriers.
template <typename T, int D, int GROUPS, int BN>
__device__ inline void attend_by_warpgroups(unsigned char* shared, T* o, float* lse, const T* q,
                                            const T* k, const T* v, float scale, int causal,
                                            int batches, int q_len, int kv_len, int kv_heads,
                                            int group) {
  constexpr int bm = 64 * GROUPS;
  constexpr unsigned tile_bytes = BN * D * sizeof(T);
  const unsigned q_tile = shared_address(shared);
  const unsigned k_tiles = q_tile + bm * D * sizeof(T);
  const unsigned v_tiles = k_tiles + 2 * tile_bytes;
  const unsigned q_full = v_tiles + 2 * tile_bytes;
  const unsigned k_full = q_full + 8;  // of each stage, 8 bytes apart
  const unsigned v_full = q_full + 24;
  const unsigned k_empty = q_full + 40;
  const unsigned v_empty = q_full + 56;

  // Tiles of a head run together, since they read the same keys; where lengths differ, those of as
  // many heads as have 4 MiB of keys and values, so that short tiles fill the end. The longest
  // first.
  constexpr int keys_together = (4 << 20) / (2 * D * static_cast<int>(sizeof(T)));
  const int heads = kv_heads * group;
  const int all_heads = batches * heads;
  const int q_tiles = (q_len + bm - 1) / bm;
  const int together =
      causal != 0 ? max(1, min(all_heads, keys_together / max(1, kv_len) * min(group, 1024))) : 1;
  const int tile = static_cast<int>(blockIdx.x);
  const int section = tile / (together * q_tiles) * together;
  const int within = tile - section * q_tiles;
  const int width = min(together, all_heads - section);
  const int head_index = section + within % width;  // of all batches' heads
  const int q0 = (q_tiles - 1 - within / width) * bm;
  const int batch_index = head_index / heads;
  const int head = head_index - batch_index * heads;
  const long long batch = batch_index;
  const long long q_stride = static_cast<long long>(heads) * D;
  const long long kv_stride = static_cast<long long>(kv_heads) * D;
  const long long first_query = (batch * q_len + q0) * q_stride + head * D;
  const long long first_key = batch * kv_len * kv_stride + head / group * D;
  const long long first_lse = static_cast<long long>(head_index) * q_len + q0;
  const int rows = q_len - q0;
  const int more = causal != 0 ? 1 : 0;  // keys that each query sees beyond the one before
  const int ahead = causal != 0 ? q0 + kv_len - q_len + 1 : kv_len;  // that the first one sees

  const int blocks = (max(0, min(kv_len, ahead + (bm - 1) * more)) + BN - 1) / BN;
  // Blocks are met from the last to the first: those that a mask cuts come first. The i-th met is
  // in stage i % 2 in that stage's phase i / 2.
  const auto key_of = [&](int i) { return (blocks - 1 - i) * BN; };
  const auto stage = [](int i) { return static_cast<unsigned>(i & 1); };
  const auto phase = [](int i) { return static_cast<unsigned>(i >> 1 & 1); };

  if (threadIdx.x == 0) {
    barrier_init(q_full, 128);
    for (unsigned i = 0; i < 16; i += 8) {
      barrier_init(k_full + i, 128);
      barrier_init(v_full + i, 128);
      barrier_init(k_empty + i, 4 * GROUPS);
      barrier_init(v_empty + i, 4 * GROUPS);
    }
  }
  __syncthreads();
  const int warp = __shfl_sync(0xffffffffU, static_cast<int>(threadIdx.x) / 32, 0);  // uniform
  if (warp < 4) {
    give_registers<GROUPS == 2 ? 40 : 32>();
    const auto copy = [&](unsigned full, unsigned empty, unsigned tiles, const T* from, int i) {
      barrier_wait(empty + stage(i) * 8, phase(i) ^ 1U);
      copy_slabs<T, BN, D>(tiles + stage(i) * tile_bytes, from + key_of(i) * kv_stride, kv_stride,
                           kv_len - key_of(i));
      barrier_arrive_after_copies(full + stage(i) * 8);
    };
    copy_slabs<T, bm, D>(q_tile, q + first_query, q_stride, rows);
    barrier_arrive_after_copies(q_full);
    for (int i = 0; i < blocks; ++i) {
      copy(k_full, k_empty, k_tiles, k + first_key, i);
      if (i > 0) {
        copy(v_full, v_empty, v_tiles, v + first_key, i - 1);
      }
    }
    if (blocks > 0) {
      copy(v_full, v_empty, v_tiles, v + first_key, blocks - 1);
    }
    commit_copies();
    wait_copies<0>();
    return;
  }
  take_registers<GROUPS == 2 ? 232 : 160>();

  const int member = warp / 4 - 1;  // which warpgroup of those that compute
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp_row = member * 64 + warp % 4 * 16;
  const int row = warp_row + lane / 4;  // and 8 on
  const SlabOperand queries(q_tile + member * 64 * 128);
  Attended<T, D, BN> held;
  const auto start_scores = [&](int i) {
    held.template start_scores<bm>(queries, SlabOperand(k_tiles + stage(i) * tile_bytes));
  };
  const auto start_values = [&](int i) {
    held.start_values(SlabOperand(v_tiles + stage(i) * tile_bytes, BN * 128));
  };
  const auto wait_full = [&](unsigned full, int i, unsigned one = 1) {
    barrier_wait(full + stage(i) * 8, phase(i) & one);
    fence_for_products();
  };
  const auto leave = [&](unsigned empty, int i) {
    barrier_arrive(empty + stage(i) * 8, lane == 0);
  };
  const float scale2 =
      (scale == 0.0F ? rsqrtf(static_cast<float>(D)) : scale) * 1.4426950408889634F;
  const auto seen = [&](int local) { return min(kv_len, ahead + local * more); };
  const int clear = seen(member * 64);  // keys that every row of this warpgroup sees
  const auto soften = [&](int i) {
    const int first = key_of(i);
    if (first + BN > clear) {
      held.mask({seen(row) - first, seen(row + 8) - first});
    }
    return held.exponentials(scale2);
  };

  barrier_wait(q_full, 0);
  fence_for_products();
  if (blocks > 0) {
    wait_full(k_full, 0);
    start_scores(0);
    warpgroup_wait<0>();
    warpgroup_result(held.score);
    leave(k_empty, 0);
    soften(0);
    held.pack();
    wait_full(v_full, 0);
  }
  for (int i = 1; i < blocks; ++i) {
    wait_full(k_full, i);
    start_scores(i);
    start_values(i - 1);
    warpgroup_wait<1>();
    warpgroup_result(held.score);
    leave(k_empty, i);
    const bool raised = soften(i);
    // One, whatever the sums; but the compiler does not know, and so leaves this softmax before the
    // end of the products beside which it is to run.
    unsigned one = 1;
    asm volatile("or.b32 %0, %1, 1;"
                 : "=r"(one)
                 : "r"(__float_as_uint(held.total[0] + held.total[1])));
    wait_full(v_full, i, one);
    warpgroup_wait<0>();
    warpgroup_result(held.out);
    leave(v_empty, i - 1);
    if (raised) {
      held.rescale();
    }
    held.pack();
  }
  if (blocks > 0) {
    start_values(blocks - 1);
    warpgroup_wait<0>();
    warpgroup_result(held.out);
  }

  // Results leave through the queries' place, each warp through its own rows.
  block_barrier_wait(1 + member, 128);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int mine = row + half * 8;
    float sum = held.total[half];
    sum += __shfl_xor_sync(0xffffffffU, sum, 1);
    sum += __shfl_xor_sync(0xffffffffU, sum, 2);
    const float inverse = sum == 0.0F ? 0.0F : 1.0F / sum;
    if (lse != nullptr && lane % 4 == 0 && mine < rows) {
      lse[first_lse + mine] = held.highest[half] * 0.69314718055994531F + logf(sum);
    }
#pragma unroll
    for (int j = 0; j < D / 8; ++j) {
      const unsigned pair = pack_pair<T>(held.out[j * 4 + half * 2] * inverse,
                                         held.out[j * 4 + half * 2 + 1] * inverse);
      asm volatile(
          "st.shared.b32 [%0], %1;" ::"r"(q_tile + slab_offset<bm>(mine, j) + lane % 4 * 4),
          "r"(pair)
          : "memory");
    }
  }
  __syncwarp();
#pragma unroll 4
  for (int at = lane; at < 16 * (D / 8); at += 32) {
    const int mine = warp_row + at / (D / 8);
    const int chunk = at % (D / 8);
    if (mine < rows) {
      store_pack(
          o + first_query + mine * q_stride + chunk * 8, 0,
          load_pack<8>(reinterpret_cast<const T*>(shared + slab_offset<bm>(mine, chunk)), 0));
    }
  }
}
