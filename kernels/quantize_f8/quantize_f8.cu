// SPDX-License-Identifier: Apache-2.0
#include <cuda_fp8.h>

#include "row.cuh"
#include "row_reduce.cuh"
#include "row_reference.cuh"

template <typename F>
struct Float8;
template <>
struct Float8<__nv_fp8_e4m3> {
  static constexpr float k_largest = 448.0F;
  static constexpr __nv_fp8_interpretation_t k_kind = __NV_E4M3;
};
template <>
struct Float8<__nv_fp8_e5m2> {
  static constexpr float k_largest = 57344.0F;
  static constexpr __nv_fp8_interpretation_t k_kind = __NV_E5M2;
};

/// A block's scale; not below the smallest normal float, so that its reciprocal is finite.
template <typename F>
__device__ inline float scale_for(float largest) {
  return max_or_nan(largest / Float8<F>::k_largest, 1.175494351e-38F);
}

/// The ROWS blocks of a matrix that a thread works on: RowTile, for blocks of several rows.
template <typename T, int KEEP, int ROWS, bool EDGES>
struct BlockTile {
  static constexpr int N = k_pack<T>;
  const T* x;
  long long cols;
  long long height;
  long long row_packs;     ///< of a row in a block, at most
  long long first;         ///< block
  long long origin[ROWS];  ///< of each block, in x
  long long wide[ROWS];
  long long high[ROWS];  ///< 0 past the last block

  __device__ BlockTile(const T* matrix, long long first_block, long long rows, long long columns,
                       long long block_height, long long block_width)
      : x(matrix), cols(columns), height(block_height), first(first_block) {
    const long long across = (cols + block_width - 1) / block_width;
    const long long blocks = (rows + height - 1) / height * across;
    row_packs = block_width >= N ? block_width / N : 1;
#pragma unroll
    for (int i = 0; i < ROWS; ++i) {
      const long long block = first + i;
      const long long down = across == 1 ? block : block / across;
      const long long right = across == 1 ? 0 : block - down * across;
      origin[i] = down * height * cols + right * block_width;
      wide[i] = min(block_width, cols - right * block_width);
      high[i] = block < blocks ? min(height, rows - down * height) : 0;
    }
  }

  /// use(place): where in x pack `pack` of block i is, if it has that one.
  template <typename Use>
  __device__ void at_pack(int i, long long pack, Use use) const {
    const long long down = height == 1 ? 0 : pack / row_packs;
    const long long base = origin[i] + down * cols;
    const int head = EDGES ? head_of(x + base, wide[i]) : 0;
    const long long c = (pack - down * row_packs) * N + head;
    if (!EDGES || c + N <= wide[i]) {
      use(base + c);
    }
  }

  /// use(i, k, place)
  template <typename Use>
  __device__ void kept(Use use) const {
#pragma unroll
    for (int i = 0; i < ROWS; ++i) {
#pragma unroll
      for (int k = 0; k < KEEP; ++k) {
        const long long pack = threadIdx.x + k * blockDim.x;
        if (pack < high[i] * row_packs) {
          at_pack(i, pack, [&](long long place) { use(i, k, place); });
        }
      }
    }
  }

  /// use(i, place)
  template <typename Use>
  __device__ void rest(Use use) const {
#pragma unroll
    for (int i = 0; i < ROWS; ++i) {
#pragma unroll 1
      for (long long pack = threadIdx.x + KEEP * blockDim.x; pack < high[i] * row_packs;
           pack += blockDim.x) {
        at_pack(i, pack, [&](long long place) { use(i, place); });
      }
    }
  }

  /// use(i, place): an element that is in no pack.
  template <typename Use>
  __device__ void rim(Use use) const {
    if constexpr (EDGES) {
#pragma unroll
      for (int i = 0; i < ROWS; ++i) {
#pragma unroll 1
        for (long long j = threadIdx.x; j < high[i] * 2 * N; j += blockDim.x) {
          const long long base = origin[i] + j / (2 * N) * cols;
          const int nth = static_cast<int>(j % (2 * N));
          const int head = head_of(x + base, wide[i]);
          const long long body = (wide[i] - head) / N * N;
          if (nth < wide[i] - body) {
            use(i, base + (nth < head ? nth : nth + body));
          }
        }
      }
    }
  }
};

