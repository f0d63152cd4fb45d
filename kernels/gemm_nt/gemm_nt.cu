// SPDX-License-Identifier: Apache-2.0
#include "tensor_core.cuh"
#include "vector.cuh"

/// Where the 16-byte chunks of an operand's tile lie in shared memory: ROWS rows of BK elements,
/// each row BK / 8 chunks. A chunk's place is XORed with its row, so that the eight rows one
/// ldmatrix reads lie in different banks.
template <int BK>
__device__ inline unsigned chunk_offset(int row, int chunk) {
  constexpr int chunks = BK / 8;
  constexpr int rows_a_line = 8 / chunks;  // rows that share the 128 bytes of all banks
  const int swizzle = row / rows_a_line % chunks;
  return static_cast<unsigned>((row * chunks + (chunk ^ swizzle)) * 16);
}

/// Copies one operand's share of a block's tile, ROWS x BK elements at (row0, k) of a row-major
/// [rows, k_size] matrix, to shared memory, by THREADS threads with ALIGN elements a load. What
/// lies outside the matrix becomes zeros. `start` begins a copy that is there after the copies were
/// waited for and `finish` was called.
template <typename T, int ROWS, int BK, int THREADS, int ALIGN>
struct Operand {
  static constexpr int k_chunks = BK / 8;
  static constexpr int k_rows_a_pass = THREADS / k_chunks;
  static_assert(THREADS % k_chunks == 0 && ROWS % k_rows_a_pass == 0, "passes must be whole");

  const T* source;  ///< this thread's first chunk of the tile at k = 0
  long long k_size;
  long long row_step;  ///< elements between the rows of two passes
  int rows_left;       ///< rows of the matrix from this thread's first one on
  int row;
  int column;

  __device__ Operand(const T* matrix, long long rows, long long k_size_, long long row0)
      : k_size(k_size_),
        row_step(k_rows_a_pass * k_size_),
        row(static_cast<int>(threadIdx.x) / k_chunks),
        column(static_cast<int>(threadIdx.x) % k_chunks * 8) {
    source = matrix + (row0 + row) * k_size + column;
    const long long left = rows - row0 - row;
    rows_left = static_cast<int>(left < ROWS ? left : ROWS);
  }

  __device__ void start(unsigned to, long long k) {
    const long long k_left = k_size - k - column;
#pragma unroll
    for (int pass = 0; pass < ROWS / k_rows_a_pass; ++pass) {
      const bool inside = pass * k_rows_a_pass < rows_left;
      const T* from = source + pass * row_step + k;
      const unsigned at = to + chunk_offset<BK>(row + pass * k_rows_a_pass, column / 8);
#pragma unroll
      for (int i = 0; i < 8; i += ALIGN) {
        copy_async<ALIGN* static_cast<int>(sizeof(T))>(at + i * sizeof(T), from + i,
                                                       inside && i < k_left);
      }
    }
  }

  __device__ void finish(unsigned) {}
};

/// Single elements cannot be copied asynchronously: they wait in registers while the tensor cores
/// work. A warp loads a row, so that its loads and stores are whole.
template <typename T, int ROWS, int BK, int THREADS>
struct Operand<T, ROWS, BK, THREADS, 1> {
  static constexpr int k_rows_a_pass = THREADS / 32;
  static_assert(BK == 32 && ROWS % k_rows_a_pass == 0, "a row must be a warp's, passes whole");

  const T* source;  ///< this lane's element of the warp's first row at k = 0
  long long k_size;
  int rows_left;
  int row;
  int column;
  unsigned short held[ROWS / k_rows_a_pass];

  __device__ Operand(const T* matrix, long long rows, long long k_size_, long long row0)
      : k_size(k_size_),
        row(static_cast<int>(threadIdx.x) / 32),
        column(static_cast<int>(threadIdx.x) % 32) {
    source = matrix + (row0 + row) * k_size + column;
    const long long left = rows - row0 - row;
    rows_left = static_cast<int>(left < ROWS ? left : ROWS);
  }

  __device__ void start(unsigned, long long k) {
    const int limit = k + column < k_size ? rows_left : 0;
    const unsigned short* from = reinterpret_cast<const unsigned short*>(source + k);
#pragma unroll
    for (int pass = 0; pass < ROWS / k_rows_a_pass; ++pass) {
      held[pass] = pass * k_rows_a_pass < limit ? *from : 0U;
      from += k_rows_a_pass * k_size;
    }
  }

