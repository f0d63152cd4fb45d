// SPDX-License-Identifier: Apache-2.0
#include "row.cuh"
#include "row_reduce.cuh"
#include "row_reference.cuh"

/// y[r, c] = (x[r, c] - mean) / sqrt(variance + eps) * w[c] + b[c], mean and (biased) variance of
/// row r; w counts as 1 and b as 0 where they are null. The variance is that of differences from
/// the mean, so a large mean costs no digits. Threads and tunables: RowTile. Without EDGES all
/// pointers are 16-byte aligned and cols is whole packs.
template <typename T, int KEEP, bool EDGES>
__global__ void __launch_bounds__(EDGES ? 512 : 1024, 1)
    layernorm(T* y, const T* x, const T* __restrict__ w, const T* __restrict__ b, long long rows,
              long long cols, float eps) {
  using Tile = RowTile<T, KEEP, EDGES>;
  using Near = NearPacks<T, KEEP, EDGES>;
  constexpr int N = k_pack<T>;
  __shared__ float scratch[RowReduce::k_scratch];
  RowReduce reduce(scratch);
  const NearRow<EDGES, T> weights(w, cols, 1.0F);
  const NearRow<EDGES, T> biases(b, cols, 0.0F);
  Near near_weights(weights);
  Near near_biases(biases);
  const float share = fast_reciprocal(static_cast<float>(cols));

  each_row<T, KEEP, EDGES>(x, rows, cols, [&](const Tile& tile) {
    const T* in = x + tile.start;
    T* out = y + tile.start;
    RowPack<T> kept[Tile::k_slots];
    tile.kept([&](int k, unsigned at) { kept[k] = load_pack<N>(in + at, 0); });
    near_weights.ahead(tile);
    near_biases.ahead(tile);

    float sum = 0.0F;
    const auto add_up = [&](const RowPack<T>& pack) {
      float values[N];
      unpack(pack, values);
#pragma unroll
      for (int j = 0; j < N; ++j) {
        sum += values[j];
      }
    };
    tile.rim([&](long long c) { sum += to_float(in[c]); });
    tile.kept([&](int k, unsigned) { add_up(kept[k]); });
    tile.template rest<4>([&](long long at) { add_up(load_pack<N>(in + at, 0)); });
    const float mean = reduce.sum(sum) * share;

    float squares = 0.0F;
    const auto deviate = [&](const RowPack<T>& pack) {
      float values[N];
      unpack(pack, values);
#pragma unroll
      for (int j = 0; j < N; ++j) {
        const float difference = values[j] - mean;
        squares += difference * difference;
      }
    };
    tile.rim([&](long long c) {
      const float difference = to_float(in[c]) - mean;
      squares += difference * difference;
    });
    tile.kept([&](int k, unsigned) { deviate(fresh<T>(kept[k])); });
    tile.template rest<4>([&](long long at) { deviate(load_pack<N>(in + at, 0)); });
    const float factor = rsqrtf(reduce.sum(squares) * share + eps);
    const float shift = -mean * factor;

    const auto finish = [&](long long at, const RowPack<T>& pack, const RowPack<T>& weight,
                            const RowPack<T>& bias) {
      float result[N];
      float by[N];
      float plus[N];
      unpack(pack, result);
      unpack(weight, by);
      unpack(bias, plus);
#pragma unroll
      for (int j = 0; j < N; ++j) {
        // An instruction fewer, and its rounding is lost in a 16-bit type's.
        const float normal =
            sizeof(T) == 2 ? result[j] * factor + shift : (result[j] - mean) * factor;
        result[j] = normal * by[j] + plus[j];
      }
      store_near<EDGES>(out + at, rounded<T, N>(result));
    };
    tile.template kept_in_parts<Near::k_part>(
        [&](int slot, unsigned at) {
          near_weights.load(slot, at);
          near_biases.load(slot, at);
        },
        [&](int k, int slot, unsigned at) {
          finish(at, fresh<T>(kept[k]), near_weights.pack(slot, at), near_biases.pack(slot, at));
        });
    tile.template rest<2>([&](long long at) {
      finish(at, load_pack<N>(in + at, 0), weights.read(at), biases.read(at));
    });
    tile.rim([&](long long c) {
      out[c] =
          from_float<T>((to_float(in[c]) - mean) * factor * weights.element(c) + biases.element(c));
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
