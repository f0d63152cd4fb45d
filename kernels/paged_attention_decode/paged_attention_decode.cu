// SPDX-License-Identifier: Apache-2.0
#include "block_index.cuh"
#include "exp2.cuh"
#include "operand.cuh"
#include "tensor_core.cuh"
#include "vector.cuh"

// Attention of one query a sequence over keys that lie in pages, split over the keys: `partial`
// makes a softmax of every PART keys of a sequence, `combine` joins them.

constexpr int k_keys = 16;   // a warp's keys at a time
constexpr int k_heads = 16;  // query heads of a block: an mma tile's rows

/// o[b, h] = softmax(scale * q[b, h] K^T) V over the lengths[b] keys of sequence b.
///
/// q and o are [batch, kv_heads * group, D]; k and v are [pages, page_size, kv_heads, D]; key i of
/// sequence b lies in page table[b, i / page_size]. A sequence of length 0 gives zeros. `scale` 0
/// means 1 / sqrt(D).
///
/// A block of WARPS warps goes through `part` keys of a sequence for up to 16 query heads that read
/// the same key head, 16 keys a warp at a time; each warp keeps STAGES such tiles of K and V in
/// shared memory, which is WARPS * STAGES * 64 * D bytes, and its own softmax, joined at the end.
/// The grid is parts (the x dimension of the workspace) * ceil(group / 16) * kv_heads * batch
/// blocks. Sequences of one part are written to o, others to sums [batch, heads, parts, D] and
/// stats [batch, heads, parts, 2]: maximum, base 2, and total. ALIGN 8 needs 16-byte pointers, 1
/// takes any.
template <typename T, int D, int WARPS, int STAGES, int ALIGN>
__global__ void __launch_bounds__(32 * WARPS)
    paged_attention_partial(T* o, float* sums, float* stats, const T* q, const T* k, const T* v,
                            const int* table, const int* lengths, float scale, int batches,
                            int kv_heads, int group, int page_size, int max_pages, int part,
                            int parts) {
  constexpr int tiles_d = D / 8;
  constexpr int chunks = D / 8;
  constexpr unsigned row_bytes = D * sizeof(T);
  constexpr unsigned tile_bytes = k_keys * row_bytes;
  constexpr int rows_a_pass = 32 / chunks > 0 ? 32 / chunks : 1;
  constexpr int passes = k_keys / rows_a_pass;
  static_assert(chunks <= 32, "a warp copies whole rows");
  const float minus_infinity = __int_as_float(0xff800000);

  extern __shared__ __align__(128) unsigned char shared[];
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int part_at = static_cast<int>(block_index() % parts);
  const int head_blocks = (group + k_heads - 1) / k_heads;
  const long long rest = block_index() / parts;
  const int head_block = static_cast<int>(rest % head_blocks);
  const int kv_head = static_cast<int>(rest / head_blocks % kv_heads);
  const long long batch = rest / head_blocks / kv_heads;
  if (batch >= batches) {
    return;
  }
  const int length =
      min(lengths[batch],
          static_cast<int>(min(static_cast<long long>(max_pages) * page_size, 0x7fffffffLL)));
  const int first = part_at * part;
  const int last = min(length, first + part);
  const bool only = length <= part;
  if (first >= last && !(only && part_at == 0)) {
    return;
  }

  const int head0 = kv_head * group + head_block * k_heads;
  const int heads_here = min(k_heads, group - head_block * k_heads);
  const long long q_at = (batch * kv_heads * group + head0) * D;

  // The queries' fragments, straight from memory: they are read once.
  unsigned fragment_q[D / 16][4];
#pragma unroll
  for (int step = 0; step < D / 16; ++step) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int row = lane / 4 + e % 2 * 8;
      const T* from = q + q_at + row * D + step * 16 + lane % 4 * 2 + e / 2 * 8;
      fragment_q[step][e] = 0;
      if (row < heads_here) {
        const auto* bits = reinterpret_cast<const unsigned short*>(from);
        fragment_q[step][e] = bits[0] | static_cast<unsigned>(bits[1]) << 16;
      }
    }
  }

  const unsigned mine = shared_address(shared) + warp * STAGES * 2 * tile_bytes;
  const int tiles = last > first ? (last - first + k_keys - 1) / k_keys : 0;
  const int my_tiles = tiles > warp ? (tiles - warp + WARPS - 1) / WARPS : 0;
  const auto key_of = [&](int tile) { return first + (tile * WARPS + warp) * k_keys; };
  // The place of key lane % 16 of a tile, among all pages' keys.
  const auto find = [&](int tile) {
    const int key = key_of(tile) + lane % k_keys;
    if (tile >= my_tiles || key >= last) {
      return 0LL;
    }
    const long long page = table[batch * max_pages + key / page_size];
    return page * page_size + key % page_size;
  };
  const auto start_tile = [&](int tile, long long place) {
    const unsigned to = mine + tile % STAGES * 2 * tile_bytes;
#pragma unroll(ALIGN == 8 ? passes : 1)
    for (int pass = 0; pass < passes; ++pass) {
      const int row = pass * rows_a_pass + lane / chunks;
      const int chunk = lane % chunks;
      const long long from =
          (__shfl_sync(0xffffffffU, place, row) * kv_heads + kv_head) * D + chunk * 8;
      const bool inside = tile < my_tiles && key_of(tile) + row < last;
      const unsigned at = to + chunk_offset<D>(row, chunk);
      if constexpr (ALIGN == 8) {
        copy_async<16>(at, k + from, inside);
        copy_async<16>(at + tile_bytes, v + from, inside);
      } else {
#pragma unroll
        for (int e = 0; e < 8; ++e) {
          const auto* key = reinterpret_cast<const unsigned short*>(k + from + e);
          const auto* value = reinterpret_cast<const unsigned short*>(v + from + e);
          asm volatile("st.shared.u16 [%0], %1;" ::"r"(at + e * 2),
                       "h"(static_cast<unsigned short>(inside ? *key : 0))
                       : "memory");
          asm volatile("st.shared.u16 [%0], %1;" ::"r"(at + tile_bytes + e * 2),
                       "h"(static_cast<unsigned short>(inside ? *value : 0))
                       : "memory");
        }
      }
    }
    commit_copies();
  };

  const float scale2 =
      (scale == 0.0F ? rsqrtf(static_cast<float>(D)) : scale) * 1.4426950408889634F;
  float out[tiles_d][4] = {};
  float highest[2] = {minus_infinity, minus_infinity};
  float total[2] = {};
  const unsigned lane_k = chunk_offset<D>(lane / 16 * 8 + lane % 8, lane / 8 % 2);
  const unsigned lane_v = chunk_offset<D>(lane % 16, lane / 16);

