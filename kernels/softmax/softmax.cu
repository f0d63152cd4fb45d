// SPDX-License-Identifier: Apache-2.0
#include "row.cuh"
#include "row_reduce.cuh"
#include "row_reference.cuh"

/// e^x: to the last digits for f32; 2^-20 for the 16-bit types, which keep 2^-11.
template <typename T>
__device__ inline float exponential(float x) {
  if constexpr (sizeof(T) == 4) {
    return expf(x);
  } else {
    return fast_exp(x);
  }
}

/// y[r, c] = e^(x[r, c] - m) / sum over c of e^(x[r, c] - m), m the largest of row r. Threads and
/// tunables: RowTile. A row with a NaN, with +infinity, or of -infinity only becomes NaN.
template <typename T, int KEEP, bool EDGES>
__global__ void __launch_bounds__(EDGES ? 512 : 1024, 1)
    softmax(T* y, const T* x, long long rows, long long cols) {
  using Tile = RowTile<T, KEEP, EDGES>;
  constexpr int N = k_pack<T>;
  __shared__ float scratch[RowReduce::k_scratch];
  RowReduce reduce(scratch);

  each_row<T, KEEP, EDGES>(x, rows, cols, [&](const Tile& tile) {
    const T* in = x + tile.start;
    T* out = y + tile.start;
    RowPack<T> kept[Tile::k_slots];
    tile.kept([&](int k, unsigned at) { kept[k] = load_pack<N>(in + at, 0); });
    float most = -infinity();
    const auto raise = [&](const RowPack<T>& pack) {
      float values[N];
      unpack(pack, values);
#pragma unroll
      for (int j = 0; j < N; ++j) {
        most = fmaxf(most, values[j]);
      }
    };
    tile.rim([&](long long c) { most = fmaxf(most, to_float(in[c])); });
    tile.kept([&](int k, unsigned) { raise(kept[k]); });
    tile.template rest<4>([&](long long at) { raise(load_pack<N>(in + at, 0)); });
    most = reduce.max(most);

    float sum = 0.0F;
    const auto add_up = [&](const RowPack<T>& pack) {
      float values[N];
      unpack(pack, values);
#pragma unroll
      for (int j = 0; j < N; ++j) {
        sum += exponential<T>(values[j] - most);
      }
    };
    tile.rim([&](long long c) { sum += exponential<T>(to_float(in[c]) - most); });
    tile.kept([&](int k, unsigned) { add_up(fresh<T>(kept[k])); });
    tile.template rest<4>([&](long long at) { add_up(load_pack<N>(in + at, 0)); });
    const float factor = fast_reciprocal(reduce.sum(sum));

    const auto finish = [&](long long at, const RowPack<T>& pack) {
      float result[N];
      unpack(pack, result);
#pragma unroll
      for (int j = 0; j < N; ++j) {
        result[j] = exponential<T>(result[j] - most) * factor;
      }
      store_near<EDGES>(out + at, rounded<T, N>(result));
    };
    tile.kept([&](int k, unsigned at) { finish(at, fresh<T>(kept[k])); });
    tile.template rest<4>([&](long long at) { finish(at, load_pack<N>(in + at, 0)); });
    tile.rim([&](long long c) {
      out[c] = from_float<T>(exponential<T>(to_float(in[c]) - most) * factor);
    });
  });
}

template <typename T>
__global__ void softmax_ref(T* y, const T* x, long long rows, long long cols) {
  for (long long row = blockIdx.x; row < rows; row += gridDim.x) {
    const T* in = x + row * cols;
    const double most =
        reference_max(cols, [&](long long c) { return static_cast<double>(to_float(in[c])); });
    const double sum =
        reference_sum(cols, [&](long long c) { return exp(to_float(in[c]) - most); });
    for (long long c = threadIdx.x; c < cols; c += blockDim.x) {
      y[row * cols + c] = from_float<T>(static_cast<float>(exp(to_float(in[c]) - most) / sum));
    }
  }
}
