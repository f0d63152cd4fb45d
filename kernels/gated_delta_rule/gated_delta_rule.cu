// SPDX-License-Identifier: Apache-2.0
#include "block_index.cuh"
#include "exp2.cuh"
#include "operand.cuh"
#include "tensor_core.cuh"
#include "vector.cuh"

// The gated delta rule (Yang, Kautz, Hatamizadeh 2024) over whole sequences, 64 tokens at a time.
// For each head, with S [DK, DV] and tokens t in order:
//   S = exp(g) S;  u = beta (v - S^T k);  S = S + k u^T;  o = scale S^T q
// Within a chunk, with G the running sum of g, L[i, j] = exp(G_i - G_j) for i >= j and
// A = strictly lower part of diag(beta) (K K^T . L), the u of all its tokens are
//   X (diag(beta) V) - X (diag(beta exp(G)) K) S,  X = (I + A)^-1
// so only products with S, one a chunk, are left to do in order. `prepare` computes the rest for
// all chunks at once, `scan` goes through a head's chunks.

constexpr int k_chunk = 64;
constexpr int k_threads = 128;
constexpr int k_scales = 192;  // f32 a chunk: what rows of Q are scaled by, of K, and the decay

/// Stores two neighbouring results; `to` is aligned to one of them where ALIGN is 1.
template <int ALIGN, typename T>
__device__ inline void store_pair(T* to, float low, float high) {
  if constexpr (ALIGN == 8) {
    *reinterpret_cast<unsigned*>(to) = pack_pair<T>(low, high);
  } else {
    to[0] = from_float<T>(low);
    to[1] = from_float<T>(high);
  }
}

__device__ inline void store_shared(unsigned address, unsigned value) {
  asm volatile("st.shared.b32 [%0], %1;" ::"r"(address), "r"(value) : "memory");
}

/// Row-major 64 x 64 f32 matrices of the inversion; four floats between rows.
constexpr int k_square = 68;

/// sum[c] += left[k] * right[k * k_square + c] for k < SIZE; all 16-byte aligned.
template <int SIZE, int WIDTH>
__device__ inline void add_product(float (&sum)[WIDTH], const float* left, const float* right) {
#pragma unroll 2
  for (int k = 0; k < SIZE; k += 4) {
    const Pack<float, 4> factors = load_pack<4>(left, k / 4);
#pragma unroll
    for (int e = 0; e < 4; ++e) {
#pragma unroll
      for (int c = 0; c < WIDTH; c += 4) {
        const Pack<float, 4> values = load_pack<4>(right + (k + e) * k_square, c / 4);
#pragma unroll
        for (int d = 0; d < 4; ++d) {
          sum[c + d] = fmaf(factors.value[e], values.value[d], sum[c + d]);
        }
      }
    }
  }
}

/// With the diagonal blocks of SIZE of x inverted, x[1][0] = -x[1][1] a[1][0] x[0][0] for each pair
/// of them. The place of x[0][1] serves as scratch and is zero again afterwards.
template <int SIZE>
__device__ inline void merge_inverses(float* x, const float* a) {
  constexpr int pairs = k_chunk / (2 * SIZE);
  constexpr int width = pairs * SIZE * SIZE / k_threads;  // results of a thread
  const int in_pair = static_cast<int>(threadIdx.x) % (k_threads / pairs);
  const int origin = static_cast<int>(threadIdx.x) / (k_threads / pairs) * 2 * SIZE;
  const int row = in_pair / (SIZE / width);
  const int column = in_pair % (SIZE / width) * width;
  float sum[width] = {};
  add_product<SIZE, width>(sum, a + (origin + SIZE + row) * k_square + origin,
                           x + origin * k_square + origin + column);
  float* scratch = x + origin * k_square + origin + SIZE + column;
#pragma unroll
  for (int c = 0; c < width; ++c) {
    scratch[row * k_square + c] = sum[c];
    sum[c] = 0.0F;
  }
  __syncthreads();
  add_product<SIZE, width>(sum, x + (origin + SIZE + row) * k_square + origin + SIZE, scratch);
  __syncthreads();
#pragma unroll
  for (int c = 0; c < width; ++c) {
    x[(origin + SIZE + row) * k_square + origin + column + c] = -sum[c];
    scratch[row * k_square + c] = 0.0F;
  }
  __syncthreads();
}

