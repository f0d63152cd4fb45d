// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "block_index.cuh"
#include "exp2.cuh"
#include "operand.cuh"
#include "tensor_core.cuh"
#include "vector.cuh"

/// Attention through mma.sync: WARPS warps compute ROWS = 16 or 32 queries each, BN keys at a time,
/// the next BN arriving meanwhile. `shared` holds (WARPS * ROWS + 4 * BN) * D * sizeof(T) bytes.
template <typename T, int D, int ROWS, int WARPS, int BN, int ALIGN>
__device__ inline void attend_by_warps(unsigned char* shared, T* o, float* lse, const T* q,
                                       const T* k, const T* v, float scale, int causal, int batches,
                                       int q_len, int kv_len, int kv_heads, int group) {
  constexpr int threads = 32 * WARPS;
  constexpr int bm = WARPS * ROWS;
  constexpr int tiles_m = ROWS / 16;
  constexpr int tiles_n = BN / 8;  // of scores
  constexpr int tiles_d = D / 8;   // of the output
  constexpr unsigned tile_bytes = BN * D * sizeof(T);
  constexpr unsigned row_bytes = D * sizeof(T);
  const float minus_infinity = __int_as_float(0xff800000);
  // A row's maximum is raised only when it grew by 2^8: until then the exponentials stay small
  // enough for f16, and nothing summed before needs scaling.
  constexpr float slack = 8.0F;

  const unsigned q_tile = shared_address(shared);
  const unsigned kv_tiles = q_tile + bm * row_bytes;  // K, V, K, V
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;

  // The tiles of a head run together, since they read the same keys; the longest first, so that
  // short ones fill the end.
  const int q_tiles = (q_len + bm - 1) / bm;
  const long long head_index = block_index() / q_tiles;
  const int q0 = (q_tiles - 1 - static_cast<int>(block_index() % q_tiles)) * bm;
  const int heads = kv_heads * group;
  if (head_index >= static_cast<long long>(batches) * heads) {
    return;
  }
  const int head = static_cast<int>(head_index % heads);
  const long long batch = head_index / heads;
  const long long q_stride = static_cast<long long>(heads) * D;
  const long long kv_stride = static_cast<long long>(kv_heads) * D;
  const T* q_rows = q + (batch * q_len + q0) * q_stride + head * D;
  const T* k_rows = k + batch * kv_len * kv_stride + head / group * D;
  const T* v_rows = v + batch * kv_len * kv_stride + head / group * D;
  const int ahead = kv_len - q_len;  // keys that come before the first query

  const int kv_end = causal != 0 ? max(0, min(kv_len, q0 + bm + ahead)) : kv_len;
  const int blocks = (kv_end + BN - 1) / BN;
  const auto start_block = [&](int block) {
    const unsigned to = kv_tiles + (block & 1) * 2 * tile_bytes;
    const long long first = static_cast<long long>(block) * BN;
    copy_rows<T, BN, D, threads, ALIGN>(to, k_rows + first * kv_stride, kv_stride, kv_len - first);
    copy_rows<T, BN, D, threads, ALIGN>(to + tile_bytes, v_rows + first * kv_stride, kv_stride,
                                        kv_len - first);
  };

  float out[tiles_m][tiles_d][4] = {};
  float highest[tiles_m][2];  // of scaled scores, base 2, for rows lane / 4 and lane / 4 + 8
  float total[tiles_m][2] = {};
#pragma unroll
  for (int i = 0; i < tiles_m; ++i) {
    highest[i][0] = minus_infinity;
    highest[i][1] = minus_infinity;
  }
  const float natural_scale = scale == 0.0F ? rsqrtf(static_cast<float>(D)) : scale;
  const float scale2 = natural_scale * 1.4426950408889634F;

  copy_rows<T, bm, D, threads, ALIGN>(q_tile, q_rows, q_stride, q_len - q0);
  if (blocks > 0) {
    start_block(0);
  }
  commit_copies();

  // Queries stay in registers where there is room; elsewhere they are loaded again for each block.
  constexpr bool keep_q = D / 16 * ROWS / 16 * 4 <= (D == 64 ? 32 : D == 256 ? 64 : 0);
  unsigned fragment_q[keep_q ? D / 16 : 2][tiles_m][4];
  const unsigned lane_q = chunk_offset<D>(warp * ROWS + lane % 16, lane / 16);
  const unsigned lane_k = chunk_offset<D>(lane / 16 * 8 + lane % 8, lane / 8 % 2);
  const unsigned lane_v = chunk_offset<D>(lane % 16, lane / 16);

  const auto load_q = [&](int step) {
#pragma unroll
    for (int i = 0; i < tiles_m; ++i) {
      load_matrices(fragment_q[keep_q ? step : step & 1][i],
                    q_tile + (lane_q ^ step * 32) + i * 16 * row_bytes);
    }
  };
  if (keep_q) {
    wait_copies<0>();
    __syncthreads();
#pragma unroll
    for (int step = 0; step < D / 16; ++step) {
      load_q(step);
    }
  }

  for (int block = 0; block < blocks; ++block) {
    wait_copies<0>();
    __syncthreads();  // this block is there, and every warp is done with the one before
    if (block + 1 < blocks) {
      start_block(block + 1);
    }
    commit_copies();
    const unsigned k_tile = kv_tiles + (block & 1) * 2 * tile_bytes;
    const unsigned v_tile = k_tile + tile_bytes;

    // Loads run ahead of products by a batch: ldmatrix is slow to answer when shared memory is
    // busy.
    float score[tiles_m][tiles_n][4] = {};
    unsigned fragment_k[2][tiles_n / 2][4];
    const auto load_step = [&](int step) {
      if (!keep_q) {
        load_q(step);
      }
#pragma unroll
      for (int j = 0; j < tiles_n / 2; ++j) {
        load_matrices(fragment_k[step & 1][j], k_tile + (lane_k ^ step * 32) + j * 16 * row_bytes);
      }
    };
    load_step(0);
#pragma unroll
    for (int step = 0; step < D / 16; ++step) {
      if (step + 1 < D / 16) {
        load_step(step + 1);
      }
#pragma unroll
      for (int j = 0; j < tiles_n; ++j) {
#pragma unroll
        for (int i = 0; i < tiles_m; ++i) {
          multiply_add<T>(score[i][j], fragment_q[keep_q ? step : step & 1][i],
                          fragment_k[step & 1][j / 2][j % 2 * 2],
                          fragment_k[step & 1][j / 2][j % 2 * 2 + 1]);
        }
      }
    }

    constexpr int v_batch = 2;  // of 16 columns
    constexpr int v_batches = D / 16 / v_batch;
    unsigned fragment_v[2][v_batch][4];
    const auto load_v = [&](int batch_index) {
      const int step = batch_index / v_batches;
#pragma unroll
      for (int j = 0; j < v_batch; ++j) {
        load_matrices_transposed(fragment_v[batch_index & 1][j],
                                 v_tile + (lane_v ^ (batch_index % v_batches * v_batch + j) * 32) +
                                     step * 16 * row_bytes);
      }
    };
    load_v(0);  // early: it passes the time of the softmax

    const int key0 = block * BN;
    if (key0 + BN > kv_len || (causal != 0 && key0 + BN - 1 > q0 + warp * ROWS + ahead)) {
#pragma unroll
      for (int i = 0; i < tiles_m; ++i) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int row = q0 + warp * ROWS + i * 16 + half * 8 + lane / 4;
          const int seen = causal != 0 ? min(kv_len, row + ahead + 1) : kv_len;
#pragma unroll
          for (int j = 0; j < tiles_n; ++j) {
            const int key = key0 + j * 8 + lane % 4 * 2;
            if (key >= seen) {
              score[i][j][half * 2] = minus_infinity;
            }
            if (key + 1 >= seen) {
              score[i][j][half * 2 + 1] = minus_infinity;
            }
          }
        }
      }
    }

    float factor[tiles_m][2];
    bool raised = false;