#pragma unroll
  for (int tile = 0; tile < STAGES - 1; ++tile) {
    start_tile(tile, find(tile));
  }
  long long next_place = find(STAGES - 1);
  for (int tile = 0; tile < my_tiles; ++tile) {
    __syncwarp();  // the tile before was read by all lanes
    start_tile(tile + STAGES - 1, next_place);
    next_place = find(tile + STAGES);  // early: its latency passes while this tile is worked on
    wait_copies<STAGES - 1>();
    __syncwarp();
    const unsigned k_tile = mine + tile % STAGES * 2 * tile_bytes;
    const unsigned v_tile = k_tile + tile_bytes;

    float score[2][4] = {};
#pragma unroll
    for (int step = 0; step < D / 16; ++step) {
      unsigned keys[4];
      load_matrices(keys, k_tile + (lane_k ^ step * 32));
      multiply_add<T>(score[0], fragment_q[step], keys[0], keys[1]);
      multiply_add<T>(score[1], fragment_q[step], keys[2], keys[3]);
    }
    const int key0 = key_of(tile);
    if (key0 + k_keys > last) {
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        if (key0 + e / 4 * 8 + lane % 4 * 2 + e % 2 >= last) {
          score[e / 4][e % 4] = minus_infinity;
        }
      }
    }
    float factor[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float largest = fmaxf(fmaxf(score[0][half * 2], score[0][half * 2 + 1]),
                            fmaxf(score[1][half * 2], score[1][half * 2 + 1]));
      largest = fmaxf(largest, __shfl_xor_sync(0xffffffffU, largest, 1));
      largest = fmaxf(largest, __shfl_xor_sync(0xffffffffU, largest, 2)) * scale2;
      const float now = fmaxf(highest[half], largest);
      const float shift = now == minus_infinity ? 0.0F : -now;
      factor[half] = fast_exp2(highest[half] + shift);
      highest[half] = now;
      float sum = 0.0F;
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        float& value = score[e / 2][half * 2 + e % 2];
        value = fast_exp2(fmaf(value, scale2, shift));
        sum += value;
      }
      total[half] = total[half] * factor[half] + sum;
    }
    unsigned weight[4];
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      weight[e] = pack_pair<T>(score[e / 2][e % 2 * 2], score[e / 2][e % 2 * 2 + 1]);
    }