/// to [64, WIDTH] = left [64, 64] * right [64, WIDTH], left lower triangular, both in shared
/// memory; right lies at right_tile, which is `right_place`, and is overwritten.
template <typename T, int WIDTH>
__device__ inline void multiply_by_inverse(T* to, unsigned left_tile, unsigned right_tile,
                                           const unsigned char* right_place) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  float sum[WIDTH / 8][4] = {};
  const unsigned lane_rows = chunk_offset<k_chunk>(warp * 16 + lane % 16, lane / 16);
  const unsigned lane_right = chunk_offset<WIDTH>(lane % 16, lane / 16);
#pragma unroll
  for (int step = 0; step < k_chunk / 16; ++step) {
    if (step <= warp) {
      unsigned rows[4];
      load_matrices(rows, left_tile + (lane_rows ^ step * 32));
#pragma unroll
      for (int j = 0; j < WIDTH / 16; ++j) {
        unsigned right[4];
        load_matrices_transposed(
            right, right_tile + (lane_right ^ j * 32) + step * 16 * WIDTH * sizeof(T));
        multiply_add<T>(sum[2 * j], rows, right[0], right[1]);
        multiply_add<T>(sum[2 * j + 1], rows, right[2], right[3]);
      }
    }
  }
  __syncthreads();
#pragma unroll
  for (int j = 0; j < WIDTH / 8; ++j) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      store_shared(
          right_tile + chunk_offset<WIDTH>(warp * 16 + half * 8 + lane / 4, j) + lane % 4 * 4,
          pack_pair<T>(sum[j][half * 2], sum[j][half * 2 + 1]));
    }
  }
  __syncwarp();
  for (int i = lane; i < 16 * (WIDTH / 8); i += 32) {
    const int row = warp * 16 + i / (WIDTH / 8);
    const int chunk = i % (WIDTH / 8);
    store_pack(
        to + static_cast<long long>(row) * WIDTH, chunk,
        load_pack<8>(reinterpret_cast<const T*>(right_place + chunk_offset<WIDTH>(row, chunk)), 0));
  }
}

