// SPDX-License-Identifier: Apache-2.0
#include "row.cuh"
#include "row_reduce.cuh"
#include "row_reference.cuh"

/// y[r, c] = x[r, c] / sqrt(sum over c of x[r, c]^2 + eps). Threads and tunables: RowTile.
template <typename T, int KEEP, bool EDGES>
__global__ void __launch_bounds__(EDGES ? 512 : 1024, 1)
    l2norm(T* y, const T* x, long long rows, long long cols, float eps) {
  using Tile = RowTile<T, KEEP, EDGES>;
  constexpr int N = k_pack<T>;
  __shared__ float scratch[RowReduce::k_scratch];
  RowReduce reduce(scratch);

  each_row<T, KEEP, EDGES>(x, rows, cols, [&](const Tile& tile) {
    const T* in = x + tile.start;
    T* out = y + tile.start;
    RowPack<T> kept[Tile::k_slots];
    tile.kept([&](int k, unsigned at) { kept[k] = load_pack<N>(in + at, 0); });
    float sum = 0.0F;
    tile.rim([&](long long c) { sum += to_float(in[c]) * to_float(in[c]); });
    tile.kept([&](int k, unsigned) { sum += sum_of_squares(kept[k]); });
    tile.template rest<4>([&](long long at) { sum += sum_of_squares(load_pack<N>(in + at, 0)); });
    const float factor = rsqrtf(reduce.sum(sum) + eps);

    const auto finish = [&](long long at, const RowPack<T>& pack) {
      float result[N];
      unpack(pack, result);
#pragma unroll
      for (int j = 0; j < N; ++j) {
        result[j] *= factor;
      }
      store_near<EDGES>(out + at, rounded<T, N>(result));
    };
    tile.kept([&](int k, unsigned at) { finish(at, fresh<T>(kept[k])); });
    tile.template rest<4>([&](long long at) { finish(at, load_pack<N>(in + at, 0)); });
    tile.rim([&](long long c) { out[c] = from_float<T>(to_float(in[c]) * factor); });
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