#pragma unroll
    for (int pair = 0; pair < tiles_d / 2; ++pair) {
      unsigned values[4];
      load_matrices_transposed(values, v_tile + (lane_v ^ pair * 32));
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        float(&sum)[4] = out[pair * 2 + j];
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          sum[e] *= factor[e / 2];
        }
        multiply_add<T>(sum, weight, values[j * 2], values[j * 2 + 1]);
      }
    }
  }
  wait_copies<0>();

  // Join the warps' softmaxes, in order: [WARPS][16][D] sums, then [WARPS][16][2] maxima and
  // totals.
  __syncthreads();
  float* all_sums = reinterpret_cast<float*>(shared);
  float* all_stats = all_sums + WARPS * k_heads * D;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    total[half] += __shfl_xor_sync(0xffffffffU, total[half], 1);
    total[half] += __shfl_xor_sync(0xffffffffU, total[half], 2);
    const int row = warp * k_heads + half * 8 + lane / 4;
    if (lane % 4 == 0) {
      all_stats[row * 2] = highest[half];
      all_stats[row * 2 + 1] = total[half];
    }
#pragma unroll
    for (int j = 0; j < tiles_d; ++j) {
      *reinterpret_cast<float2*>(all_sums + row * D + j * 8 + lane % 4 * 2) =
          make_float2(out[j][half * 2], out[j][half * 2 + 1]);
    }
  }
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < heads_here * D; i += 32 * WARPS) {
    const int row = i / D;
    const int column = i % D;
    float most = minus_infinity;
#pragma unroll
    for (int w = 0; w < WARPS; ++w) {
      most = fmaxf(most, all_stats[(w * k_heads + row) * 2]);
    }
    const float shift = most == minus_infinity ? 0.0F : -most;
    float sum = 0.0F;
    float all = 0.0F;
#pragma unroll
    for (int w = 0; w < WARPS; ++w) {
      const float share = fast_exp2(all_stats[(w * k_heads + row) * 2] + shift);
      all += share * all_stats[(w * k_heads + row) * 2 + 1];
      sum += share * all_sums[(w * k_heads + row) * D + column];
    }
    if (only) {
      o[q_at + i] = from_float<T>(all == 0.0F ? 0.0F : sum / all);
    } else {
      const long long at = (batch * kv_heads * group + head0 + row) * parts + part_at;
      sums[at * D + column] = sum;
      if (column == 0) {
        stats[at * 2] = most;
        stats[at * 2 + 1] = all;
      }
    }
  }
}

