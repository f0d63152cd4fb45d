// SPDX-License-Identifier: Apache-2.0
#include "block_index.cuh"
#include "exp2.cuh"
#include "operand.cuh"
#include "tensor_core.cuh"
#include "vector.cuh"

// Attention of one query a sequence over keys that lie in pages, split over the keys: `partial`
// makes a softmax of every `part` keys of a sequence, `combine` joins them.

constexpr int k_heads = 16;  // query heads of a warp: an mma tile's rows

/// o[b, h] = softmax(scale * q[b, h] K^T) V over the lengths[b] keys of sequence b.
///
/// q and o are [batch, kv_heads * group, D]; k and v are [pages, page_size, kv_heads, D]; key i of
/// sequence b lies in page table[b, i / page_size]. A sequence of length 0 gives zeros. `scale` 0
/// means 1 / sqrt(D).
///
/// A block goes through `part` keys of a sequence for HEADS key heads, WARPS / HEADS warps each,
/// with up to 16 query heads that read the key head. A warp works on KEYS keys at a time; it keeps
/// STAGES such tiles of K and V in shared memory, which is WARPS * STAGES * 4 * KEYS * D bytes, and
/// its own softmax, joined at the end. The grid is ceil(group / 16) * ceil(kv_heads / HEADS) *
/// parts * batch blocks. With one part results are written to o, else to sums [batch, heads, parts,
/// D] and stats [batch, heads, parts, 2]: maximum, base 2, and total. ALIGN 8 needs 16-byte
/// pointers, 1 takes any.
template <typename T, int D, int WARPS, int HEADS, int KEYS, int STAGES, int ALIGN>
__global__ void __launch_bounds__(32 * WARPS)
    paged_attention_partial(T* o, float* sums, float* stats, const T* q, const T* k, const T* v,
                            const int* table, const int* lengths, float scale, int batches,
                            int kv_heads, int group, int page_size, int max_pages, int part,
                            int parts) {
  constexpr int tiles_d = D / 8;
  constexpr int tiles_k = KEYS / 8;
  constexpr int chunks = D / 8;
  constexpr unsigned row_bytes = D * sizeof(T);
  constexpr unsigned tile_bytes = KEYS * row_bytes;
  constexpr int rows_a_pass = 32 / chunks;
  constexpr int passes = KEYS / rows_a_pass;
  constexpr int sharing = WARPS / HEADS;  // warps of a key head
  static_assert(chunks <= 32 && KEYS <= 32, "a warp copies whole rows and finds a key a lane");
  const float minus_infinity = __int_as_float(0xff800000);

  extern __shared__ __align__(128) unsigned char shared[];
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  // Heads first: their keys lie side by side, and memory gives neighbours best at once.
  const int head_blocks = (group + k_heads - 1) / k_heads;
  const int head_sets = (kv_heads + HEADS - 1) / HEADS;
  const int head_block = static_cast<int>(block_index() % head_blocks);
  long long rest = block_index() / head_blocks;
  const int head_set = static_cast<int>(rest % head_sets);
  rest /= head_sets;
  const int part_at = static_cast<int>(rest % parts);
  const long long batch = rest / parts;
  if (batch >= batches) {
    return;
  }
  const int kv_head = head_set * HEADS + warp % HEADS;
  const int room =
      static_cast<int>(min(static_cast<long long>(max_pages) * page_size, 0x7fffffffLL));
  const int first = part_at * part;
  // The place of key lane % KEYS of a tile, in elements of k; 0 for a key that is none.
  const auto find = [&](int tile, int end) {
    const unsigned key =
        static_cast<unsigned>(first) + (tile * sharing + warp / HEADS) * KEYS + lane % KEYS;
    if (key >= static_cast<unsigned>(max(end, 0)) || kv_head >= kv_heads) {
      return 0LL;
    }
    const unsigned size = page_size;
    const long long page = table[batch * max_pages + key / size];
    return ((page * size + key % size) * kv_heads + kv_head) * D;
  };
  // Pages are looked up while the length is: what lies in the table beyond it is not followed.
  long long place[STAGES];
#pragma unroll
  for (int tile = 0; tile < STAGES; ++tile) {
    place[tile] = find(tile, room);
  }
  const int length = min(lengths[batch], room);
  const int last = length - first > part ? first + part : length;
  if (first >= last && parts > 1) {
    return;
  }

  const int head0 = kv_head * group + head_block * k_heads;
  const int heads_here = kv_head < kv_heads ? min(k_heads, group - head_block * k_heads) : 0;

  // The queries' fragments, straight from memory: they are read once.
  unsigned fragment_q[D / 16][4];
  const T* my_q = q + (batch * kv_heads * group + head0) * D;
#pragma unroll
  for (int step = 0; step < D / 16; ++step) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int row = lane / 4 + e % 2 * 8;
      const T* from = my_q + row * D + step * 16 + lane % 4 * 2 + e / 2 * 8;
      fragment_q[step][e] = 0;
      if (row < heads_here) {
        if constexpr (ALIGN == 8) {
          fragment_q[step][e] = *reinterpret_cast<const unsigned*>(from);
        } else {
          const auto* bits = reinterpret_cast<const unsigned short*>(from);
          fragment_q[step][e] = bits[0] | static_cast<unsigned>(bits[1]) << 16;
        }
      }
    }
  }

  const unsigned mine = shared_address(shared) + warp * STAGES * 2 * tile_bytes;
  const int tiles = last > first && heads_here > 0 ? (last - first + KEYS - 1) / KEYS : 0;
  const int my_tiles = (max(0, tiles - warp / HEADS) + sharing - 1) / sharing;
  const auto key_of = [&](int tile) { return first + (tile * sharing + warp / HEADS) * KEYS; };
  const auto start_tile = [&](int tile, long long place) {
    const unsigned to = mine + tile % STAGES * 2 * tile_bytes;
    const int rows = tile < my_tiles ? last - key_of(tile) : 0;
#pragma unroll(ALIGN == 8 ? passes : 1)
    for (int pass = 0; pass < passes; ++pass) {
      const int row = pass * rows_a_pass + lane / chunks;
      const int chunk = lane % chunks;
      const long long from = __shfl_sync(0xffffffffU, place, row) + chunk * 8;
      const bool inside = row < rows;
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
    start_tile(tile, place[tile]);
  }
  long long next_place = place[STAGES - 1];
  for (int tile = 0; tile < my_tiles; ++tile) {
    __syncwarp();  // the tile before was read by all lanes
    start_tile(tile + STAGES - 1, next_place);
    next_place =
        find(tile + STAGES, last);  // early: its latency passes while this tile is worked on
    wait_copies<STAGES - 1>();
    __syncwarp();
    const unsigned k_tile = mine + tile % STAGES * 2 * tile_bytes;
    const unsigned v_tile = k_tile + tile_bytes;

    float score[tiles_k][4] = {};
#pragma unroll
    for (int step = 0; step < D / 16; ++step) {
#pragma unroll
      for (int j = 0; j < tiles_k / 2; ++j) {
        unsigned keys[4];
        load_matrices(keys, k_tile + j * 16 * row_bytes + (lane_k ^ step * 32));
        multiply_add<T>(score[j * 2], fragment_q[step], keys[0], keys[1]);
        multiply_add<T>(score[j * 2 + 1], fragment_q[step], keys[2], keys[3]);
      }
    }
    const int seen = last - key_of(tile) - lane % 4 * 2;
    if (last - key_of(tile) < KEYS) {
#pragma unroll
      for (int e = 0; e < tiles_k * 4; ++e) {
        if (e / 4 * 8 + e % 2 >= seen) {
          score[e / 4][e % 4] = minus_infinity;
        }
      }
    }
    // A row's maximum is raised only when it grew by 2^8: until then the exponentials stay small
    // enough for f16, and nothing summed before needs scaling.
    constexpr float slack = 8.0F;
    float factor[2];
    bool raised = false;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float largest = minus_infinity;
#pragma unroll
      for (int j = 0; j < tiles_k; ++j) {
        largest = fmaxf(largest, fmaxf(score[j][half * 2], score[j][half * 2 + 1]));
      }
      largest = fmaxf(largest, __shfl_xor_sync(0xffffffffU, largest, 1));
      largest = fmaxf(largest, __shfl_xor_sync(0xffffffffU, largest, 2)) * scale2;
      const bool raise = largest > highest[half] + slack;
      factor[half] = raise ? fast_exp2(highest[half] - largest) : 1.0F;
      highest[half] = raise ? largest : highest[half];
      raised = raised || raise;
      const float shift = highest[half] == minus_infinity ? 0.0F : -highest[half];
      float sum = 0.0F;
#pragma unroll
      for (int j = 0; j < tiles_k; ++j) {
#pragma unroll
        for (int e = half * 2; e < half * 2 + 2; ++e) {
          score[j][e] = fast_exp2(fmaf(score[j][e], scale2, shift));
          sum += score[j][e];
        }
      }
      total[half] = total[half] * factor[half] + sum;
    }
    if (__any_sync(0xffffffffU, raised)) {
#pragma unroll
      for (int j = 0; j < tiles_d; ++j) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          out[j][e] *= factor[e / 2];
        }
      }
    }
