// SPDX-License-Identifier: Apache-2.0
#include "row.cuh"
#include "row_reduce.cuh"
#include "row_reference.cuh"

/// y[r, c] = x[r, c] / sqrt(sum over c of x[r, c]^2 + eps). Threads and tunables: RowTile.
template <typename T, int KEEP, int ROWS, bool EDGES>
__global__ void __launch_bounds__(row_threads(KEEP* ROWS, EDGES || ROWS > 1))
    l2norm(T* y, const T* x, long long rows, long long cols, float eps) {
  constexpr int N = k_pack<T>;
  __shared__ float scratch[RowReduce<ROWS>::k_scratch];
  RowReduce<ROWS> reduce(scratch);

  each_tile<T, KEEP, ROWS, EDGES>(x, rows, cols, [&](const RowTile<T, KEEP, ROWS, EDGES>& tile) {
    const auto load = [&](int i, long long at) {
      return load_pack<N>(x + (tile.first + i) * cols + at, 0);
    };
    RowPack<T> kept[ROWS][KEEP];
    tile.kept([&](int i, int k, long long at) { kept[i][k] = load(i, at); });
    float sum[ROWS] = {};
    tile.rim([&](int i, long long c) {
      const float value = to_float(x[(tile.first + i) * cols + c]);
      sum[i] += value * value;
    });
    tile.kept([&](int i, int k, long long) { sum[i] += sum_of_squares(kept[i][k]); });
    tile.template rest<2>([&](int i, long long at) { sum[i] += sum_of_squares(load(i, at)); });
    reduce.sum(sum);

    const auto finish = [&](int i, long long at, const RowPack<T>& pack) {
      const float factor = rsqrtf(sum[i] + eps);
      float result[N];
#pragma unroll
      for (int j = 0; j < N; ++j) {
        result[j] = to_float(pack.value[j]) * factor;
      }
      store_near<EDGES>(y + (tile.first + i) * cols + at, rounded<T, N>(result));
    };
    tile.kept([&](int i, int k, long long at) { finish(i, at, fresh<T>(kept[i][k])); });
    tile.template rest<1>([&](int i, long long at) { finish(i, at, load(i, at)); });
    tile.rim([&](int i, long long c) {
      const long long at = (tile.first + i) * cols + c;
      y[at] = from_float<T>(to_float(x[at]) * rsqrtf(sum[i] + eps));
    });
  });
}

template <typename T>
__global__ void l2norm_ref(T* y, const T* x, long long rows, long long cols, float eps) {
  for (long long row = blockIdx.x; row < rows; row += gridDim.x) {
    const T* in = x + row * cols;
    const double sum = reference_sum(cols, [&](long long c) {
      const double value = to_float(in[c]);
      return value * value;
    });
    const double factor = 1.0 / sqrt(sum + eps);
    for (long long c = threadIdx.x; c < cols; c += blockDim.x) {
      y[row * cols + c] = from_float<T>(static_cast<float>(to_float(in[c]) * factor));
    }
  }
}
