// SPDX-License-Identifier: Apache-2.0
#include "causal_window.cuh"
#include "row_reference.cuh"

/// One step of causal_conv1d: y[n, d] = act(bias[d] + sum over i of w[d, i] * h[i]), h the WIDTH - 1 inputs in
/// state[slot, WIDTH - 1, dim], oldest first, and x[n, d]; then the state drops its oldest and takes x.
///
/// `slots` names the state of each row and must not name one twice; null: row n has state n. A row whose
/// slot is no state gets zeros and changes nothing. y may be x. A thread has VEC channels of one row. All
/// pointers are aligned to VEC elements, dim is whole packs.
template <typename T, int WIDTH, int VEC>
__global__ void __launch_bounds__(512, 1)
    causal_conv1d_update(T* y, T* state, const T* x, const T* __restrict__ w,
                         const T* __restrict__ bias, const int* __restrict__ slots, long long batch,
                         long long dim, long long states, int activate) {
  constexpr int k_past = WIDTH - 1;
  const long long across = (dim / VEC + blockDim.x - 1) / blockDim.x;
  for (long long block = blockIdx.x; block < batch * across; block += gridDim.x) {
    const long long n = block / across;
    const long long channel = ((block - n * across) * blockDim.x + threadIdx.x) * VEC;
    if (channel >= dim) {
      continue;
    }
    const long long slot = slots != nullptr ? slots[n] : n;
    if (slot < 0 || slot >= states) {
      store_pack(y + n * dim + channel, 0, zeros<T, VEC>());
      continue;
    }
    T* past = state + slot * k_past * dim + channel;
    Pack<T, VEC> window[WIDTH];
#pragma unroll
    for (int i = 0; i < k_past; ++i) {
      window[i] = load_pack<VEC>(past + i * dim, 0);
    }
    window[k_past] = load_pack<VEC>(x + n * dim + channel, 0);
    const Taps<T, WIDTH, VEC> taps(w, bias, channel);
    float earlier[k_past][VEC];
#pragma unroll
    for (int i = 0; i < k_past; ++i) {
      unpack(window[i], earlier[i]);
    }
    store_pack(y + n * dim + channel, 0, taps.step(earlier, window[k_past], activate != 0));
#pragma unroll
    for (int i = 0; i < k_past; ++i) {
      store_pack(past + i * dim, 0, window[i + 1]);
    }
  }
}

template <typename T, int WIDTH>
__global__ void causal_conv1d_update_ref(T* y, T* state, const T* x, const T* w, const T* bias,
                                         const int* slots, long long batch, long long dim,
                                         long long states, int activate) {
  constexpr int k_past = WIDTH - 1;
  for (long long n = blockIdx.x; n < batch; n += gridDim.x) {
    const long long slot = slots != nullptr ? slots[n] : n;
    for (long long d = threadIdx.x; d < dim; d += blockDim.x) {
      if (slot < 0 || slot >= states) {
        y[n * dim + d] = from_float<T>(0.0F);
        continue;
      }
      T* past = state + slot * k_past * dim + d;
      double sum = bias != nullptr ? to_float(bias[d]) : 0.0F;
      for (int k = 0; k < k_past; ++k) {
        sum += static_cast<double>(to_float(w[d * WIDTH + k])) * to_float(past[k * dim]);
      }
      const T newest = x[n * dim + d];
      sum += static_cast<double>(to_float(w[d * WIDTH + k_past])) * to_float(newest);
      sum = activate != 0 ? reference_silu(sum) : sum;
      for (int k = 0; k + 1 < k_past; ++k) {
        past[k * dim] = past[(k + 1) * dim];
      }
      if (k_past > 0) {
        past[(k_past - 1) * dim] = newest;
      }
      y[n * dim + d] = from_float<T>(static_cast<float>(sum));
    }
  }
}