/// Joins the parts of each sequence of more than one: a block a query head, D threads.
template <typename T, int D>
__global__ void __launch_bounds__(D)
    paged_attention_combine(T* o, const float* sums, const float* stats, const int* lengths,
                            int batches, int kv_heads, int group, int page_size, int max_pages,
                            int part, int parts) {
  const int heads = kv_heads * group;
  const long long at = block_index();
  if (at >= static_cast<long long>(batches) * heads) {
    return;
  }
  const long long room = static_cast<long long>(max_pages) * page_size;
  const int length = static_cast<int>(min(static_cast<long long>(lengths[at / heads]), room));
  if (length <= part) {
    return;
  }
  const int used = (length + part - 1) / part;
  const auto* my_stats = reinterpret_cast<const float2*>(stats) + at * parts;
  const float* my_sums = sums + at * parts * D + threadIdx.x;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  // Every warp finds the maximum and the total, a lane a part; then all sums are read together.
  float most = __int_as_float(0xff800000);
  for (int i = lane; i < used; i += 32) {
    most = fmaxf(most, my_stats[i].x);
  }
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) {
    most = fmaxf(most, __shfl_xor_sync(0xffffffffU, most, offset));
  }
  const float shift = most == __int_as_float(0xff800000) ? 0.0F : -most;
  float sum = 0.0F;
  float all = 0.0F;
  for (int begin = 0; begin < used; begin += 32) {
    float share = 0.0F;
    if (begin + lane < used) {
      const float2 stat = my_stats[begin + lane];
      share = fast_exp2(stat.x + shift);
      all += share * stat.y;
    }
#pragma unroll 8
    for (int i = 0; i < min(32, used - begin); ++i) {
      sum += __shfl_sync(0xffffffffU, share, i) * my_sums[static_cast<long long>(begin + i) * D];
    }
  }
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) {
    all += __shfl_xor_sync(0xffffffffU, all, offset);
  }
  o[at * D + threadIdx.x] = from_float<T>(sum / all);
}

/// The same in float64 with the whole softmax first, a warp a query head.
template <typename T, int D>
__global__ void paged_attention_decode_ref(T* o, const T* q, const T* k, const T* v,
                                           const int* table, const int* lengths, float scale,
                                           int batches, int kv_heads, int group, int page_size,
                                           int max_pages) {
  const int heads = kv_heads * group;
  const long long at = block_index();
  if (at >= static_cast<long long>(batches) * heads) {
    return;
  }
  const long long batch = at / heads;
  const int kv_head = static_cast<int>(at % heads) / group;
  const double factor = scale == 0.0F ? 1.0 / sqrt(static_cast<double>(D)) : scale;
  const long long length =
      min(static_cast<long long>(lengths[batch]), static_cast<long long>(max_pages) * page_size);
  const auto place = [&](long long key) {
    const long long page = table[batch * max_pages + key / page_size];
    return ((page * page_size + key % page_size) * kv_heads + kv_head) * D;
  };
  const auto score = [&](long long key) {
    double sum = 0.0;
    const T* row = k + place(key);
#pragma unroll 1
    for (int i = 0; i < D; ++i) {
      sum += static_cast<double>(to_float(q[at * D + i])) * to_float(row[i]);
    }
    return sum * factor;
  };
  double highest = __int_as_float(0xff800000);
  for (long long key = 0; key < length; ++key) {
    highest = fmax(highest, score(key));
  }
  double total = 0.0;
  double sum[D / 32] = {};
  for (long long key = 0; key < length; ++key) {
    const double weight = exp(score(key) - highest);
    total += weight;
    for (int c = 0; c < D / 32; ++c) {
      sum[c] += weight * to_float(v[place(key) + c * 32 + threadIdx.x]);
    }
  }
  for (int c = 0; c < D / 32; ++c) {
    o[at * D + c * 32 + threadIdx.x] =
        from_float<T>(length <= 0 ? 0.0F : static_cast<float>(sum[c] / total));
  }
}
