// SPDX-License-Identifier: Apache-2.0
#include "row.cuh"
#include "row_reduce.cuh"
#include "row_reference.cuh"

/// y[r, c] = x[r, c] / sqrt(mean over c of x[r, c]^2 + eps) * w[c] * silu(g[r, c]). Threads and tunables:
/// RowTile. Without EDGES all pointers are 16-byte aligned and cols is whole packs.
template <typename T, int KEEP, int ROWS, bool EDGES>
__global__ void __launch_bounds__(row_threads(KEEP* ROWS, EDGES || ROWS > 1))
    rmsnorm_gated(T* y, const T* x, const T* g, const T* __restrict__ w, long long rows,
                  long long cols, float eps) {
  constexpr int N = k_pack<T>;
  __shared__ float scratch[RowReduce<ROWS>::k_scratch];
  RowReduce<ROWS> reduce(scratch);
  const NearRow<EDGES, T> weights(w, cols);
  const bool alike = !EDGES || past_boundary(g) == past_boundary(x);
  const float share = 1.0F / static_cast<float>(cols);

  each_tile<T, KEEP, ROWS, EDGES>(x, rows, cols, [&](const RowTile<T, KEEP, ROWS, EDGES>& tile) {
    const auto offset = [&](int i) { return (tile.first + i) * cols; };
    const auto load = [&](int i, long long at) {
      return load_pack<N>(x + offset(i) + at, 0);
    };
    // Both are read before the reduction, so that no row waits for memory twice.
    RowPack<T> kept[ROWS][KEEP];
    RowPack<T> gates[ROWS][KEEP];
    tile.kept([&](int i, int k, long long at) { kept[i][k] = load(i, at); });
    if (alike) {
      tile.kept([&](int i, int k, long long at) { gates[i][k] = load_pack<N>(g + offset(i) + at, 0); });
    } else {
      tile.kept([&](int i, int k, long long at) { gates[i][k] = load_any<N>(g + offset(i) + at); });
    }
    float sum[ROWS] = {};
    tile.rim([&](int i, long long c) {
      const float value = to_float(x[offset(i) + c]);
      sum[i] += value * value;
    });
    tile.kept([&](int i, int k, long long) { sum[i] += sum_of_squares(kept[i][k]); });
    tile.template rest<2>([&](int i, long long at) { sum[i] += sum_of_squares(load(i, at)); });
    reduce.sum(sum);

    const auto factor_of = [&](int i) { return rsqrtf(sum[i] * share + eps); };
    const auto finish = [&](int i, long long at, const RowPack<T>& pack, const RowPack<T>& gate,
                            const RowPack<T>& weight) {
      const float factor = factor_of(i);
      float result[N];
#pragma unroll
      for (int j = 0; j < N; ++j) {
        result[j] = to_float(pack.value[j]) * factor * to_float(weight.value[j]) *
                    silu(to_float(gate.value[j]));
      }
      store_near<EDGES>(y + offset(i) + at, rounded<T, N>(result));
    };
    using Weights = NearRow<EDGES, T>;
    typename Weights::Loaded ahead[ROWS][Weights::k_ahead];
    tile.template kept_in_parts<Weights::k_ahead>(
        [&](int i, int slot, long long at) { ahead[i][slot] = weights.load(at); },
        [&](int i, int k, int slot, long long at) {
          finish(i, at, fresh<T>(kept[i][k]), gates[i][k], weights.pack(ahead[i][slot], at));
        });
    tile.template rest<1>([&](int i, long long at) {
      finish(i, at, load(i, at), load_any<N>(g + offset(i) + at), weights.read(at));
    });
    tile.rim([&](int i, long long c) {
      const long long at = offset(i) + c;
      y[at] = from_float<T>(to_float(x[at]) * factor_of(i) * to_float(w[c]) * silu(to_float(g[at])));
    });
  });
}

template <typename T>
__global__ void rmsnorm_gated_ref(T* y, const T* x, const T* g, const T* w, long long rows,
                                  long long cols, float eps) {
  for (long long row = blockIdx.x; row < rows; row += gridDim.x) {
    const T* in = x + row * cols;
    const double sum = reference_sum(cols, [&](long long c) {
      const double value = to_float(in[c]);
      return value * value;
    });
    const double factor = 1.0 / sqrt(sum / static_cast<double>(cols) + eps);
    for (long long c = threadIdx.x; c < cols; c += blockDim.x) {
      const double gate = reference_silu(to_float(g[row * cols + c]));
      y[row * cols + c] =
          from_float<T>(static_cast<float>(to_float(in[c]) * factor * to_float(w[c]) * gate));
    }
  }
}
