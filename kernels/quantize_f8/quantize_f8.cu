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
  // The division, rounded as such, without the branches of one for any divisor.
  constexpr float k_share = 1.0F / Float8<F>::k_largest;
  const float near = largest * k_share;
  const float scale = fmaf(fmaf(-Float8<F>::k_largest, near, largest), k_share, near);
  return max_or_nan(largest == infinity() ? largest : scale, 1.175494351e-38F);
}

/// The block of one row that a thread works on, blocks being runs of memory: a RowTile, whose
/// places are x's.
template <typename T, int KEEP, bool EDGES>
struct RunTile : RowTile<T, KEEP, EDGES> {
  using Row = RowTile<T, KEEP, EDGES>;

  __device__ RunTile(const T* x, long long block, long long blocks, long long width)
      : Row(x, block, block * width, blocks, width) {}

  /// use(k, place): where in x the thread's pack k is.
  template <typename Use>
  __device__ void kept(Use use) const {
    Row::kept([&](int k, unsigned at) { use(k, this->start + at); });
  }

  /// use(place): each pack beyond the kept ones.
  template <typename Use>
  __device__ void rest(Use use) const {
#pragma unroll 2
    for (long long pack = threadIdx.x + KEEP * blockDim.x; pack < this->packs; pack += blockDim.x) {
      use(this->start + this->head + pack * k_pack<T>);
    }
  }

  /// use(place): an element that is in no pack.
  template <typename Use>
  __device__ void rim(Use use) const {
    Row::rim([&](long long c) { use(this->start + c); });
  }
};

/// The block of several rows that a thread works on. Its packs lie below one another, as many rows
/// apart as the thread block covers at once; blocks wider than a thread block are for `rest`.
template <typename T, int KEEP, bool EDGES>
struct BlockTile {
  static constexpr int N = k_pack<T>;
  const T* x;
  long long cols;
  long long origin;  ///< in x
  long long wide;
  long long tall;       ///< its rows; 0 past the last block
  long long high;       ///< those for this thread's packs: none where it has no place in a row
  long long row_packs;  ///< of a row, at most
  unsigned lanes;       ///< threads along a row
  unsigned right;       ///< the thread's place among them
  unsigned down;        ///< and its first row
  unsigned step;        ///< rows to its next one

  /// Block `block` of `blocks`, of which `across` lie side by side.
  __device__ BlockTile(const T* matrix, long long block, long long blocks, long long across,
                       long long rows, long long columns, long long height, long long width)
      : x(matrix), cols(columns) {
    const long long band = block / across;
    const long long nth = block - band * across;
    origin = band * height * cols + nth * width;
    wide = min(width, cols - nth * width);
    row_packs = width >= N ? width / N : 1;
    lanes = static_cast<unsigned>(min(row_packs, static_cast<long long>(blockDim.x)));
    step = blockDim.x / lanes;
    down = threadIdx.x / lanes;
    right = threadIdx.x - down * lanes;
    tall = block < blocks ? min(height, rows - band * height) : 0;
    high = down < step ? tall : 0;
  }

  /// use(place): where in x the pack `nth` of a row is, `base` the row's place, if the row has it.
  template <typename Use>
  __device__ void at_pack(long long base, long long nth, Use use) const {
    const long long c = nth * N + (EDGES ? head_of(x + base, wide) : 0);
    if (!EDGES || c + N <= wide) {
      use(base + c);
    }
  }

  /// use(k, place)
  template <typename Use>
  __device__ void kept(Use use) const {
    long long base = origin + down * cols;
    // Unknown to the compiler, lest it keep a place for every pack from one pass to the next.
    asm volatile("" : "+l"(base));
#pragma unroll
    for (int k = 0; k < KEEP; ++k) {
      if (down + k * step < high) {
        at_pack(base, right, [&](long long place) { use(k, place); });
      }
      base += step * cols;
    }
  }

  /// use(place)
  template <typename Use>
  __device__ void rest(Use use) const {
    for (long long nth = right; nth < row_packs; nth += lanes) {
#pragma unroll 1
      for (long long row = down + (nth == right ? KEEP * step : 0); row < high; row += step) {
        at_pack(origin + row * cols, nth, use);
      }
    }
  }

  /// use(place): an element that is in no pack.
  template <typename Use>
  __device__ void rim(Use use) const {
    if constexpr (EDGES) {
#pragma unroll 1
      for (long long j = threadIdx.x; j < tall * 2 * N; j += blockDim.x) {
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

/// Whether 64 registers are too few for eight packs of a block of several rows.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1000
constexpr bool k_few = true;
#else
constexpr bool k_few = false;
#endif

/// y[r, c] = f8(x[r, c] / s), s = scale[r / height, c / width] = the largest |x| of that block over
/// the largest f8. A block with a NaN is all NaN; one with an infinity has scale infinity, zeros,
/// and NaN for it.
///
/// There are `blocks` blocks, `across` side by side. blockDim.x threads share one, blockDim.y such
/// groups are in a thread block; a thread keeps its first KEEP packs in registers. Without EDGES x
/// is 16-byte aligned, y to k_pack<T> bytes, width is whole packs and divides cols.
template <typename T, typename F, bool RUNS, int KEEP, bool EDGES>
__global__ void __launch_bounds__(KEEP == 8 && (EDGES || (!RUNS && k_few)) ? 512 : 1024, 1)
    quantize_f8(F* y, float* scale, const T* x, long long rows, long long cols, long long height,
                long long width, long long blocks, long long across) {
  constexpr int N = k_pack<T>;
  __shared__ float scratch[RowReduce::k_scratch];
  RowReduce reduce(scratch);
  const long long step = static_cast<long long>(gridDim.x) * blockDim.y;

  for (long long start = static_cast<long long>(blockIdx.x) * blockDim.y; start < blocks;
       start += step) {
    const long long block = start + threadIdx.y;
    const auto tile = [&] {
      if constexpr (RUNS) {
        return RunTile<T, KEEP, EDGES>(x, block, blocks, width);
      } else {
        return BlockTile<T, KEEP, EDGES>(x, block, blocks, across, rows, cols, height, width);
      }
    }();
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
    const float factor = fast_reciprocal(s);
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
    if (threadIdx.x == 0 && block < blocks) {
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
