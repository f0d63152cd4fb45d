// SPDX-License-Identifier: Apache-2.0
#include "row.cuh"
#include "row_reference.cuh"

/// y[r, c] = silu(gate[r, c]) * up[r, c]; y is contiguous, rows of gate and up start every `stride`
/// elements. blockDim.x threads with KEEP packs each cover a stretch of a row, blockDim.y rows a
/// block, any grid. Without EDGES all pointers are 16-byte aligned, cols and stride whole packs.
template <typename T, int KEEP, bool EDGES>
__global__ void __launch_bounds__(512, EDGES ? 1 : 0)
    swiglu(T* y, const T* gate, const T* up, long long rows, long long cols, long long stride) {
  constexpr int N = k_pack<T>;
  const long long stretch = static_cast<long long>(KEEP) * blockDim.x;
  const long long stretches = max((cols / N + stretch - 1) / stretch, 1LL);
  const long long tiles = (rows + blockDim.y - 1) / blockDim.y * stretches;

  for (long long tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const long long band = tile / stretches;
    const long long row = band * blockDim.y + threadIdx.y;
    if (row >= rows) {
      continue;
    }
    const T* in = gate + row * stride;
    const NearRow<EDGES, T> ups(up + row * stride, cols, 0.0F);
    const int head = EDGES ? head_of(in, cols) : 0;
    const long long packs = (cols - head) / N;
    const long long first = (tile - band * stretches) * stretch + threadIdx.x;
    RowPack<T> gates[KEEP];
    typename NearRow<EDGES, T>::Loaded ahead[KEEP];
#pragma unroll
    for (int k = 0; k < KEEP; ++k) {
      const long long pack = first + k * blockDim.x;
      if (pack < packs) {
        gates[k] = load_pack<N>(in + head, pack);
        ahead[k] = ups.load(pack * N + head);
      }
    }
#pragma unroll
    for (int k = 0; k < KEEP; ++k) {
      const long long pack = first + k * blockDim.x;
      if (pack < packs) {
        const RowPack<T> factors = ups.pack(ahead[k], pack * N + head);
        float result[N];
        float by[N];
        unpack(gates[k], result);
        unpack(factors, by);
#pragma unroll
        for (int j = 0; j < N; ++j) {
          result[j] = silu(result[j]) * by[j];
        }
        store_near<EDGES>(y + row * cols + pack * N + head, rounded<T, N>(result));
      }
    }
    if (EDGES && first == threadIdx.x) {
#pragma unroll 1
      for (long long j = threadIdx.x; j < cols - packs * N; j += blockDim.x) {
        const long long c = j < head ? j : j + packs * N;
        y[row * cols + c] = from_float<T>(silu(to_float(in[c])) * to_float(up[row * stride + c]));
      }
    }
  }
}

template <typename T>
__global__ void swiglu_ref(T* y, const T* gate, const T* up, long long rows, long long cols,
                           long long stride) {
  for (long long row = blockIdx.x; row < rows; row += gridDim.x) {
    for (long long c = threadIdx.x; c < cols; c += blockDim.x) {
      const double result =
          reference_silu(to_float(gate[row * stride + c])) * to_float(up[row * stride + c]);
      y[row * cols + c] = from_float<T>(static_cast<float>(result));
    }
  }
}