  __device__ void finish(unsigned to) {
#pragma unroll
    for (int pass = 0; pass < ROWS / k_rows_a_pass; ++pass) {
      const unsigned at =
          to + chunk_offset<BK>(row + pass * k_rows_a_pass, column / 8) + column % 8 * sizeof(T);
      asm volatile("st.shared.u16 [%0], %1;" ::"r"(at), "h"(held[pass]) : "memory");
    }
  }
};

/// C = A * B^T with A [m, k], B [n, k] and C [m, n] row-major, f32 accumulation.
///
/// A block of WARPS_M x WARPS_N warps computes BM x BN elements of C, a BK-wide slice of K at a
/// time; STAGES slices are in flight. Elements a load: ALIGN (1, 2 or 8); K must divide by it and A
/// and B be aligned to it. The grid has one block a tile of C; dynamic shared memory is STAGES *
/// (BM + BN) * BK * sizeof(T) bytes.
template <typename T, int BM, int BN, int BK, int STAGES, int WARPS_M, int WARPS_N, int ALIGN>
__global__ void __launch_bounds__(32 * WARPS_M * WARPS_N)
    gemm_nt(T* c, const T* a, const T* b, long long m, long long n, long long k) {
  constexpr int threads = 32 * WARPS_M * WARPS_N;
  constexpr int warp_m = BM / WARPS_M;
  constexpr int warp_n = BN / WARPS_N;
  constexpr int tiles_m = warp_m / 16;  // mma tiles of a warp
  constexpr int tiles_n = warp_n / 8;
  constexpr int steps = BK / 16;  // mma steps of a stage
  static_assert(steps % 2 == 0, "fragments alternate between two buffers");
  static_assert(tiles_n % 2 == 0, "B is loaded two mma tiles at once");
  constexpr int a_bytes = BM * BK * static_cast<int>(sizeof(T));
  constexpr int stage_bytes = a_bytes + BN * BK * static_cast<int>(sizeof(T));
  // C leaves through the same memory; eight elements between rows keep its writes free of
  // conflicts.
  constexpr int c_stride = BN + 8;
  static_assert(BM * c_stride * static_cast<int>(sizeof(T)) <= STAGES * stage_bytes,
                "a tile of C must fit in the stages");

  extern __shared__ __align__(128) unsigned char shared[];
  const unsigned base = shared_address(shared);
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp_row = warp / WARPS_N * warp_m;
  const int warp_column = warp % WARPS_N * warp_n;

  // Blocks that run together take tiles from a few rows of tiles, so that their operands meet in
  // L2.
  constexpr unsigned group_rows = 8;
  const unsigned grid_m = static_cast<unsigned>((m + BM - 1) / BM);
  const unsigned grid_n = static_cast<unsigned>((n + BN - 1) / BN);
  const unsigned long long group_size = static_cast<unsigned long long>(group_rows) * grid_n;
  const unsigned group = static_cast<unsigned>(blockIdx.x / group_size);
  const unsigned in_group = static_cast<unsigned>(blockIdx.x % group_size);
  const unsigned rows_here = min(grid_m - group * group_rows, group_rows);
  const long long row0 = static_cast<long long>(group * group_rows + in_group % rows_here) * BM;
  const long long column0 = static_cast<long long>(in_group / rows_here) * BN;

  Operand<T, BM, BK, threads, ALIGN> operand_a(a, m, k, row0);
  Operand<T, BN, BK, threads, ALIGN> operand_b(b, n, k, column0);
  const long long slices = (k + BK - 1) / BK;
  const auto start_slice = [&](long long slice, int stage) {
    if (slice < slices) {
      operand_a.start(base + stage * stage_bytes, slice * BK);
      operand_b.start(base + stage * stage_bytes + a_bytes, slice * BK);
    }
    commit_copies();  // also when empty, so that groups and slices keep step
  };
  const auto finish_slice = [&](long long slice, int stage) {
    if (slice < slices) {
      operand_a.finish(base + stage * stage_bytes);
      operand_b.finish(base + stage * stage_bytes + a_bytes);
    }
  };

  unsigned fragment_a[2][tiles_m][4];
  unsigned fragment_b[2][tiles_n / 2][4];
  const auto load_fragments = [&](int buffer, int stage, int step) {
    const unsigned stage_a = base + stage * stage_bytes;
    const unsigned stage_b = stage_a + a_bytes;
#pragma unroll
    for (int i = 0; i < tiles_m; ++i) {
      const int row = warp_row + i * 16 + lane % 16;
      load_matrices(fragment_a[buffer][i], stage_a + chunk_offset<BK>(row, step * 2 + lane / 16));
    }
#pragma unroll
    for (int j = 0; j < tiles_n / 2; ++j) {
      const int row = warp_column + j * 16 + lane / 16 * 8 + lane % 8;
      load_matrices(fragment_b[buffer][j],
                    stage_b + chunk_offset<BK>(row, step * 2 + lane / 8 % 2));
    }
  };

  float sum[tiles_m][tiles_n][4] = {};
#pragma unroll
  for (int stage = 0; stage < STAGES - 1; ++stage) {
    start_slice(stage, stage);
    finish_slice(stage, stage);
  }
  wait_copies<STAGES - 2>();
  __syncthreads();
  load_fragments(0, 0, 0);

  int stage = 0;                // of the slice being multiplied
  int free_stage = STAGES - 1;  // of the slice to copy next
  for (long long slice = 0; slice < slices; ++slice) {
#pragma unroll
    for (int step = 0; step < steps; ++step) {
      if (step == steps - 1) {
        finish_slice(slice + STAGES - 1, free_stage);
        free_stage = free_stage + 1 == STAGES ? 0 : free_stage + 1;
        // The next slice has arrived, and every warp has read the last of this one.
        wait_copies<STAGES - 2>();
        __syncthreads();
        stage = stage + 1 == STAGES ? 0 : stage + 1;
      }
      load_fragments((step + 1) % 2, stage, (step + 1) % steps);
      if (step == 0) {
        start_slice(slice + STAGES - 1, free_stage);
      }
#pragma unroll
      for (int i = 0; i < tiles_m; ++i) {
#pragma unroll
        for (int j = 0; j < tiles_n; ++j) {
          multiply_add<T>(sum[i][j], fragment_a[step % 2][i],
                          fragment_b[step % 2][j / 2][j % 2 * 2],
                          fragment_b[step % 2][j / 2][j % 2 * 2 + 1]);
        }
      }
    }
  }

  wait_copies<0>();
  __syncthreads();
  T* tile = reinterpret_cast<T*>(shared);
#pragma unroll
  for (int i = 0; i < tiles_m; ++i) {
#pragma unroll
    for (int j = 0; j < tiles_n; ++j) {
      const int row = warp_row + i * 16 + lane / 4;
      const int column = warp_column + j * 8 + lane % 4 * 2;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const Pack<T, 2> pair{from_float<T>(sum[i][j][half * 2]),
                              from_float<T>(sum[i][j][half * 2 + 1])};
        store_pack(tile, ((row + half * 8) * c_stride + column) / 2, pair);
      }
    }
  }
  __syncthreads();

  const bool whole_chunks = n % 8 == 0 && reinterpret_cast<unsigned long long>(c) % 16 == 0;
  for (int chunk = static_cast<int>(threadIdx.x); chunk < BM * BN / 8; chunk += threads) {
    const int row = chunk / (BN / 8);
    const int column = chunk % (BN / 8) * 8;
    if (row0 + row >= m || column0 + column >= n) {
      continue;
    }
    T* to = c + (row0 + row) * n + column0 + column;
    const Pack<T, 8> values = load_pack<8>(tile, (row * c_stride + column) / 8);
    if (whole_chunks) {
      store_pack(to, 0, values);
    } else {
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        if (column0 + column + i < n) {
          to[i] = values.value[i];
        }
      }
    }
  }
}

/// The same in float64, a thread an element.
template <typename T>
__global__ void gemm_nt_ref(T* c, const T* a, const T* b, long long m, long long n, long long k) {
  const long long at = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at >= m * n) {
    return;
  }
  const T* row = a + at / n * k;
  const T* column = b + at % n * k;
  double sum = 0.0;
  for (long long i = 0; i < k; ++i) {
    sum += static_cast<double>(to_float(row[i])) * to_float(column[i]);
  }
  c[at] = from_float<T>(static_cast<float>(sum));
}
