// SPDX-License-Identifier: Apache-2.0
#include "row.cuh"
#include "row_reduce.cuh"
#include "row_reference.cuh"

/// y[r, c] = h[r, c] / sqrt(mean over c of h[r, c]^2 + eps) * w[c]. h is x, or, with a residual, x + residual
/// rounded to T, which is written over the residual. Threads and tunables: RowTile. Without EDGES x, y and w
/// are 16-byte aligned and cols is whole packs; the residual may be misaligned in any case.
template <typename T, int KEEP, int ROWS, bool EDGES>
__global__ void __launch_bounds__(row_threads(KEEP* ROWS, EDGES || ROWS > 1), KEEP == 1 && (EDGES || ROWS > 1) ? 1 : 0)
    rmsnorm(T* y, const T* x, const T* __restrict__ w, T* residual, long long rows, long long cols,
            float eps) {
  constexpr int N = k_pack<T>;
  __shared__ float scratch[RowReduce<ROWS>::k_scratch];
  RowReduce<ROWS> reduce(scratch);
  const float share = 1.0F / static_cast<float>(cols);

  // A residual that lies otherwise in its packs is right but slow: to hold both would cost registers.
  const NearRow<EDGES, T> weights(w, cols);
  const bool alike = residual == nullptr || past_boundary(residual) == past_boundary(x);

  each_tile<T, KEEP, ROWS, EDGES>(x, rows, cols, [&](RowTile<T, KEEP, ROWS, EDGES> tile) {
    tile.keep = alike;
    const auto offset = [&](int i) { return (tile.first + i) * cols; };
    const auto added = [&](const RowPack<T>& a, const RowPack<T>& b) {
      float sum[N];
#pragma unroll
      for (int j = 0; j < N; ++j) {
        sum[j] = to_float(a.value[j]) + to_float(b.value[j]);
      }
      return rounded<T, N>(sum);
    };

    RowPack<T> kept[ROWS][KEEP];
    tile.kept([&](int i, int k, long long at) {
      kept[i][k] = load_pack<N>(x + offset(i) + at, 0);
    });
    if (residual != nullptr) {
      constexpr int k_more = 4 / ROWS;  // packs at once, for the registers' sake
      RowPack<T> more[ROWS][k_more];
      tile.template kept_in_parts<k_more>(
          [&](int i, int slot, long long at) {
            more[i][slot] = load_pack<N>(residual + offset(i) + at, 0);
          },
          [&](int i, int k, int slot, long long at) {
            kept[i][k] = added(kept[i][k], more[i][slot]);
            store_pack(residual + offset(i) + at, 0, kept[i][k]);
          });
    }
    float sum[ROWS] = {};
    tile.rim([&](int i, long long c) {
      float value = to_float(x[offset(i) + c]);
      if (residual != nullptr) {
        const T both = from_float<T>(value + to_float(residual[offset(i) + c]));
        residual[offset(i) + c] = both;
        value = to_float(both);
      }
      sum[i] += value * value;
    });
    tile.kept([&](int i, int k, long long) { sum[i] += sum_of_squares(kept[i][k]); });
    if (residual == nullptr) {
      tile.template rest<2>([&](int i, long long at) {
        sum[i] += sum_of_squares(load_pack<N>(x + offset(i) + at, 0));
      });
    } else {
      tile.template rest<1>([&](int i, long long at) {
        const RowPack<T> pack = added(load_pack<N>(x + offset(i) + at, 0),
                                      load_any<N>(residual + offset(i) + at));
        store_any(residual + offset(i) + at, pack);
        sum[i] += sum_of_squares(pack);
      });
    }
    reduce.sum(sum);

    const auto factor_of = [&](int i) { return rsqrtf(sum[i] * share + eps); };
    const auto finish = [&](int i, long long at, const RowPack<T>& pack, const RowPack<T>& weight) {
      const float factor = factor_of(i);
      float result[N];
#pragma unroll
      for (int j = 0; j < N; ++j) {
        result[j] = to_float(pack.value[j]) * factor * to_float(weight.value[j]);
      }
      store_near<EDGES>(y + offset(i) + at, rounded<T, N>(result));
    };
    using Weights = NearRow<EDGES, T>;
    typename Weights::Loaded ahead[ROWS][Weights::k_ahead];
    tile.template kept_in_parts<Weights::k_ahead>(
        [&](int i, int slot, long long at) { ahead[i][slot] = weights.load(at); },
        [&](int i, int k, int slot, long long at) {
          finish(i, at, fresh<T>(kept[i][k]), weights.pack(ahead[i][slot], at));
        });
    const T* again = residual != nullptr ? residual : x;
    tile.template rest<1>(
        [&](int i, long long at) { finish(i, at, load_any<N>(again + offset(i) + at), weights.read(at)); });
    tile.rim([&](int i, long long c) {
      const float value = to_float(again[offset(i) + c]);
      y[offset(i) + c] = from_float<T>(value * factor_of(i) * to_float(w[c]));
    });
  });
}

template <typename T>
__global__ void rmsnorm_ref(T* y, const T* x, const T* w, T* residual, long long rows,
                            long long cols, float eps) {
  for (long long row = blockIdx.x; row < rows; row += gridDim.x) {
    const T* in = x + row * cols;
    if (residual != nullptr) {
      T* sums = residual + row * cols;
      for (long long c = threadIdx.x; c < cols; c += blockDim.x) {
        sums[c] = from_float<T>(to_float(in[c]) + to_float(sums[c]));
      }
      __syncthreads();
      in = sums;
    }
    const double sum = reference_sum(cols, [&](long long c) {
      const double value = to_float(in[c]);
      return value * value;
    });
    const double factor = 1.0 / sqrt(sum / static_cast<double>(cols) + eps);
    for (long long c = threadIdx.x; c < cols; c += blockDim.x) {
      y[row * cols + c] = from_float<T>(static_cast<float>(to_float(in[c]) * factor * to_float(w[c])));
    }
  }
}
