// SPDX-License-Identifier: Apache-2.0
#include "block_index.cuh"
#include "delta_rule_ref.cuh"
#include "vector.cuh"

/// Lanes of a warp whose numbers differ in bits FROM and above add up `value`; all get the sum.
template <int FROM>
__device__ inline float sum_over_lanes(float value) {
#pragma unroll
  for (int offset = 16; offset >= FROM; offset /= 2) {
    value += __shfl_xor_sync(0xffffffffU, value, offset);
  }
  return value;
}

/// The gated delta rule (Yang, Kautz, Hatamizadeh 2024), token by token. For each head, with S
/// [DK, dv]:
///   S = exp(g) S;  u = beta (v - S^T k);  S = S + k u^T;  o = scale S^T q
/// q and k are [batch, tokens, k_heads, DK], v and o [batch, tokens, k_heads * group, dv], g (f32)
/// and beta [batch, tokens, k_heads * group], state (f32, updated in place) [batch, k_heads *
/// group, DK, dv]; value head h reads key head h / group. With `normalise`, q and k are first
/// divided by sqrt(sum of squares + 1e-6). `scale` 0 means 1 / sqrt(DK).
///
/// A block of WARPS warps keeps BV columns of one head's state in registers, VEC neighbouring ones
/// a thread. The grid is ceil(dv / BV) * batch * heads. VEC 4 needs dv % 4 == 0 and a 16-byte
/// state.
template <typename T, int DK, int BV, int WARPS, int VEC>
__global__ void __launch_bounds__(32 * WARPS)
    gated_delta_rule_decode(T* o, float* state, const T* q, const T* k, const T* v, const float* g,
                            const T* beta, float scale, int normalise, int batches, int tokens,
                            int k_heads, int group, int dv) {
  constexpr int threads = 32 * WARPS;
  constexpr int lanes = BV / VEC;  // threads side by side in a row of the state
  constexpr int row_step = threads / lanes;
  constexpr int rows = DK / row_step;  // of a thread
  static_assert(lanes <= 32 && DK % row_step == 0, "a warp holds whole rows, a thread whole steps");

  __shared__ float keys[DK];
  __shared__ float queries[DK];
  __shared__ float partial[WARPS][2][BV];

  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % 32;
  const int warp = thread / 32;
  const int row = thread / lanes;
  const int in_row = thread % lanes * VEC;
  const int slices = (dv + BV - 1) / BV;
  const int column = static_cast<int>(block_index() % slices) * BV + in_row;
  const long long batch_head = block_index() / slices;
  const int heads = k_heads * group;
  if (batch_head >= static_cast<long long>(batches) * heads) {
    return;
  }
  const int head = static_cast<int>(batch_head % heads);
  const long long batch = batch_head / heads;
  const bool inside = column < dv;

  float* mine = state + (batch_head * DK + row) * dv + column;
  Pack<float, VEC> s[rows];
#pragma unroll
  for (int r = 0; r < rows; ++r) {
    s[r] = Pack<float, VEC>{};
    if (inside) {
      s[r] = load_pack<VEC>(mine + static_cast<long long>(r) * row_step * dv, 0);
    }
  }
  const float factor = scale == 0.0F ? rsqrtf(static_cast<float>(DK)) : scale;

  for (int token = 0; token < tokens; ++token) {
    const long long at = batch * tokens + token;
    const long long key_at = (at * k_heads + head / group) * DK;
    const long long head_at = at * heads + head;
    for (int i = thread; i < DK; i += threads) {
      keys[i] = to_float(k[key_at + i]);
      queries[i] = to_float(q[key_at + i]);
    }
    float value[VEC] = {};
#pragma unroll
    for (int c = 0; c < VEC; ++c) {
      value[c] = inside ? to_float(v[head_at * dv + column + c]) : 0.0F;
    }
    const float decay = expf(g[head_at]);
    const float strength = to_float(beta[head_at]);
    __syncthreads();

    float kk = 0.0F;
    float qq = 0.0F;
    float kq = 0.0F;
#pragma unroll
    for (int i = lane; i < DK; i += 32) {
      kk = fmaf(keys[i], keys[i], kk);
      qq = fmaf(queries[i], queries[i], qq);
      kq = fmaf(keys[i], queries[i], kq);
    }
    kq = sum_over_lanes<1>(kq);
    float k_norm = 1.0F;
    float q_norm = factor;
    if (normalise != 0) {
      k_norm = rsqrtf(sum_over_lanes<1>(kk) + 1e-6F);
      q_norm = factor * rsqrtf(sum_over_lanes<1>(qq) + 1e-6F);
    }

    // S^T k and S^T q of the old state in one pass: o follows from them.
    float with_k[VEC] = {};
    float with_q[VEC] = {};
#pragma unroll
    for (int r = 0; r < rows; ++r) {
      const float key = keys[row + r * row_step];
      const float query = queries[row + r * row_step];
#pragma unroll
      for (int c = 0; c < VEC; ++c) {
        with_k[c] = fmaf(s[r].value[c], key, with_k[c]);
        with_q[c] = fmaf(s[r].value[c], query, with_q[c]);
      }
    }
#pragma unroll
    for (int c = 0; c < VEC; ++c) {
      with_k[c] = sum_over_lanes<lanes>(with_k[c]);
      with_q[c] = sum_over_lanes<lanes>(with_q[c]);
    }
    if (WARPS > 1) {
      if (lane < lanes) {
#pragma unroll
        for (int c = 0; c < VEC; ++c) {
          partial[warp][0][in_row + c] = with_k[c];
          partial[warp][1][in_row + c] = with_q[c];
        }
      }
      __syncthreads();
#pragma unroll
      for (int c = 0; c < VEC; ++c) {
        with_k[c] = 0.0F;
        with_q[c] = 0.0F;
#pragma unroll
        for (int w = 0; w < WARPS; ++w) {
          with_k[c] += partial[w][0][in_row + c];
          with_q[c] += partial[w][1][in_row + c];
        }
      }
    }
    float result[VEC];
    float update[VEC];
#pragma unroll
    for (int c = 0; c < VEC; ++c) {
      const float u = strength * (value[c] - decay * k_norm * with_k[c]);
      result[c] = q_norm * (decay * with_q[c] + k_norm * kq * u);
      update[c] = k_norm * u;
    }
#pragma unroll
    for (int r = 0; r < rows; ++r) {
      const float key = keys[row + r * row_step];
#pragma unroll
      for (int c = 0; c < VEC; ++c) {
        s[r].value[c] = fmaf(key, update[c], decay * s[r].value[c]);
      }
    }
    if (row == 0 && inside) {
#pragma unroll
      for (int c = 0; c < VEC; ++c) {
        o[head_at * dv + column + c] = from_float<T>(result[c]);
      }
    }
    __syncthreads();  // everyone has read this token's keys and sums
  }
#pragma unroll
  for (int r = 0; r < rows; ++r) {
    if (inside) {
      store_pack(mine + static_cast<long long>(r) * row_step * dv, 0, s[r]);
    }
  }
}

/// The same in float64.
template <typename T, int DK>
__global__ void gated_delta_rule_decode_ref(T* o, float* state, const T* q, const T* k, const T* v,
                                            const float* g, const T* beta, float scale,
                                            int normalise, int batches, int tokens, int k_heads,
                                            int group, int dv) {
  delta_rule_ref<T, DK>(o, state, state, q, k, v, g, beta, scale, normalise, batches, tokens,
                        k_heads, group, dv);
}