#pragma unroll
    for (int i = 0; i < tiles_m; ++i) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float largest = minus_infinity;
#pragma unroll
        for (int j = 0; j < tiles_n; ++j) {
          largest = fmaxf(largest, fmaxf(score[i][j][half * 2], score[i][j][half * 2 + 1]));
        }
        largest = fmaxf(largest, __shfl_xor_sync(0xffffffffU, largest, 1));
        largest = fmaxf(largest, __shfl_xor_sync(0xffffffffU, largest, 2)) * scale2;
        factor[i][half] = 1.0F;
        if (largest > highest[i][half] + slack) {
          factor[i][half] = fast_exp2(highest[i][half] - largest);
          highest[i][half] = largest;
          raised = true;
        }
        // A row that has seen no key yet has only exponents of minus infinity.
        const float shift = highest[i][half] == minus_infinity ? 0.0F : -highest[i][half];
        float sum = 0.0F;
#pragma unroll
        for (int j = 0; j < tiles_n; ++j) {
#pragma unroll
          for (int e = half * 2; e < half * 2 + 2; ++e) {
            score[i][j][e] = fast_exp2(fmaf(score[i][j][e], scale2, shift));
            sum += score[i][j][e];
          }
        }
        total[i][half] = total[i][half] * factor[i][half] + sum;
      }
    }
    if (__any_sync(0xffffffffU, raised)) {
#pragma unroll
      for (int i = 0; i < tiles_m; ++i) {
#pragma unroll
        for (int j = 0; j < tiles_d; ++j) {
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            out[i][j][e] *= factor[i][e / 2];
          }
        }
      }
    }

    // The exponentials lie in registers as the left operand needs them.
