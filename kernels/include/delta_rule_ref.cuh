// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "block_index.cuh"
#include "vector.cuh"

/// The gated delta rule in float64, token by token: a block a head, a thread a column of the state
/// at a time. Arguments as gated_delta_rule's; `initial` and `final` may be null, or the same.
template <typename T, int DK>
__device__ inline void delta_rule_ref(T* o, float* final, const float* initial, const T* q,
                                      const T* k, const T* v, const float* g, const T* beta,
                                      float scale, int normalise, int batches, int tokens,
                                      int k_heads, int group, int dv) {
  const int heads = k_heads * group;
  const int head = static_cast<int>(block_index() % heads);
  const long long batch = block_index() / heads;
  if (batch >= batches) {
    return;
  }
  const double factor = scale == 0.0F ? 1.0 / sqrt(static_cast<double>(DK)) : scale;
  for (int column = static_cast<int>(threadIdx.x); column < dv; column += blockDim.x) {
    const long long state_at = block_index() * DK * dv + column;
    double state[DK];
#pragma unroll 1
    for (int i = 0; i < DK; ++i) {
      state[i] = initial != nullptr ? initial[state_at + static_cast<long long>(i) * dv] : 0.0;
    }
    for (int token = 0; token < tokens; ++token) {
      const long long at = batch * tokens + token;
      const T* key = k + (at * k_heads + head / group) * DK;
      const T* query = q + (at * k_heads + head / group) * DK;
      double kk = normalise != 0 ? 1e-6 : 1.0;
      double qq = kk;
#pragma unroll 1
      for (int i = 0; i < DK && normalise != 0; ++i) {
        kk += static_cast<double>(to_float(key[i])) * to_float(key[i]);
        qq += static_cast<double>(to_float(query[i])) * to_float(query[i]);
      }
      const double decay = exp(static_cast<double>(g[at * heads + head]));
      double with_k = 0.0;
#pragma unroll 1
      for (int i = 0; i < DK; ++i) {
        state[i] *= decay;
        with_k += state[i] * to_float(key[i]) / sqrt(kk);
      }
      const double u = to_float(beta[at * heads + head]) *
                       (to_float(v[(at * heads + head) * dv + column]) - with_k);
      double sum = 0.0;
#pragma unroll 1
      for (int i = 0; i < DK; ++i) {
        state[i] += u * to_float(key[i]) / sqrt(kk);
        sum += state[i] * to_float(query[i]);
      }
      o[(at * heads + head) * dv + column] =
          from_float<T>(static_cast<float>(sum * factor / sqrt(qq)));
    }
#pragma unroll 1
    for (int i = 0; final != nullptr && i < DK; ++i) {
      final[state_at + static_cast<long long>(i) * dv] = static_cast<float>(state[i]);
    }
  }
}