/// A chunk of a head: w = X (diag(beta exp(G)) K) [64, DK], u = X (diag(beta) V) [64, DV],
/// p = scale (Q K^T . L) [64, 64] and the scales, each [batch, heads, chunks, ...]. Arguments as in
/// `scan`. One block a chunk; dynamic shared memory (DK + max(DK, DV)) * 128 + 2 * 64 * 68 * 4
/// bytes.
template <typename T, int DK, int DV, int ALIGN>
__global__ void __launch_bounds__(k_threads)
    gated_delta_rule_prepare(T* w, T* u, T* p, float* scales, const T* q, const T* k, const T* v,
                             const float* g, const T* beta, float scale, int normalise, int batches,
                             int tokens, int k_heads, int group) {
  extern __shared__ __align__(128) unsigned char shared[];
  constexpr unsigned key_bytes = k_chunk * DK * sizeof(T);
  const unsigned k_tile = shared_address(shared);
  const unsigned q_tile = k_tile + key_bytes;
  const unsigned v_tile = q_tile;  // V follows Q there
  float* a = reinterpret_cast<float*>(shared + key_bytes + k_chunk * max(DK, DV) * sizeof(T));
  float* x = a + k_chunk * k_square;
  __shared__ float strength[k_chunk];
  __shared__ float running[k_chunk];  // G, base 2
  __shared__ float for_key[k_chunk];  // beta exp(G), and what normalises K
  __shared__ float k_norm[k_chunk];
  __shared__ float q_norm[k_chunk];

  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % 32;
  const int warp = thread / 32;
  const int chunks = (tokens + k_chunk - 1) / k_chunk;
  const int chunk = static_cast<int>(block_index() % chunks);
  const long long batch_head = block_index() / chunks;
  const int heads = k_heads * group;
  if (batch_head >= static_cast<long long>(batches) * heads) {
    return;
  }
  const int head = static_cast<int>(batch_head % heads);
  const long long batch = batch_head / heads;
  const int left = tokens - chunk * k_chunk;  // tokens from this chunk on
  const long long token0 = batch * tokens + chunk * k_chunk;
  const long long key_stride = static_cast<long long>(k_heads) * DK;
  const long long key_at = token0 * key_stride + head / group * DK;
  const long long value_stride = static_cast<long long>(heads) * DV;

  copy_rows<T, k_chunk, DK, k_threads, ALIGN>(k_tile, k + key_at, key_stride, left);
  copy_rows<T, k_chunk, DK, k_threads, ALIGN>(q_tile, q + key_at, key_stride, left);
  commit_copies();
  if (thread < k_chunk) {
    const bool inside = thread < left;
    strength[thread] = inside ? to_float(beta[(token0 + thread) * heads + head]) : 0.0F;
    running[thread] = inside ? g[(token0 + thread) * heads + head] * 1.4426950408889634F : 0.0F;
  }
  wait_copies<0>();
  __syncthreads();

  if (warp == 0) {
    const float first = running[2 * lane];
    const float pair = first + running[2 * lane + 1];
    float sum = pair;
#pragma unroll
    for (int offset = 1; offset < 32; offset *= 2) {
      const float before = __shfl_up_sync(0xffffffffU, sum, offset);
      sum += lane >= offset ? before : 0.0F;
    }
    running[2 * lane] = sum - pair + first;
    running[2 * lane + 1] = sum;
  }
  if (normalise != 0) {
    // Two threads a row; the places of a row's chunks do not matter to its sum.
    float kk = 0.0F;
    float qq = 0.0F;
    const int row = thread / 2;
    for (int c = thread % 2; c < DK / 8; c += 2) {
      const unsigned at = chunk_offset<DK>(row, c);
      kk += sum_of_squares(load_pack<8>(reinterpret_cast<const T*>(shared + at), 0));
      qq += sum_of_squares(load_pack<8>(reinterpret_cast<const T*>(shared + key_bytes + at), 0));
    }
    kk += __shfl_xor_sync(0xffffffffU, kk, 1);
    qq += __shfl_xor_sync(0xffffffffU, qq, 1);
    k_norm[row] = rsqrtf(kk + 1e-6F);
    q_norm[row] = rsqrtf(qq + 1e-6F);
  } else if (thread < k_chunk) {
    k_norm[thread] = 1.0F;
    q_norm[thread] = 1.0F;
  }
  __syncthreads();

  const float factor = scale == 0.0F ? rsqrtf(static_cast<float>(DK)) : scale;
  const long long chunk_at = batch_head * chunks + chunk;
  if (thread < k_chunk) {
    float* out = scales + chunk_at * k_scales;
    out[thread] = factor * q_norm[thread] * fast_exp2(running[thread]);
    out[k_chunk + thread] = k_norm[thread] * fast_exp2(running[k_chunk - 1] - running[thread]);
    for_key[thread] = strength[thread] * fast_exp2(running[thread]) * k_norm[thread];
    if (thread == 0) {
      out[2 * k_chunk] = fast_exp2(running[k_chunk - 1]);
    }
  }

  // A and p: a warp's 16 rows, up to the diagonal.
  {
    float kk[k_chunk / 8][4] = {};
    float qk[k_chunk / 8][4] = {};
    const unsigned lane_rows = chunk_offset<DK>(warp * 16 + lane % 16, lane / 16);
    const unsigned lane_columns = chunk_offset<DK>(lane / 16 * 8 + lane % 8, lane / 8 % 2);
#pragma unroll
    for (int step = 0; step < DK / 16; ++step) {
      unsigned rows_k[4];
      unsigned rows_q[4];
      load_matrices(rows_k, k_tile + (lane_rows ^ step * 32));
      load_matrices(rows_q, q_tile + (lane_rows ^ step * 32));
#pragma unroll
      for (int j = 0; j < k_chunk / 16; ++j) {
        if (j <= warp) {
          unsigned columns[4];
          load_matrices(columns, k_tile + (lane_columns ^ step * 32) + j * 16 * DK * sizeof(T));
          multiply_add<T>(kk[2 * j], rows_k, columns[0], columns[1]);
          multiply_add<T>(kk[2 * j + 1], rows_k, columns[2], columns[3]);
          multiply_add<T>(qk[2 * j], rows_q, columns[0], columns[1]);
          multiply_add<T>(qk[2 * j + 1], rows_q, columns[2], columns[3]);
        }
      }
    }
#pragma unroll
    for (int j = 0; j < k_chunk / 8; ++j) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = warp * 16 + half * 8 + lane / 4;
        float scores[2];
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const int column = j * 8 + lane % 4 * 2 + e;
          const float decay =
              row >= column ? fast_exp2(running[row] - running[column]) * k_norm[column] : 0.0F;
          a[row * k_square + column] =
              row > column ? strength[row] * k_norm[row] * decay * kk[j][half * 2 + e] : 0.0F;
          scores[e] = row >= column ? factor * q_norm[row] * decay * qk[j][half * 2 + e] : 0.0F;
        }
        store_pair<8>(p + (chunk_at * k_chunk + row) * k_chunk + j * 8 + lane % 4 * 2, scores[0],
                      scores[1]);
      }
    }
  }
  __syncthreads();
  copy_rows<T, k_chunk, DV, k_threads, ALIGN>(v_tile, v + token0 * value_stride + head * DV,
                                              value_stride, left);
  commit_copies();

  // The inverse: 16 x 16 blocks of the diagonal by substitution, a column a lane, then pairs of
  // them.
  if (lane < 16) {
    const float* block = a + warp * 16 * (k_square + 1);
    float* inverse = x + warp * 16 * (k_square + 1) + lane;
    float column[16];
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      float sum = i == lane ? 1.0F : 0.0F;
#pragma unroll
      for (int j = 0; j < i; ++j) {
        sum = fmaf(-block[i * k_square + j], column[j], sum);
      }
      column[i] = sum;
      inverse[i * k_square] = sum;
    }
  }
  __syncthreads();
  merge_inverses<16>(x, a);
  merge_inverses<32>(x, a);

  // X as two left operands, with what scales the rows of K and V in its columns; A is no longer
  // needed.
  const unsigned for_w = shared_address(a);
  const unsigned for_u = for_w + k_chunk * k_chunk * sizeof(T);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int row = thread / 2;
    const int c = thread % 2 * 4 + i;
