// SPDX-License-Identifier: Apache-2.0
#include "delta_rule_ref.cuh"

/// The same in float64.
template <typename T, int DK, int DV>
__global__ void gated_delta_rule_ref(T* o, float* final, const float* initial, const T* q,
                                     const T* k, const T* v, const float* g, const T* beta,
                                     float scale, int normalise, int batches, int tokens,
                                     int k_heads, int group) {
  delta_rule_ref<T, DK>(o, final, initial, q, k, v, g, beta, scale, normalise, batches, tokens,
                        k_heads, group, DV);
}
