// SPDX-License-Identifier: Apache-2.0
#include "row.cuh"
#include "row_reduce.cuh"
#include "row_reference.cuh"

/// y[r, c] = h[r, c] / sqrt(mean over c of h[r, c]^2 + eps) * w[c]. h is x, or, with a residual, x
/// + residual rounded to T, which is written over the residual. Threads and tunables: RowTile.
/// Without EDGES all pointers are 16-byte aligned and cols is whole packs.
template <typename T, int KEEP, bool EDGES>
__global__ void __launch_bounds__(EDGES ? 512 : 1024, 1)
    rmsnorm(T* y, const T* x, const T* __restrict__ w, T* residual, long long rows, long long cols,
            float eps) {
  using Tile = RowTile<T, KEEP, EDGES>;
  using Near = NearPacks<T, KEEP, EDGES>;
  constexpr int N = k_pack<T>;
  __shared__ float scratch[RowReduce::k_scratch];
  RowReduce reduce(scratch);
  const NearRow<EDGES, T> weights(w, cols, 1.0F);
  Near near_weights(weights);
  const float share = fast_reciprocal(static_cast<float>(cols));
  // A residual that lies otherwise in its packs is read element by element: right, but slow.
  const bool alike = !EDGES || past_boundary(residual) == past_boundary(x);

  each_row<T, KEEP, EDGES>(x, rows, cols, [&](const Tile& tile) {
    const T* in = x + tile.start;
    T* other = residual + tile.start;
    T* out = y + tile.start;
    const auto added = [&](const RowPack<T>& a, const RowPack<T>& b) {
      float sum[N];
      float more[N];
      unpack(fresh<T>(a), sum);
      unpack(fresh<T>(b), more);
#pragma unroll
      for (int j = 0; j < N; ++j) {
        sum[j] += more[j];
      }
      return rounded<T, N>(sum);
    };

    RowPack<T> kept[Tile::k_slots];
    tile.kept([&](int k, unsigned at) { kept[k] = load_pack<N>(in + at, 0); });
    near_weights.ahead(tile);
    if (residual != nullptr && alike) {
      constexpr int k_more =
          KEEP == 8 && sizeof(T) == 2 ? 1 : 2;  // packs at once: what does not spill
      RowPack<T> more[k_more];
      tile.template kept_in_parts<k_more>(
          [&](int slot, unsigned at) { more[slot] = load_pack<N>(other + at, 0); },
          [&](int k, int slot, unsigned at) {
            kept[k] = added(kept[k], more[slot]);
            store_pack(other + at, 0, kept[k]);
          });
    } else if (residual != nullptr) {
      tile.kept([&](int k, unsigned at) {
        kept[k] = added(kept[k], load_any<N>(other + at));
        store_any(other + at, kept[k]);
      });
    }
    float sum = 0.0F;
    tile.rim([&](long long c) {
      float value = to_float(in[c]);
      if (residual != nullptr) {
        other[c] = from_float<T>(value + to_float(other[c]));
        value = to_float(other[c]);
      }
      sum += value * value;
    });
    tile.kept([&](int k, unsigned) { sum += sum_of_squares(fresh<T>(kept[k])); });
    if (residual == nullptr) {
      tile.template rest<4>([&](long long at) { sum += sum_of_squares(load_pack<N>(in + at, 0)); });
    } else {
      tile.template rest<1>([&](long long at) {
        const RowPack<T> pack = added(load_pack<N>(in + at, 0), load_any<N>(other + at));
        store_any(other + at, pack);
        sum += sum_of_squares(pack);
      });
    }
    const float factor = rsqrtf(reduce.sum(sum) * share + eps);

    const auto finish = [&](long long at, const RowPack<T>& pack, const RowPack<T>& weight) {
      float result[N];
      float by[N];
      unpack(pack, result);
      unpack(weight, by);
#pragma unroll
      for (int j = 0; j < N; ++j) {
        result[j] *= factor * by[j];
      }
      store_near<EDGES>(out + at, rounded<T, N>(result));
    };
    tile.template kept_in_parts<Near::k_part>(
        [&](int slot, unsigned at) { near_weights.load(slot, at); },
        [&](int k, int slot, unsigned at) {
          finish(at, fresh<T>(kept[k]), near_weights.pack(slot, at));
        });
    const T* again = residual != nullptr ? other : in;
    tile.template rest<2>(
        [&](long long at) { finish(at, load_any<N>(again + at), weights.read(at)); });
    tile.rim([&](long long c) {
      out[c] = from_float<T>(to_float(again[c]) * factor * weights.element(c));
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
      y[row * cols + c] =
          from_float<T>(static_cast<float>(to_float(in[c]) * factor * to_float(w[c])));
    }
  }
}
