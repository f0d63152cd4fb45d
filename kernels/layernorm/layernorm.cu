// SPDX-License-Identifier: Apache-2.0
#include "row.cuh"
#include "row_reduce.cuh"
#include "row_reference.cuh"

/// y[r, c] = (x[r, c] - mean) / sqrt(variance + eps) * w[c] + b[c], mean and (biased) variance of row r; w
/// counts as 1 and b as 0 where they are null. The variance is that of differences from the mean, so a
/// large mean costs no digits. Threads and tunables: RowTile. Without EDGES all pointers are 16-byte aligned
/// and cols is whole packs.
template <typename T, int KEEP, int ROWS, bool EDGES>
__global__ void __launch_bounds__(row_threads(KEEP* ROWS, EDGES || ROWS > 1))
    layernorm(T* y, const T* x, const T* __restrict__ w, const T* __restrict__ b, long long rows,
              long long cols, float eps) {
  constexpr int N = k_pack<T>;
  __shared__ float scratch[RowReduce<ROWS>::k_scratch];
  RowReduce<ROWS> reduce(scratch);
  const NearRow<EDGES, T> weights(w, cols);
  const NearRow<EDGES, T> biases(b, cols);
  const float share = 1.0F / static_cast<float>(cols);

  each_tile<T, KEEP, ROWS, EDGES>(x, rows, cols, [&](const RowTile<T, KEEP, ROWS, EDGES>& tile) {
    const auto load = [&](int i, long long at) {
      return load_pack<N>(x + (tile.first + i) * cols + at, 0);
    };
    const auto sum_up = [](const RowPack<T>& pack) {
      float sum = 0.0F;
#pragma unroll
      for (int j = 0; j < N; ++j) {
        sum += to_float(pack.value[j]);
      }
      return sum;
    };
    RowPack<T> kept[ROWS][KEEP];
    tile.kept([&](int i, int k, long long at) { kept[i][k] = load(i, at); });
    float mean[ROWS] = {};
    tile.rim([&](int i, long long c) { mean[i] += to_float(x[(tile.first + i) * cols + c]); });
    tile.kept([&](int i, int k, long long) { mean[i] += sum_up(kept[i][k]); });
    tile.template rest<2>([&](int i, long long at) { mean[i] += sum_up(load(i, at)); });
    reduce.sum(mean);
#pragma unroll
    for (int i = 0; i < ROWS; ++i) {
      mean[i] *= share;
    }

    float squares[ROWS] = {};
    const auto deviate = [&](int i, const RowPack<T>& pack) {
#pragma unroll
      for (int j = 0; j < N; ++j) {
        const float difference = to_float(pack.value[j]) - mean[i];
        squares[i] += difference * difference;
      }
    };
    tile.rim([&](int i, long long c) {
      const float difference = to_float(x[(tile.first + i) * cols + c]) - mean[i];
      squares[i] += difference * difference;
    });
    tile.kept([&](int i, int k, long long) { deviate(i, fresh<T>(kept[i][k])); });
    tile.template rest<2>([&](int i, long long at) { deviate(i, load(i, at)); });
    reduce.sum(squares);

    const auto factor_of = [&](int i) {
      return rsqrtf(squares[i] * share + eps);
    };
    const auto finish = [&](int i, long long at, const RowPack<T>& pack, const RowPack<T>& weight,
                            const RowPack<T>& bias) {
      const float factor = factor_of(i);
      float result[N];
#pragma unroll
      for (int j = 0; j < N; ++j) {
        result[j] = (to_float(pack.value[j]) - mean[i]) * factor;
      }
      if (w != nullptr) {
#pragma unroll
        for (int j = 0; j < N; ++j) {
          result[j] *= to_float(weight.value[j]);
        }
      }
      if (b != nullptr) {
#pragma unroll
        for (int j = 0; j < N; ++j) {
          result[j] += to_float(bias.value[j]);
        }
      }
      store_near<EDGES>(y + (tile.first + i) * cols + at, rounded<T, N>(result));
    };
    using Near = NearRow<EDGES, T>;
    typename Near::Loaded weight[ROWS][Near::k_ahead];
    typename Near::Loaded bias[ROWS][Near::k_ahead];
    tile.template kept_in_parts<Near::k_ahead>(
        [&](int i, int slot, long long at) {
          if (w != nullptr) {
            weight[i][slot] = weights.load(at);
          }
          if (b != nullptr) {
            bias[i][slot] = biases.load(at);
          }
        },
        [&](int i, int k, int slot, long long at) {
          finish(i, at, fresh<T>(kept[i][k]),
                 w != nullptr ? weights.pack(weight[i][slot], at) : kept[i][k],
                 b != nullptr ? biases.pack(bias[i][slot], at) : kept[i][k]);
        });
    tile.template rest<1>([&](int i, long long at) {
      const RowPack<T> pack = load(i, at);
      finish(i, at, pack, w != nullptr ? weights.read(at) : pack,
             b != nullptr ? biases.read(at) : pack);
    });
    tile.rim([&](int i, long long c) {
      const long long at = (tile.first + i) * cols + c;
      float result = (to_float(x[at]) - mean[i]) * factor_of(i);
      result = w != nullptr ? result * to_float(w[c]) : result;
      result = b != nullptr ? result + to_float(b[c]) : result;
      y[at] = from_float<T>(result);
    });
  });
}

template <typename T>
__global__ void layernorm_ref(T* y, const T* x, const T* w, const T* b, long long rows,
                              long long cols, float eps) {
  for (long long row = blockIdx.x; row < rows; row += gridDim.x) {
    const T* in = x + row * cols;
    const auto n = static_cast<double>(cols);
    const double mean =
        reference_sum(cols, [&](long long c) { return static_cast<double>(to_float(in[c])); }) / n;
    const double squares = reference_sum(cols, [&](long long c) {
      const double difference = to_float(in[c]) - mean;
      return difference * difference;
    });
    const double factor = 1.0 / sqrt(squares / n + eps);
    for (long long c = threadIdx.x; c < cols; c += blockDim.x) {
      double result = (to_float(in[c]) - mean) * factor;
      result = w != nullptr ? result * to_float(w[c]) : result;
      result = b != nullptr ? result + to_float(b[c]) : result;
      y[row * cols + c] = from_float<T>(static_cast<float>(result));
    }
  }
}
