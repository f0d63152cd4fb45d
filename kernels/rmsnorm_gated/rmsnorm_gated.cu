// SPDX-License-Identifier: Apache-2.0
#include "row.cuh"
#include "row_reduce.cuh"
#include "row_reference.cuh"

/// y[r, c] = x[r, c] / sqrt(mean over c of x[r, c]^2 + eps) * w[c] * silu(g[r, c]). Threads and
/// tunables: RowTile. Without EDGES all pointers are 16-byte aligned and cols is whole packs.
template <typename T, int KEEP, bool EDGES>
__global__ void __launch_bounds__(EDGES ? 512 : 1024, 1)
    rmsnorm_gated(T* y, const T* x, const T* g, const T* __restrict__ w, long long rows,
                  long long cols, float eps) {
  using Tile = RowTile<T, KEEP, EDGES>;
  using Near = NearPacks<T, KEEP, EDGES>;
  constexpr int N = k_pack<T>;
  __shared__ float scratch[RowReduce::k_scratch];
  RowReduce reduce(scratch);
  const NearRow<EDGES, T> weights(w, cols, 1.0F);
  Near near_weights(weights);
  const bool alike = !EDGES || past_boundary(g) == past_boundary(x);
  const float share = fast_reciprocal(static_cast<float>(cols));

  each_row<T, KEEP, EDGES>(x, rows, cols, [&](const Tile& tile) {
    const T* in = x + tile.start;
    const T* gate = g + tile.start;
    T* out = y + tile.start;
    // All are read before the reduction, so that no row waits for memory twice.
    RowPack<T> kept[Tile::k_slots];
    RowPack<T> gates[Tile::k_slots];
    tile.kept([&](int k, unsigned at) { kept[k] = load_pack<N>(in + at, 0); });
    if (alike) {
      tile.kept([&](int k, unsigned at) { gates[k] = load_pack<N>(gate + at, 0); });
    } else {
      tile.kept([&](int k, unsigned at) { gates[k] = load_any<N>(gate + at); });
    }
    near_weights.ahead(tile);
    float sum = 0.0F;
    tile.rim([&](long long c) { sum += to_float(in[c]) * to_float(in[c]); });
    tile.kept([&](int k, unsigned) { sum += sum_of_squares(kept[k]); });
    tile.template rest<4>([&](long long at) { sum += sum_of_squares(load_pack<N>(in + at, 0)); });
    const float factor = rsqrtf(reduce.sum(sum) * share + eps);

    const auto finish = [&](long long at, const RowPack<T>& pack, const RowPack<T>& by,
                            const RowPack<T>& weight) {
      float result[N];
      float opening[N];
      float scale[N];
      unpack(pack, result);
      unpack(by, opening);
      unpack(weight, scale);
#pragma unroll
      for (int j = 0; j < N; ++j) {
        result[j] = result[j] * factor * scale[j] * silu(opening[j]);
      }
      store_near<EDGES>(out + at, rounded<T, N>(result));
    };
    tile.template kept_in_parts<Near::k_part>(
        [&](int slot, unsigned at) { near_weights.load(slot, at); },
        [&](int k, int slot, unsigned at) {
          finish(at, fresh<T>(kept[k]), fresh<T>(gates[k]), near_weights.pack(slot, at));
        });
    tile.template rest<2>([&](long long at) {
      finish(at, load_pack<N>(in + at, 0), load_any<N>(gate + at), weights.read(at));
    });
    tile.rim([&](long long c) {
      out[c] =
          from_float<T>(to_float(in[c]) * factor * weights.element(c) * silu(to_float(gate[c])));
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
