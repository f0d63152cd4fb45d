// SPDX-License-Identifier: Apache-2.0
#include "row.cuh"
#include "row_reduce.cuh"
#include "row_reference.cuh"
#include <cuda_fp8.h>

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

/// Where a thread's packs lie in blocks of several rows: it goes from one to the next without
/// dividing.
struct BlockWalk {
  long long down;       ///< row of the thread's first pack
  long long right;      ///< and its place in that row, in packs
  long long step_down;  ///< to the pack blockDim.x further
  long long step_right;
  long long row_packs;  ///< of a row, at most

  __device__ explicit BlockWalk(long long packs) : row_packs(packs) {
    // More packs than threads: all the same to these divisions, so that they are of 32 bits.
    const unsigned few = static_cast<unsigned>(min(packs, 1LL << 20));
    down = threadIdx.x / few;
    right = threadIdx.x % few;
    step_down = blockDim.x / few;
    step_right = blockDim.x % few;
  }

  __device__ void next() {
    down += step_down;
    right += step_right;
    if (right >= row_packs) {
      right -= row_packs;
      ++down;
    }
  }
};

/// The block of a matrix that a thread works on: RowTile, for blocks of several rows.
template <typename T, int KEEP, bool EDGES>
struct BlockTile {
  static constexpr int N = k_pack<T>;
  const T* x;
  const BlockWalk& walk;
  long long cols;
  long long origin;  ///< in x
  long long wide;
  long long high;  ///< 0 past the last block

  /// Block `block` of `blocks`, of which `across` lie side by side.
  __device__ BlockTile(const T* matrix, const BlockWalk& w, long long block, long long blocks,
                       long long across, long long rows, long long columns, long long height,
                       long long width)
      : x(matrix), walk(w), cols(columns) {
    if (height == 1 && across * width == cols) {
      origin = block * width;
      wide = width;
      high = block < blocks ? 1 : 0;
      return;
    }
    const long long down = block / across;
    const long long right = block - down * across;
    origin = down * height * cols + right * width;
    wide = min(width, cols - right * width);
    high = block < blocks ? min(height, rows - down * height) : 0;
  }

  /// use(place): where in x the pack at `at` is, if the block has it.
  template <typename Use>
  __device__ void at_pack(const BlockWalk& at, Use use) const {
    if (at.down < high) {
      const long long base = origin + at.down * cols;
      const long long c = at.right * N + (EDGES ? head_of(x + base, wide) : 0);
      if (!EDGES || c + N <= wide) {
        use(base + c);
      }
    }
  }

  /// use(k, place)
  template <typename Use>
  __device__ void kept(Use use) const {
    BlockWalk at = walk;
#pragma unroll
    for (int k = 0; k < KEEP; ++k) {
      at_pack(at, [&](long long place) { use(k, place); });
      at.next();
    }
  }

  /// use(place)
  template <typename Use>
  __device__ void rest(Use use) const {
    BlockWalk at = walk;
#pragma unroll
    for (int k = 0; k < KEEP; ++k) {
      at.next();
    }
#pragma unroll 1
    for (; at.down < high; at.next()) {
      at_pack(at, use);
    }
  }

  /// use(place): an element that is in no pack.
  template <typename Use>
  __device__ void rim(Use use) const {
    if constexpr (EDGES) {
#pragma unroll 1
      for (long long j = threadIdx.x; j < high * 2 * N; j += blockDim.x) {
        const long long base = origin + j / (2 * N) * cols;
        const int nth = static_cast<int>(j % (2 * N));
        const int head = head_of(x + base, wide);
        const long long body = (wide - head) / N * N;
        if (nth < wide - body) {
          use(base + (nth < head ? nth : nth + body));
        }
      }
    }
  }
};

/// y[r, c] = f8(x[r, c] / s), s = scale[r / height, c / width] = the largest |x| of that block over
/// the largest f8. A block with a NaN is all NaN; one with an infinity has scale infinity, zeros,
/// and NaN for it.
///
/// There are `blocks` blocks, `across` side by side. blockDim.x threads share one, blockDim.y such
/// groups are in a thread block; a thread keeps its first KEEP packs in registers. Without EDGES x
/// is 16-byte aligned, y to k_pack<T> bytes, width is whole packs and divides cols.
template <typename T, typename F, int KEEP, bool EDGES>
__global__ void __launch_bounds__(KEEP == 8 || EDGES ? 512 : 1024, 1)
    quantize_f8(F* y, float* scale, const T* x, long long rows, long long cols, long long height,
                long long width, long long blocks, long long across) {
  constexpr int N = k_pack<T>;
  __shared__ float scratch[RowReduce::k_scratch];
  RowReduce reduce(scratch);
  const BlockWalk walk(width >= N ? width / N : 1);
  const long long step = static_cast<long long>(gridDim.x) * blockDim.y;

  for (long long start = static_cast<long long>(blockIdx.x) * blockDim.y; start < blocks;
       start += step) {
    const long long block = start + threadIdx.y;
    const BlockTile<T, KEEP, EDGES> tile(x, walk, block, blocks, across, rows, cols, height, width);
    const auto largest = [](const RowPack<T>& pack, float most) {
      float values[N];
      unpack(pack, values);
#pragma unroll
      for (int j = 0; j < N; ++j) {
        most = max_or_nan(most, fabsf(values[j]));
      }
      return most;
    };
    RowPack<T> values[KEEP];
    tile.kept([&](int k, long long place) { values[k] = load_pack<N>(x + place, 0); });
    float most = 0.0F;
    tile.rim([&](long long place) { most = max_or_nan(most, fabsf(to_float(x[place]))); });
    tile.kept([&](int k, long long) { most = largest(values[k], most); });
    tile.rest([&](long long place) { most = largest(load_pack<N>(x + place, 0), most); });
    most = reduce.combine(most, 0.0F, [](float a, float b) { return max_or_nan(a, b); });

    const float s = scale_for<F>(most);
    const float factor = 1.0F / s;
    const auto finish = [&](long long place, const RowPack<T>& pack) {
      float values[N];
      unpack(pack, values);
      Pack<F, N> result;
#pragma unroll
      for (int j = 0; j < N; j += 2) {
        const float2 pair = {values[j] * factor, values[j + 1] * factor};
        const __nv_fp8x2_storage_t bits =
            __nv_cvt_float2_to_fp8x2(pair, __NV_SATFINITE, Float8<F>::k_kind);
        memcpy(&result.value[j], &bits, 2);
      }
      store_near<EDGES>(y + place, result);
    };
    tile.kept([&](int k, long long place) { finish(place, fresh<T>(values[k])); });
    tile.rest([&](long long place) { finish(place, load_pack<N>(x + place, 0)); });
    tile.rim([&](long long place) {
      const __nv_fp8_storage_t bits =
          __nv_cvt_float_to_fp8(to_float(x[place]) * factor, __NV_SATFINITE, Float8<F>::k_kind);
      memcpy(&y[place], &bits, 1);
    });
    if (threadIdx.x == 0 && tile.high > 0) {
      scale[block] = s;
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