#pragma unroll
    for (int e = 0; e < 8; e += 2) {
      const int column = c * 8 + e;
      const float low = x[row * k_square + column];
      const float high = x[row * k_square + column + 1];
      const unsigned at = chunk_offset<k_chunk>(row, c) + e * sizeof(T);
      store_shared(for_u + at, pack_pair<T>(low * strength[column], high * strength[column + 1]));
      store_shared(for_w + at, pack_pair<T>(low * for_key[column], high * for_key[column + 1]));
    }
  }
  wait_copies<0>();
  __syncthreads();

  multiply_by_inverse<T, DK>(w + chunk_at * k_chunk * DK, for_w, k_tile, shared);
  multiply_by_inverse<T, DV>(u + chunk_at * k_chunk * DV, for_u, v_tile, shared + key_bytes);
}

/// The chunks of a head in order, for BV columns of its state, which stay in registers.
///
/// q and k are [batch, tokens, k_heads, DK], o [batch, tokens, k_heads * group, DV], `initial` and
/// `final` (f32, either may be null: zeros, not wanted) [batch, k_heads * group, DK, DV]; the rest
/// is from `prepare`. The grid is DV / BV * batch * heads; STAGES (1 or 2) chunks are in shared
/// memory, which is STAGES * 64 * (3 * DK + BV + 64) + (DK + 128) * BV elements.
template <typename T, int DK, int DV, int BV, int STAGES, int ALIGN>
__global__ void __launch_bounds__(k_threads)
    gated_delta_rule_scan(T* o, float* final, const float* initial, const T* w, const T* u,
                          const T* p, const float* scales, const T* q, const T* k, int batches,
                          int tokens, int k_heads, int group) {
  extern __shared__ __align__(128) unsigned char shared[];
  constexpr unsigned key_bytes = k_chunk * DK * sizeof(T);
  constexpr unsigned value_bytes = k_chunk * BV * sizeof(T);
  constexpr unsigned stage_bytes =
      3 * key_bytes + value_bytes + k_chunk * k_chunk * static_cast<unsigned>(sizeof(T));
  constexpr int tiles_n = BV / 8;
  constexpr int tiles_k = DK / 64;  // of 16 rows of the state, a warp

  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int slice = static_cast<int>(block_index() % (DV / BV));
  const long long batch_head = block_index() / (DV / BV);
  const int heads = k_heads * group;
  if (batch_head >= static_cast<long long>(batches) * heads) {
    return;
  }
  const int head = static_cast<int>(batch_head % heads);
  const long long batch = batch_head / heads;
  const int chunks = (tokens + k_chunk - 1) / k_chunk;
  const long long key_stride = static_cast<long long>(k_heads) * DK;
  const long long key_at = batch * tokens * key_stride + head / group * DK;

  const unsigned stages = shared_address(shared);
  const unsigned state_tile = stages + STAGES * stage_bytes;
  const unsigned update_tile = state_tile + DK * BV * sizeof(T);  // u - w S
  const unsigned scaled_tile = update_tile + value_bytes;         // the same, for the state
  const auto start_chunk = [&](int chunk) {
    const unsigned to = stages + chunk % STAGES * stage_bytes;
    const long long at = (batch_head * chunks + chunk) * k_chunk;
    const long long keys = key_at + chunk * k_chunk * key_stride;
    const int left = tokens - chunk * k_chunk;
    copy_rows<T, k_chunk, DK, k_threads, 8>(to, w + at * DK, DK, k_chunk);
    copy_rows<T, k_chunk, DK, k_threads, ALIGN>(to + key_bytes, q + keys, key_stride, left);
    copy_rows<T, k_chunk, DK, k_threads, ALIGN>(to + 2 * key_bytes, k + keys, key_stride, left);
    copy_rows<T, k_chunk, BV, k_threads, 8>(to + 3 * key_bytes, u + at * DV + slice * BV, DV,
                                            k_chunk);
    copy_rows<T, k_chunk, k_chunk, k_threads, 8>(to + 3 * key_bytes + value_bytes, p + at * k_chunk,
                                                 k_chunk, k_chunk);
  };

  float state[tiles_k][tiles_n][4];
  const auto state_row = [&](int i, int e) {
    return (warp * tiles_k + i) * 16 + e / 2 * 8 + lane / 4;
  };
  const auto state_column = [&](int j, int e) { return j * 8 + lane % 4 * 2 + e % 2; };
#pragma unroll
  for (int i = 0; i < tiles_k; ++i) {
#pragma unroll
    for (int j = 0; j < tiles_n; ++j) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        state[i][j][e] = initial == nullptr ? 0.0F
                                            : initial[(batch_head * DK + state_row(i, e)) * DV +
                                                      slice * BV + state_column(j, e)];
      }
    }
  }
  const auto share_state = [&]() {
#pragma unroll
    for (int i = 0; i < tiles_k; ++i) {
#pragma unroll
      for (int j = 0; j < tiles_n; ++j) {
#pragma unroll
        for (int e = 0; e < 4; e += 2) {
          store_shared(state_tile + chunk_offset<BV>(state_row(i, e), j) + lane % 4 * 4,
                       pack_pair<T>(state[i][j][e], state[i][j][e + 1]));
        }
      }
    }
  };
  share_state();

  float scale_q[2];
  float scale_k[2];
  float decay;
  const auto load_scales = [&](int chunk) {
    const float* from = scales + (batch_head * chunks + chunk) * k_scales;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      scale_q[half] = from[warp * 16 + half * 8 + lane / 4];
      scale_k[half] = from[k_chunk + warp * 16 + half * 8 + lane / 4];
    }
    decay = from[2 * k_chunk];
  };
  if (chunks > 0) {
    start_chunk(0);
  }
  commit_copies();

  const unsigned lane_rows = chunk_offset<DK>(warp * 16 + lane % 16, lane / 16);
  const unsigned lane_p = chunk_offset<k_chunk>(warp * 16 + lane % 16, lane / 16);
  const unsigned lane_right = chunk_offset<BV>(lane % 16, lane / 16);
  // K^T's rows are K's columns: matrices in the order tokens 0-7 (two of columns), tokens 8-15.
  const unsigned lane_k = chunk_offset<DK>(lane / 16 * 8 + lane % 8, lane / 8 % 2);

  for (int chunk = 0; chunk < chunks; ++chunk) {
    load_scales(chunk);
    wait_copies<0>();
    __syncthreads();  // this chunk and the state are there, and every warp is done with the one
                      // before
    if (STAGES == 2) {
      if (chunk + 1 < chunks) {
        start_chunk(chunk + 1);
      }
      commit_copies();
    }
    const unsigned w_tile = stages + chunk % STAGES * stage_bytes;
    const unsigned q_tile = w_tile + key_bytes;
    const unsigned k_tile = q_tile + key_bytes;
    const unsigned u_tile = k_tile + key_bytes;
    const unsigned p_tile = u_tile + value_bytes;

    float with_w[tiles_n][4] = {};
    float out[tiles_n][4] = {};
#pragma unroll
    for (int step = 0; step < DK / 16; ++step) {
      unsigned rows_w[4];
      unsigned rows_q[4];
      load_matrices(rows_w, w_tile + (lane_rows ^ step * 32));
      load_matrices(rows_q, q_tile + (lane_rows ^ step * 32));
#pragma unroll
      for (int j = 0; j < BV / 16; ++j) {
        unsigned right[4];
        load_matrices_transposed(right,
                                 state_tile + (lane_right ^ j * 32) + step * 16 * BV * sizeof(T));
        multiply_add<T>(with_w[2 * j], rows_w, right[0], right[1]);
        multiply_add<T>(with_w[2 * j + 1], rows_w, right[2], right[3]);
        multiply_add<T>(out[2 * j], rows_q, right[0], right[1]);
        multiply_add<T>(out[2 * j + 1], rows_q, right[2], right[3]);
      }
    }
#pragma unroll
    for (int j = 0; j < tiles_n; ++j) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const unsigned at = chunk_offset<BV>(warp * 16 + half * 8 + lane / 4, j) + lane % 4 * 4;
        const Pack<T, 2> value =
            load_pack<2>(reinterpret_cast<const T*>(shared + (u_tile - stages) + at), 0);
        const float low = to_float(value.value[0]) - with_w[j][half * 2];
        const float high = to_float(value.value[1]) - with_w[j][half * 2 + 1];
        store_shared(update_tile + at, pack_pair<T>(low, high));
        store_shared(scaled_tile + at, pack_pair<T>(low * scale_k[half], high * scale_k[half]));
        out[j][half * 2] *= scale_q[half];
        out[j][half * 2 + 1] *= scale_q[half];
      }
    }
    __syncthreads();

