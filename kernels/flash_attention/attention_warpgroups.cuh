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

/// A tile's place: the queries of one head that a block computes at a time.
struct AttentionTile {
  int batch;
  int head;
  int q0;  ///< its first query

  /// Tiles of a head run together, since they read the same keys; with `together` heads at once,
  /// the longest of them first, so that short tiles fill the end.
  __device__ AttentionTile(int index, int q_tiles, int rows, int together, int heads,
                           int all_heads) {
    const int section = index / (together * q_tiles) * together;
    const int within = index - section * q_tiles;
    const int width = min(together, all_heads - section);
    const int head_index = section + within % width;  // of all batches' heads
    q0 = (q_tiles - 1 - within / width) * rows;
    batch = head_index / heads;
    head = head_index - batch * heads;
  }
};

/// 128 threads copy, and 128 more compute each 64 of a tile's 64 * GROUPS queries, BN keys at a
/// time; pointers are aligned to 16 bytes. `shared`, aligned to 1024 bytes, holds (64 * GROUPS *
/// (1 + LASTING) + 2 * STAGES * BN) * D * sizeof(T) bytes of queries, keys and values, and 128 of
/// barriers.
/// A LASTING block takes one tile after the other, and copies the next while it computes; the grid
/// is then any. TURNS: the warpgroups take turns in starting products, so that one's softmax meets
/// another's products.
template <typename T, int D, int GROUPS, int BN, int STAGES, bool LASTING, bool TURNS>
__device__ inline void attend_by_warpgroups(unsigned char* shared, T* o, float* lse, const T* q,
                                            const T* k, const T* v, float scale, int causal,
                                            int batches, int q_len, int kv_len, int kv_heads,
                                            int group) {
  constexpr int bm = 64 * GROUPS;
  constexpr unsigned q_bytes = bm * D * sizeof(T);
  constexpr unsigned tile_bytes = BN * D * sizeof(T);
  const unsigned q_tiles_at = shared_address(shared);
  const unsigned k_tiles = q_tiles_at + (LASTING ? 2 : 1) * q_bytes;
  const unsigned v_tiles = k_tiles + STAGES * tile_bytes;
  const unsigned q_full = v_tiles + STAGES * tile_bytes;  // of each stage, 8 bytes apart
  const unsigned q_empty = q_full + 16;
  const unsigned k_full = q_full + 32;
  const unsigned v_full = k_full + 8 * STAGES;
  const unsigned k_empty = v_full + 8 * STAGES;
  const unsigned v_empty = k_empty + 8 * STAGES;

  // As many heads together, where lengths differ, as have so many bytes of keys and values: a
  // block that takes the next tile wants lengths to fall slowly, another one keys that lie in L2.
  constexpr int keys_together =
      (LASTING ? 32 << 20 : 4 << 20) / (2 * D * static_cast<int>(sizeof(T)));
  const int heads = kv_heads * group;
  const int all_heads = batches * heads;
  const int q_tiles = (q_len + bm - 1) / bm;
  const int together =
      causal != 0 ? max(1, min(all_heads, keys_together / max(1, kv_len) * min(group, 1024))) : 1;
  const int all_tiles = q_tiles * all_heads;
  // Rounds go there and back, so that lengths even out.
  const auto tile_of = [&](int round) {
    const int blocks = static_cast<int>(gridDim.x);
    const int block = static_cast<int>(blockIdx.x);
    return LASTING ? round * blocks + (round % 2 == 0 ? block : blocks - 1 - block) : block;
  };
  const auto place_of = [&](int round) {
    return AttentionTile(tile_of(round), q_tiles, bm, together, heads, all_heads);
  };
  const long long q_stride = static_cast<long long>(heads) * D;
  const long long kv_stride = static_cast<long long>(kv_heads) * D;
  const auto first_query = [&](const AttentionTile& tile) {
    return (static_cast<long long>(tile.batch) * q_len + tile.q0) * q_stride + tile.head * D;
  };
  const int more = causal != 0 ? 1 : 0;  // keys that each query sees beyond the one before
  const auto ahead = [&](const AttentionTile& tile) {  // keys that the first one sees
    return causal != 0 ? tile.q0 + kv_len - q_len + 1 : kv_len;
  };
  // Blocks are met from the last to the first: those that a mask cuts come first.
  const auto blocks_of = [&](const AttentionTile& tile) {
    return (max(0, min(kv_len, ahead(tile) + (bm - 1) * more)) + BN - 1) / BN;
  };
  // The i-th block met is in stage i % STAGES in that stage's phase i / STAGES; tiles' queries have
  // two stages.
  const auto stage = [](int i) { return static_cast<unsigned>(i) % STAGES; };
  const auto phase = [](int i) { return static_cast<unsigned>(i) / STAGES & 1U; };

  if (threadIdx.x == 0) {
    for (unsigned i = 0; i < 2; ++i) {
      barrier_init(q_full + i * 8, 128);
      barrier_init(q_empty + i * 8, 4 * GROUPS);
    }
    for (unsigned i = 0; i < STAGES; ++i) {
      barrier_init(k_full + i * 8, 128);
      barrier_init(v_full + i * 8, 128);
      barrier_init(k_empty + i * 8, 4 * GROUPS);
      barrier_init(v_empty + i * 8, 4 * GROUPS);
    }
  }
  __syncthreads();
  const int warp = __shfl_sync(0xffffffffU, static_cast<int>(threadIdx.x) / 32, 0);  // uniform
  int met = 0;  // blocks of the tiles before
  if (warp < 4) {
    give_registers<GROUPS == 2 ? 40 : 32>();
    for (int round = 0; round == 0 || (LASTING && tile_of(round) < all_tiles); ++round) {
      const AttentionTile tile = place_of(round);
      const int blocks = blocks_of(tile);
      const long long first_key =
          static_cast<long long>(tile.batch) * kv_len * kv_stride + tile.head / group * D;
      const auto copy = [&](unsigned full, unsigned empty, unsigned tiles, const T* from, int i) {
        const int key = (blocks - 1 - i) * BN;
        barrier_wait(empty + stage(met + i) * 8, phase(met + i) ^ 1U);
        copy_slabs<T, BN, D>(tiles + stage(met + i) * tile_bytes,
                             from + first_key + key * kv_stride, kv_stride, kv_len - key);
        barrier_arrive_after_copies(full + stage(met + i) * 8);
      };
      if (LASTING) {
        barrier_wait(q_empty + round % 2 * 8, (round / 2 & 1) ^ 1);
      }
      copy_slabs<T, bm, D>(q_tiles_at + round % 2 * q_bytes, q + first_query(tile), q_stride,
                           q_len - tile.q0);
      barrier_arrive_after_copies(q_full + round % 2 * 8);
      for (int i = 0; i < blocks; ++i) {
        copy(k_full, k_empty, k_tiles, k, i);
        if (i > 0) {
          copy(v_full, v_empty, v_tiles, v, i - 1);
        }
      }
      if (blocks > 0) {
        copy(v_full, v_empty, v_tiles, v, blocks - 1);
      }
      met += blocks;
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
  const float scale2 =
      (scale == 0.0F ? rsqrtf(static_cast<float>(D)) : scale) * 1.4426950408889634F;
  const auto wait_full = [&](unsigned full, int i, unsigned one = 1) {
    barrier_wait(full + stage(i) * 8, phase(i) & one);
    fence_for_products();
  };
  const auto leave = [&](unsigned empty, int i) {
    barrier_arrive(empty + stage(i) * 8, lane == 0);
  };
  const auto take_turn = [&] {
    if (TURNS) {
      block_barrier_wait(1 + GROUPS + member, 256);
    }
  };
  const auto end_turn = [&] {
    if (TURNS) {
      block_barrier_arrive(1 + GROUPS + (member + 1) % GROUPS, 256);
    }
  };
  if (member == GROUPS - 1) {
    end_turn();
  }
  for (int round = 0; round == 0 || (LASTING && tile_of(round) < all_tiles); ++round) {
    const AttentionTile tile = place_of(round);
    const int blocks = blocks_of(tile);
    const unsigned q_tile = q_tiles_at + round % 2 * q_bytes;
    const SlabOperand queries(q_tile + member * 64 * 128);
    Attended<T, D, BN> held;
    const auto start_scores = [&](int i) {
      held.template start_scores<bm>(queries, SlabOperand(k_tiles + stage(i) * tile_bytes));
    };
    const auto start_values = [&](int i) {
      held.start_values(SlabOperand(v_tiles + stage(i) * tile_bytes, BN * 128));
    };
    const auto seen = [&](int local) { return min(kv_len, ahead(tile) + local * more); };
    const int clear = seen(member * 64);  // keys that every row of this warpgroup sees
    const auto soften = [&](int i) {
      const int first = (blocks - 1 - i) * BN;
      if (first + BN > clear) {
        held.mask({seen(row) - first, seen(row + 8) - first});
      }
      return held.exponentials(scale2);
    };

    // The first blocks may be such that this warpgroup sees none of their keys.
    const int begin = blocks - min(blocks, (max(0, seen(member * 64 + 63)) + BN - 1) / BN);
    barrier_wait(q_full + round % 2 * 8, round / 2 & 1);
    fence_for_products();
    for (int i = 0; i < begin; ++i) {
      if (i > 0) {
        take_turn();
        end_turn();
      }
      wait_full(k_full, met + i);
      leave(k_empty, met + i);
      wait_full(v_full, met + i);
      leave(v_empty, met + i);
    }
    if (begin < blocks) {
      wait_full(k_full, met + begin);
      if (begin > 0) {
        take_turn();
      }
      start_scores(met + begin);
      if (begin > 0) {
        end_turn();
      }
      warpgroup_wait<0>();
      warpgroup_result(held.score);
      leave(k_empty, met + begin);
      soften(begin);
      held.pack();
      wait_full(v_full, met + begin);
    }
    for (int i = begin + 1; i < blocks; ++i) {
      wait_full(k_full, met + i);
      take_turn();
      start_scores(met + i);
      start_values(met + i - 1);
      end_turn();
      warpgroup_wait<1>();
      warpgroup_result(held.score);
      leave(k_empty, met + i);
      const bool raised = soften(i);
      // One, whatever the sums; but the compiler does not know, and so leaves this softmax before
      // the end of the products beside which it is to run.
      unsigned one = 1;
      asm volatile("or.b32 %0, %1, 1;"
                   : "=r"(one)
                   : "r"(__float_as_uint(held.total[0] + held.total[1])));
      wait_full(v_full, met + i, one);
      warpgroup_wait<0>();
      warpgroup_result(held.out);
      leave(v_empty, met + i - 1);
      if (raised) {
        held.rescale();
      }
      held.pack();
    }
    if (begin < blocks) {
      start_values(met + blocks - 1);
      warpgroup_wait<0>();
      warpgroup_result(held.out);
      leave(v_empty, met + blocks - 1);
    }
    met += blocks;

    // Results leave through the queries' place, each warp through its own rows.
    block_barrier_wait(1 + member, 128);
    const int rows = q_len - tile.q0;
    const long long first_lse =
        (static_cast<long long>(tile.batch) * heads + tile.head) * q_len + tile.q0;
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
    T* const to = o + first_query(tile);
    const unsigned char* from = shared + round % 2 * q_bytes;
#pragma unroll 4
    for (int at = lane; at < 16 * (D / 8); at += 32) {
      const int mine = warp_row + at / (D / 8);
      const int chunk = at % (D / 8);
      if (mine < rows) {
        store_pack(
            to + mine * q_stride + chunk * 8, 0,
            load_pack<8>(reinterpret_cast<const T*>(from + slab_offset<bm>(mine, chunk)), 0));
      }
    }
    if (LASTING) {
      __syncwarp();
      barrier_arrive(q_empty + round % 2 * 8, lane == 0);
    }
  }
}