#pragma unroll
    for (int step = 0; step < KEYS / 16; ++step) {
      unsigned weight[4];
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const float(&pair)[4] = score[step * 2 + e / 2];
        weight[e] = pack_pair<T>(pair[e % 2 * 2], pair[e % 2 * 2 + 1]);
      }
#pragma unroll
      for (int pair = 0; pair < tiles_d / 2; ++pair) {
        unsigned values[4];
        load_matrices_transposed(values, v_tile + step * 16 * row_bytes + (lane_v ^ pair * 32));
        multiply_add<T>(out[pair * 2], weight, values[0], values[1]);
        multiply_add<T>(out[pair * 2 + 1], weight, values[2], values[3]);
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
    if (half * 8 + lane / 4 < heads_here) {
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
  }
  __syncthreads();
  // By each head's warps.
  for (int i = warp / HEADS * 32 + lane; i < heads_here * D; i += 32 * sharing) {
    const int row = i / D;
    const int column = i % D;
    float most = minus_infinity;
#pragma unroll
    for (int w = warp % HEADS; w < WARPS; w += HEADS) {
      most = fmaxf(most, all_stats[(w * k_heads + row) * 2]);
    }
    const float shift = most == minus_infinity ? 0.0F : -most;
    float sum = 0.0F;
    float all = 0.0F;
#pragma unroll
    for (int w = warp % HEADS; w < WARPS; w += HEADS) {
      const float share = fast_exp2(all_stats[(w * k_heads + row) * 2] + shift);
      all += share * all_stats[(w * k_heads + row) * 2 + 1];
      sum += share * all_sums[(w * k_heads + row) * D + column];
    }
    const long long head = batch * kv_heads * group + head0 + row;
    if (parts == 1) {
      o[head * D + column] = from_float<T>(all == 0.0F ? 0.0F : sum / all);
    } else {
      const long long at = head * parts + part_at;
      sums[at * D + column] = sum;
      if (column == 0) {
        stats[at * 2] = most;
        stats[at * 2 + 1] = all;
      }
    }
  }
}