#pragma unroll
    for (int i = 0; i < tiles_k; ++i) {
#pragma unroll
      for (int j = 0; j < tiles_n; ++j) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          state[i][j][e] *= decay;
        }
      }
    }
#pragma unroll
    for (int step = 0; step < k_chunk / 16; ++step) {
      unsigned rows_p[4];
      load_matrices(rows_p, p_tile + (lane_p ^ step * 32));
      unsigned rows_k[tiles_k][4];
#pragma unroll
      for (int i = 0; i < tiles_k; ++i) {
        load_matrices_transposed(
            rows_k[i], k_tile + (lane_k ^ (warp * tiles_k + i) * 32) + step * 16 * DK * sizeof(T));
      }
#pragma unroll
      for (int j = 0; j < BV / 16; ++j) {
        unsigned right[4];
        load_matrices_transposed(right,
                                 update_tile + (lane_right ^ j * 32) + step * 16 * BV * sizeof(T));
        multiply_add<T>(out[2 * j], rows_p, right[0], right[1]);
        multiply_add<T>(out[2 * j + 1], rows_p, right[2], right[3]);
        load_matrices_transposed(right,
                                 scaled_tile + (lane_right ^ j * 32) + step * 16 * BV * sizeof(T));
#pragma unroll
        for (int i = 0; i < tiles_k; ++i) {
          multiply_add<T>(state[i][2 * j], rows_k[i], right[0], right[1]);
          multiply_add<T>(state[i][2 * j + 1], rows_k[i], right[2], right[3]);
        }
      }
    }
    share_state();
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int token = chunk * k_chunk + warp * 16 + half * 8 + lane / 4;
      if (token < tokens) {
        T* to = o + ((batch * tokens + token) * heads + head) * DV + slice * BV + lane % 4 * 2;
#pragma unroll
        for (int j = 0; j < tiles_n; ++j) {
          store_pair<ALIGN>(to + j * 8, out[j][half * 2], out[j][half * 2 + 1]);
        }
      }
    }
    if (STAGES == 1) {
      __syncthreads();
      if (chunk + 1 < chunks) {
        start_chunk(chunk + 1);
      }
      commit_copies();
    }
  }
  wait_copies<0>();
  if (final != nullptr) {
#pragma unroll
    for (int i = 0; i < tiles_k; ++i) {
#pragma unroll
      for (int j = 0; j < tiles_n; ++j) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          final[(batch_head * DK + state_row(i, e)) * DV + slice * BV + state_column(j, e)] =
              state[i][j][e];
        }
      }
    }
  }
}