/// y[r, c] = f8(x[r, c] / s), s = scale[r / height, c / width] = the largest |x| of that block over the largest
/// f8. A block with a NaN is all NaN; one with an infinity has scale infinity, zeros, and NaN for it.
///
/// blockDim.x threads share a block, blockDim.y such groups are in a thread block, and each has ROWS blocks; a
/// thread keeps its first KEEP packs of each in registers. Without EDGES x is 16-byte aligned, y to k_pack<T>
/// bytes, width is whole packs and divides cols.
template <typename T, typename F, int KEEP, bool EDGES>
__global__ void __launch_bounds__(row_threads(KEEP, EDGES), 1)
    quantize_f8(F* y, float* scale, const T* x, long long rows, long long cols, long long height,
                long long width) {
  constexpr int N = k_pack<T>;
  constexpr int ROWS = 1;  // more were never faster
  __shared__ float scratch[RowReduce<ROWS>::k_scratch];
  RowReduce<ROWS> reduce(scratch);
  const long long blocks = (rows + height - 1) / height * ((cols + width - 1) / width);
  const long long step = static_cast<long long>(gridDim.x) * blockDim.y * ROWS;

  for (long long start = static_cast<long long>(blockIdx.x) * blockDim.y * ROWS; start < blocks;
       start += step) {
    const BlockTile<T, KEEP, ROWS, EDGES> tile(x, start + threadIdx.y * ROWS, rows, cols, height,
                                               width);
    const auto largest = [](const RowPack<T>& pack, float most) {
#pragma unroll
      for (int j = 0; j < N; ++j) {
        most = max_or_nan(most, fabsf(to_float(pack.value[j])));
      }
      return most;
    };
    RowPack<T> values[ROWS][KEEP];
    tile.kept([&](int i, int k, long long place) { values[i][k] = load_pack<N>(x + place, 0); });
    float most[ROWS] = {};
    tile.rim([&](int i, long long place) {
      most[i] = max_or_nan(most[i], fabsf(to_float(x[place])));
    });
    tile.kept([&](int i, int k, long long) { most[i] = largest(values[i][k], most[i]); });
    tile.rest([&](int i, long long place) {
      most[i] = largest(load_pack<N>(x + place, 0), most[i]);
    });
    reduce.combine(most, 0.0F, [](float a, float b) { return max_or_nan(a, b); });

    const auto finish = [&](int i, long long place, const RowPack<T>& pack) {
      const float factor = 1.0F / scale_for<F>(most[i]);
      Pack<F, N> result;
#pragma unroll
      for (int j = 0; j < N; j += 2) {
        const float2 pair = {to_float(pack.value[j]) * factor, to_float(pack.value[j + 1]) * factor};
        const __nv_fp8x2_storage_t bits =
            __nv_cvt_float2_to_fp8x2(pair, __NV_SATFINITE, Float8<F>::k_kind);
        memcpy(&result.value[j], &bits, 2);
      }
      store_near<EDGES>(y + place, result);
    };
    tile.kept([&](int i, int k, long long place) { finish(i, place, fresh<T>(values[i][k])); });
    tile.rest([&](int i, long long place) { finish(i, place, load_pack<N>(x + place, 0)); });
    tile.rim([&](int i, long long place) {
      const float value = to_float(x[place]) * (1.0F / scale_for<F>(most[i]));
      const __nv_fp8_storage_t bits =
          __nv_cvt_float_to_fp8(value, __NV_SATFINITE, Float8<F>::k_kind);
      memcpy(&y[place], &bits, 1);
    });
#pragma unroll
    for (int i = 0; i < ROWS; ++i) {
      if (threadIdx.x == 0 && tile.high[i] > 0) {
        scale[tile.first + i] = scale_for<F>(most[i]);
      }
    }
  }
}

template <typename T, typename F>
__global__ void quantize_f8_ref(F* y, float* scale, const T* x, long long rows, long long cols,
                                long long height, long long width) {
  const long long across = (cols + width - 1) / width;
  const long long blocks = (rows + height - 1) / height * across;
  for (long long block = blockIdx.x; block < blocks; block += gridDim.x) {
    const long long top = block / across * height;
    const long long left = block % across * width;
    const long long wide = min(width, cols - left);
    const auto place = [&](long long i) { return (top + i / wide) * cols + left + i % wide; };
    const long long count = min(height, rows - top) * wide;
    const double largest = reference_max(
        count, [&](long long i) { return fabs(static_cast<double>(to_float(x[place(i)]))); });
    const float s = scale_for<F>(static_cast<float>(largest));
    for (long long i = threadIdx.x; i < count; i += blockDim.x) {
      const double quotient = to_float(x[place(i)]) / static_cast<double>(s);
      const __nv_fp8_storage_t bits =
          __nv_cvt_double_to_fp8(quotient, __NV_SATFINITE, Float8<F>::k_kind);
      memcpy(&y[place(i)], &bits, 1);
    }
    if (threadIdx.x == 0) {
      scale[block] = s;
    }
  }
}
