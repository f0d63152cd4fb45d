// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "row_sum.cuh"
#include "vector.cuh"

/// Scales every row of x, contiguous [rows, cols], by a function of the row's sum of squares.
///
/// blockDim.x threads (a multiple of 32, at most 1024 in all) work on a row, blockDim.y rows a
/// block; any grid covers any number of rows. VEC elements a load: cols must divide by VEC, and x
/// and y be aligned to VEC elements. A thread's first KEEP loads stay in registers between the two
/// passes; what a row has beyond that is read again. y may be x. `scale(sum)` gives a row's factor;
/// `finish(pack, factor, at)` the results for the row's pack number `at`.
template <typename T, int VEC, int KEEP, typename Scale, typename Finish>
__device__ inline void normalise_rows(T* y, const T* x, long long rows, long long cols, Scale scale,
                                      Finish finish) {
  __shared__ float partial[32];
  const long long vectors = cols / VEC;
  const long long stride = static_cast<long long>(gridDim.x) * blockDim.y;

  for (long long first = static_cast<long long>(blockIdx.x) * blockDim.y; first < rows;
       first += stride) {
    const long long row = first + threadIdx.y;
    // A row past the end has no elements but takes part in the barriers.
    const long long count = row < rows ? vectors : 0;
    const T* in = x + row * cols;
    T* out = y + row * cols;

    Pack<T, VEC> kept[KEEP];
    long long at = threadIdx.x;
#pragma unroll
    for (int k = 0; k < KEEP; ++k, at += blockDim.x) {
      if (at < count) {
        kept[k] = load_pack<VEC>(in, at);
      }
    }
    float sum = 0.0F;
    at = threadIdx.x;
#pragma unroll
    for (int k = 0; k < KEEP; ++k, at += blockDim.x) {
      if (at < count) {
        sum += sum_of_squares(kept[k]);
      }
    }
    for (; at < count; at += blockDim.x) {
      sum += sum_of_squares(load_pack<VEC>(in, at));
    }
    const float factor = scale(row_sum(sum, partial));

    at = threadIdx.x;
#pragma unroll
    for (int k = 0; k < KEEP; ++k, at += blockDim.x) {
      if (at < count) {
        store_pack(out, at, finish(kept[k], factor, at));
      }
    }
    for (; at < count; at += blockDim.x) {
      store_pack(out, at, finish(load_pack<VEC>(in, at), factor, at));
    }
  }
}

/// The same in float64, a block a row and nothing clever: what candidates are checked against.
template <typename T, typename Scale, typename Finish>
__device__ inline void normalise_rows_ref(T* y, const T* x, long long cols, Scale scale,
                                          Finish finish) {
  __shared__ double total;
  const T* in = x + blockIdx.x * cols;
  T* out = y + blockIdx.x * cols;
  if (threadIdx.x == 0) {
    total = 0.0;
    for (long long c = 0; c < cols; ++c) {
      const double value = to_float(in[c]);
      total += value * value;
    }
  }
  __syncthreads();
  const double factor = scale(total);
  for (long long c = threadIdx.x; c < cols; c += blockDim.x) {
    out[c] = from_float<T>(static_cast<float>(finish(to_float(in[c]), factor, c)));
  }
}