#pragma unroll
    for (int step = 0; step < BN / 16; ++step) {
      unsigned weight[tiles_m][4];
#pragma unroll
      for (int i = 0; i < tiles_m; ++i) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const float(&pair)[4] = score[i][step * 2 + e / 2];
          weight[i][e] = pack_pair<T>(pair[e % 2 * 2], pair[e % 2 * 2 + 1]);
        }
      }
#pragma unroll
      for (int part = 0; part < v_batches; ++part) {
        const int index = step * v_batches + part;
        if (index + 1 < BN / 16 * v_batches) {
          load_v(index + 1);
        }
#pragma unroll
        for (int j = 0; j < 2 * v_batch; ++j) {
#pragma unroll
          for (int i = 0; i < tiles_m; ++i) {
            multiply_add<T>(out[i][part * 2 * v_batch + j], weight[i],
                            fragment_v[index & 1][j / 2][j % 2 * 2],
                            fragment_v[index & 1][j / 2][j % 2 * 2 + 1]);
          }
        }
      }
    }
  }

  // Results leave through the queries' place, each warp through its own rows.
  wait_copies<0>();
  if (blocks == 0) {
    __syncthreads();  // other warps' copies of these queries
  }
#pragma unroll
  for (int i = 0; i < tiles_m; ++i) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float sum = total[i][half];
      sum += __shfl_xor_sync(0xffffffffU, sum, 1);
      sum += __shfl_xor_sync(0xffffffffU, sum, 2);
      const float inverse = sum == 0.0F ? 0.0F : 1.0F / sum;
      const int local = warp * ROWS + i * 16 + half * 8 + lane / 4;
      const int row = q0 + local;
      if (lse != nullptr && lane % 4 == 0 && row < q_len) {
        lse[(batch * heads + head) * q_len + row] =
            highest[i][half] * 0.69314718055994531F + logf(sum);
      }
#pragma unroll
      for (int j = 0; j < tiles_d; ++j) {
        const unsigned pair =
            pack_pair<T>(out[i][j][half * 2] * inverse, out[i][j][half * 2 + 1] * inverse);
        asm volatile(
            "st.shared.b32 [%0], %1;" ::"r"(q_tile + chunk_offset<D>(local, j) + lane % 4 * 4),
            "r"(pair)
            : "memory");
      }
    }
  }
  __syncwarp();
#pragma unroll 4
  for (int at = lane; at < ROWS * (D / 8); at += 32) {
    const int local = warp * ROWS + at / (D / 8);
    const int chunk = at % (D / 8);
    if (q0 + local < q_len) {
      const Pack<T, 8> values =
          load_pack<8>(reinterpret_cast<const T*>(shared + chunk_offset<D>(local, chunk)), 0);
      T* to = o + (batch * q_len + q0 + local) * q_stride + head * D + chunk * 8;
      if constexpr (ALIGN == 8) {
        store_pack(to, 0, values);
      } else {
#pragma unroll
        for (int e = 0; e < 8; ++e) {
          to[e] = values.value[e];
        }
      }
    }
  }
}
