// SPDX-License-Identifier: Apache-2.0
#include "block_index.cuh"
#include "causal_window.cuh"
#include "row_reference.cuh"

/// Moves a pointer on, unseen by the compiler, which would keep every unrolled step's in registers.
template <typename T>
__device__ inline void advance(T*& pointer, long long by) {
  pointer += by;
  asm volatile("" : "+l"(pointer));
}

/// Bytes that a thread has in flight.
template <typename T, int VEC, int TIME>
inline constexpr int k_ahead = VEC * TIME * static_cast<int>(sizeof(T));

/// Thread blocks that a multiprocessor is to hold: as many as do not spill.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1000
constexpr int k_of_four = 2;
#else
constexpr int k_of_four = 3;
#endif
template <typename T, int VEC, int TIME>
inline constexpr int k_blocks = k_ahead<T, VEC, TIME> > 64    ? 2
                                : k_ahead<T, VEC, TIME> == 64 ? (VEC == 4 ? k_of_four : 3)
                                : VEC == 4                    ? 3
                                                              : 4;

/// y[n, t, d] = act(bias[d] + sum over i of w[d, i] * x[n, t - WIDTH + 1 + i, d]), act silu or
/// nothing.
///
/// x and y are contiguous [batch, seq, dim]. Inputs before t = 0 are initial[n, WIDTH - 1, dim],
/// oldest first, or zeros where that is null; final_state, unless null, receives the last WIDTH - 1
/// inputs in the same form. No output may overlap an input. A thread has VEC channels and walks
/// `chunks` times TIME steps, whose loads it starts together; blockDim.x threads lie along the
/// channels, blockDim.y along time. All pointers are aligned to VEC elements, dim is whole packs.
template <typename T, int WIDTH, int VEC, int TIME>
__global__ void __launch_bounds__(256, (k_blocks<T, VEC, TIME>))
    causal_conv1d(T* y, T* final_state, const T* __restrict__ x, const T* __restrict__ w,
                  const T* __restrict__ bias, const T* __restrict__ initial, long long batch,
                  long long seq, long long dim, int activate, int chunks) {
  constexpr int k_past = WIDTH - 1;
  const long long across = (dim / VEC + blockDim.x - 1) / blockDim.x;
  const long long span = static_cast<long long>(TIME) * chunks;
  const long long rounds = (seq + span * blockDim.y - 1) / (span * blockDim.y);
  const long long along = rounds > 0 ? rounds : 1;
  const long long block = block_index();
  const long long strip = block / across;
  const long long n = strip / along;
  const long long channel = ((block - strip * across) * blockDim.x + threadIdx.x) * VEC;
  const long long start = ((strip - n * along) * blockDim.y + threadIdx.y) * span;
  if (n >= batch || channel >= dim || (start >= seq && start > 0)) {
    return;
  }
  const long long end = min(start + span, seq);
  const T* in = x + n * seq * dim + channel;
  const auto input = [&](long long t) {
    if (t >= 0) {
      return load_pack<VEC>(in + t * dim, 0);
    }
    return initial != nullptr
               ? load_pack<VEC>(initial + (n * k_past + t + k_past) * dim + channel, 0)
               : zeros<T, VEC>();
  };
  if (final_state != nullptr && end == seq) {
#pragma unroll 1
    for (int i = 0; i < k_past; ++i) {
      store_pack(final_state + (n * k_past + i) * dim + channel, 0, input(seq - k_past + i));
    }
  }

  // A step's input is read TIME steps ahead, in the place of the one that is done with.
  const T* from = in + start * dim;
  T* to = y + (n * seq + start) * dim + channel;
  Pack<T, VEC> ahead[TIME];
  const int whole = static_cast<int>((end - start) / TIME);
  if (whole > 0) {
#pragma unroll
    for (int i = 0; i < TIME; ++i) {
      ahead[i] = load_pack<VEC>(from, 0);
      advance(from, dim);
    }
  }
  const Taps<T, WIDTH, VEC> taps(w, bias, channel);
  float past[k_past][VEC];
#pragma unroll
  for (int i = 0; i < k_past; ++i) {
    unpack(input(start - k_past + i), past[i]);
  }
#pragma unroll 1
  for (int left = whole; left > 0; --left) {
#pragma unroll
    for (int i = 0; i < TIME; ++i) {
      const Pack<T, VEC> newest = ahead[i];
      if (left > 1) {
        ahead[i] = load_pack<VEC>(from, 0);
      }
      advance(from, dim);
      store_pack(to, 0, taps.step(past, newest, activate != 0));
      advance(to, dim);
    }
  }
  from -= whole > 0 ? TIME * dim : 0;
#pragma unroll 1
  for (int left = static_cast<int>(end - start) - whole * TIME; left > 0; --left) {
    store_pack(to, 0, taps.step(past, load_pack<VEC>(from, 0), activate != 0));
    from += dim;
    to += dim;
  }
}

template <typename T, int WIDTH>
__global__ void causal_conv1d_ref(T* y, T* final_state, const T* x, const T* w, const T* bias,
                                  const T* initial, long long batch, long long seq, long long dim,
                                  int activate) {
  constexpr int k_past = WIDTH - 1;
  for (long long n = blockIdx.x; n < batch; n += gridDim.x) {
    const auto input = [&](long long t, long long d) {
      if (t >= 0) {
        return to_float(x[(n * seq + t) * dim + d]);
      }
      return initial != nullptr ? to_float(initial[(n * k_past + t + k_past) * dim + d]) : 0.0F;
    };
    for (long long i = threadIdx.x; i < seq * dim; i += blockDim.x) {
      const long long t = i / dim;
      const long long d = i % dim;
      double sum = bias != nullptr ? to_float(bias[d]) : 0.0F;
      for (int k = 0; k < WIDTH; ++k) {
        sum += static_cast<double>(to_float(w[d * WIDTH + k])) * input(t - k_past + k, d);
      }
      sum = activate != 0 ? reference_silu(sum) : sum;
      y[n * seq * dim + i] = from_float<T>(static_cast<float>(sum));
    }
    if (final_state != nullptr) {
      for (long long i = threadIdx.x; i < k_past * dim; i += blockDim.x) {
        final_state[n * k_past * dim + i] = from_float<T>(input(seq - k_past + i / dim, i % dim));
      }
    }
  }
}