/// Joins the parts of each sequence where there are several: a block a query head, 8 warps.
template <typename T, int D>
__global__ void __launch_bounds__(256)
    paged_attention_combine(T* o, const float* sums, const float* stats, const int* lengths,
                            int batches, int kv_heads, int group, int page_size, int max_pages,
                            int part, int parts) {
  constexpr int lanes = D / 4;          // that read a part's sums, four each
  constexpr int readers = 256 / lanes;  // parts read at a time
  __shared__ float4 joined[readers][lanes];
  __shared__ float totals[readers];
  const int heads = kv_heads * group;
  const long long at = block_index();
  if (at >= static_cast<long long>(batches) * heads) {
    return;
  }
  const long long room = static_cast<long long>(max_pages) * page_size;
  const auto* my_stats = reinterpret_cast<const float2*>(stats) + at * parts;
  const auto* my_sums = reinterpret_cast<const float4*>(sums) + at * parts * lanes;
  const int reader = static_cast<int>(threadIdx.x) / lanes;
  const int column = static_cast<int>(threadIdx.x) % lanes;
  // A thread's first parts are on their way before it is known which parts there are.
  constexpr int early = 4;
  float4 value[early];
  float2 stat[early];
#pragma unroll
  for (int i = 0; i < early; ++i) {
    const int p = reader + i * readers;
    if (p < parts) {
      value[i] = my_sums[static_cast<long long>(p) * lanes + column];
      stat[i] = my_stats[p];
    }
  }
  const int length = static_cast<int>(min(static_cast<long long>(lengths[at / heads]), room));
  const int used = length > 0 ? (length + part - 1) / part : 0;
  // A thread's own softmax over its parts.
  float most = -infinity();
  float all = 0.0F;
  float4 sum = {};
  const auto add = [&](const float2& s, const float4& x) {
    const float now = fmaxf(most, s.x);
    const float shift = now == -infinity() ? 0.0F : -now;
    const float old = fast_exp2(most + shift);
    const float share = fast_exp2(s.x + shift);
    most = now;
    all = all * old + s.y * share;
    sum = {sum.x * old + x.x * share, sum.y * old + x.y * share, sum.z * old + x.z * share,
           sum.w * old + x.w * share};
  };
#pragma unroll
  for (int i = 0; i < early; ++i) {
    if (reader + i * readers < used) {
      add(stat[i], value[i]);
    }
  }
#pragma unroll 4
  for (int p = reader + early * readers; p < used; p += readers) {
    add(my_stats[p], my_sums[static_cast<long long>(p) * lanes + column]);
  }
  __shared__ float highest[readers];
  if (column == 0) {
    highest[reader] = most;
    totals[reader] = all;
  }
  joined[reader][column] = sum;
  __syncthreads();
  if (threadIdx.x >= D) {
    return;
  }
  const float* columns = reinterpret_cast<const float*>(joined) + threadIdx.x;
  most = -infinity();
#pragma unroll
  for (int r = 0; r < readers; ++r) {
    most = fmaxf(most, highest[r]);
  }
  const float shift = most == -infinity() ? 0.0F : -most;
  float result = 0.0F;
  all = 0.0F;
#pragma unroll
  for (int r = 0; r < readers; ++r) {
    const float share = fast_exp2(highest[r] + shift);
    all += share * totals[r];
    result += share * columns[r * D];
  }
  o[at * D + threadIdx.x] = from_float<T>(all == 0.0F ? 0.0F : result / all);
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
