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

/// y[r, c] = e^(x[r, c] - m) / sum over c of e^(x[r, c] - m), m the largest of row r. Threads and tunables:
/// RowTile. A row with a NaN, with +infinity, or of -infinity only becomes NaN.
template <typename T, int KEEP, int ROWS, bool EDGES>
__global__ void __launch_bounds__(row_threads(KEEP* ROWS, EDGES || ROWS > 1))
    softmax(T* y, const T* x, long long rows, long long cols) {
  constexpr int N = k_pack<T>;
  __shared__ float scratch[RowReduce<ROWS>::k_scratch];
  RowReduce<ROWS> reduce(scratch);

  each_tile<T, KEEP, ROWS, EDGES>(x, rows, cols, [&](const RowTile<T, KEEP, ROWS, EDGES>& tile) {
    const auto load = [&](int i, long long at) {
      return load_pack<N>(x + (tile.first + i) * cols + at, 0);
    };
    const auto largest = [](const RowPack<T>& pack, float most) {
#pragma unroll
      for (int j = 0; j < N; ++j) {
        most = fmaxf(most, to_float(pack.value[j]));
      }
      return most;
    };
    RowPack<T> kept[ROWS][KEEP];
    tile.kept([&](int i, int k, long long at) { kept[i][k] = load(i, at); });
    float most[ROWS];
#pragma unroll
    for (int i = 0; i < ROWS; ++i) {
      most[i] = -infinity();
    }
    tile.rim([&](int i, long long c) {
      most[i] = fmaxf(most[i], to_float(x[(tile.first + i) * cols + c]));
    });
    tile.kept([&](int i, int k, long long) { most[i] = largest(kept[i][k], most[i]); });
    tile.template rest<2>([&](int i, long long at) { most[i] = largest(load(i, at), most[i]); });
    reduce.max(most);

    float sum[ROWS] = {};
    const auto add_up = [&](int i, const RowPack<T>& pack) {
#pragma unroll
      for (int j = 0; j < N; ++j) {
        sum[i] += exponential<T>(to_float(pack.value[j]) - most[i]);
      }
    };
    tile.rim([&](int i, long long c) {
      sum[i] += exponential<T>(to_float(x[(tile.first + i) * cols + c]) - most[i]);
    });
    tile.kept([&](int i, int k, long long) { add_up(i, fresh<T>(kept[i][k])); });
    tile.template rest<2>([&](int i, long long at) { add_up(i, load(i, at)); });
    reduce.sum(sum);

    const auto finish = [&](int i, long long at, const RowPack<T>& pack) {
      const float factor = fast_reciprocal(sum[i]);
      float result[N];
#pragma unroll
      for (int j = 0; j < N; ++j) {
        result[j] = exponential<T>(to_float(pack.value[j]) - most[i]) * factor;
      }
      store_near<EDGES>(y + (tile.first + i) * cols + at, rounded<T, N>(result));
    };
    tile.kept([&](int i, int k, long long at) { finish(i, at, fresh<T>(kept[i][k])); });
    tile.template rest<1>([&](int i, long long at) { finish(i, at, load(i, at)); });
    tile.rim([&](int i, long long c) {
      const long long at = (tile.first + i) * cols + c;
      y[at] = from_float<T>(exponential<T>(to_float(x[at]) - most[i]) * fast_reciprocal(sum[i]));
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
