// SPDX-License-Identifier: Apache-2.0
#include "attention_warpgroups.cuh"
#include "attention_warps.cuh"
#include "block_index.cuh"

/// o = softmax(scale * q k^T + mask) v, a head at a time, with the softmax computed on the way (Dao
/// 2023, FlashAttention-2).
///
/// q and o are [batch, q_len, kv_heads * group, D], k and v [batch, kv_len, kv_heads, D]; query
/// head h reads key head h / group. With `causal`, query i sees keys up to i + kv_len - q_len.
/// `scale` 0 means 1 / sqrt(D). A query that sees no key gives zeros. `lse`, when not null, becomes
/// the natural logarithm of the softmax's denominator, [batch, kv_heads * group, q_len].
///
/// A block computes the queries of one head that WARPS warps of ROWS each cover, BN keys at a time.
/// The grid has a block for each such tile, head and batch; dynamic shared memory is (WARPS * ROWS
/// * (1 + LASTING) + 2 * STAGES * BN) * D * sizeof(T). ALIGN 8 needs 16-byte pointers, 1 takes any.
/// WGMMA 1 is for sm_90a, with ROWS 16, ALIGN 8, four more warps, 128 more bytes and at most 2^30
/// tiles; STAGES beyond 2, LASTING and TURNS are for it alone.
template <typename T, int D, int ROWS, int WARPS, int BN, int ALIGN, int WGMMA, int STAGES,
          int LASTING, int TURNS>
__global__ void __launch_bounds__(32 * WARPS + 128 * WGMMA)
    flash_attention(T* o, float* lse, const T* q, const T* k, const T* v, float scale, int causal,
                    int batches, int q_len, int kv_len, int kv_heads, int group) {
  extern __shared__ __align__(1024) unsigned char shared[];
  if constexpr (WGMMA == 0) {
    attend_by_warps<T, D, ROWS, WARPS, BN, ALIGN>(shared, o, lse, q, k, v, scale, causal, batches,
                                                  q_len, kv_len, kv_heads, group);
  } else {
    attend_by_warpgroups<T, D, WARPS / 4, BN, STAGES, LASTING != 0, TURNS != 0>(
        shared, o, lse, q, k, v, scale, causal, batches, q_len, kv_len, kv_heads, group);
  }
}

/// The same in float64 with the whole softmax first, a warp a query.
template <typename T, int D>
__global__ void flash_attention_ref(T* o, float* lse, const T* q, const T* k, const T* v,
                                    float scale, int causal, int batches, int q_len, int kv_len,
                                    int kv_heads, int group) {
  const int heads = kv_heads * group;
  const long long query = block_index();  // of [batch, q_len, heads]
  if (query >= static_cast<long long>(batches) * q_len * heads) {
    return;
  }
  const int head = static_cast<int>(query % heads);
  const int row = static_cast<int>(query / heads % q_len);
  const long long batch = query / heads / q_len;
  const long long stride = static_cast<long long>(kv_heads) * D;
  const T* keys = k + batch * kv_len * stride + head / group * D;
  const T* values = v + batch * kv_len * stride + head / group * D;
  const int seen = causal != 0 ? max(0, min(kv_len, row + 1 + kv_len - q_len)) : kv_len;
  const double factor = scale == 0.0F ? 1.0 / sqrt(static_cast<double>(D)) : scale;
  const auto score = [&](int key) {
    double sum = 0.0;
#pragma unroll 1
    for (int i = 0; i < D; ++i) {
      sum += static_cast<double>(to_float(q[query * D + i])) * to_float(keys[key * stride + i]);
    }
    return sum * factor;
  };
  double highest = __int_as_float(0xff800000);
  for (int key = 0; key < seen; ++key) {
    highest = fmax(highest, score(key));
  }
  double total = 0.0;
  constexpr int columns = D / 32;
  double sum[columns] = {};
  for (int key = 0; key < seen; ++key) {
    const double weight = exp(score(key) - highest);
    total += weight;
    for (int c = 0; c < columns; ++c) {
      sum[c] += weight * to_float(values[key * stride + c * 32 + threadIdx.x]);
    }
  }
  for (int c = 0; c < columns; ++c) {
    o[query * D + c * 32 + threadIdx.x] =
        from_float<T>(seen == 0 ? 0.0F : static_cast<float>(sum[c] / total));
  }
  if (lse != nullptr && threadIdx.x == 0) {
    lse[(batch * heads + head) * q_len + row] = static_cast<float>(highest + log(total));
  }
}
