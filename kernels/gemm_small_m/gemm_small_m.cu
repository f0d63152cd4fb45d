// SPDX-License-Identifier: Apache-2.0
#include "cluster.cuh"
#include "epilogue.cuh"
#include "operand.cuh"
#include "tensor_core.cuh"

/// C = act(A * B^T + bias) + residual for few rows of A: A [m, k], B [n, k], C [m, n], row-major,
/// f32 accumulation; the epilogue as epilogue.cuh says.
///
/// Rows of B are the tensor cores' rows and those of A their columns, so that eight rows of A waste
/// nothing. A block computes BM rows x BN columns of C, BK of K at a time, STAGES in flight;
/// WARPS_N warps share the columns and WARPS_K the steps of a slice. The blocks of a cluster share
/// K; each adds up a part of the tile from all of them, in order. Elements a load: ALIGN (1, 2 or
/// 8). The grid has one cluster a tile of C; dynamic shared memory is the larger of STAGES * (BM +
/// BN) * BK * sizeof(T) and WARPS_K * BM * (BN + 4) * 4 bytes.
template <typename T, int BM, int BN, int BK, int STAGES, int WARPS_N, int WARPS_K, int ALIGN>
__global__ void __launch_bounds__(32 * WARPS_N * WARPS_K)
    gemm_small_m(T* c, const T* a, const T* b, const T* bias, const T* residual, int activation,
                 long long m, long long n, long long k) {
  constexpr int threads = 32 * WARPS_N * WARPS_K;
  constexpr int warp_n = BN / WARPS_N;
  constexpr int tiles_n = warp_n / 16;  // mma tiles of a warp: rows of B
  constexpr int tiles_m = BM / 8;       // rows of A
  constexpr int steps = BK / 16;
  constexpr int b_bytes = BN * BK * static_cast<int>(sizeof(T));
  constexpr int stage_bytes = b_bytes + BM * BK * static_cast<int>(sizeof(T));
  static_assert(steps % (2 * WARPS_K) == 0, "a warp takes pairs of steps");

  extern __shared__ __align__(128) unsigned char shared[];
  const unsigned base = shared_address(shared);
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp_k = warp / WARPS_N;
  const int warp_column = warp % WARPS_N * warp_n;
  const unsigned rank = cluster_rank();
  const unsigned blocks = cluster_blocks();
  const unsigned tile = blockIdx.x / blocks;
  const unsigned tiles_of_m = static_cast<unsigned>((m + BM - 1) / BM);
  // Neighbouring tiles read the same rows of B, the larger operand.
  const long long row0 = static_cast<long long>(tile % tiles_of_m) * BM;
  const long long column0 = static_cast<long long>(tile / tiles_of_m) * BN;

  const long long all_slices = (k + BK - 1) / BK;
  const long long share = (all_slices + blocks - 1) / blocks;
  const long long first = min(rank * share, all_slices);
  const int slices = static_cast<int>(min(share, all_slices - first));
  Operand<T, BN, BK, threads, ALIGN> operand_b(b, n, k, column0, k);
  Operand<T, BM, BK, threads, ALIGN> operand_a(a, m, k, row0, k);
  const auto start_slice = [&](int slice, int stage) {
    if (slice < slices) {
      operand_b.start(base + stage * stage_bytes, (first + slice) * BK);
      operand_a.start(base + stage * stage_bytes + b_bytes, (first + slice) * BK);
    }
    commit_copies();  // also when empty, so that groups and slices keep step
  };
  const auto finish_slice = [&](int slice, int stage) {
    if (slice < slices) {
      operand_b.finish(base + stage * stage_bytes);
      operand_a.finish(base + stage * stage_bytes + b_bytes);
    }
  };

  float sum[tiles_n][tiles_m][4] = {};
  const unsigned lane_b = chunk_offset<BK>(warp_column + lane % 16, lane / 16);
  // Four matrices of A: 16 rows and one step, or 8 rows and two.
  const unsigned lane_a =
      b_bytes + (BM == 8 ? chunk_offset<BK>(lane % 8, lane / 8)
                         : chunk_offset<BK>(lane / 16 * 8 + lane % 8, lane / 8 % 2));
  constexpr unsigned tile_bytes = 16 * BK * sizeof(T);

#pragma unroll
  for (int stage = 0; stage < STAGES - 1; ++stage) {
    start_slice(stage, stage);
    finish_slice(stage, stage);
  }
  int stage = 0;
  for (int slice = 0; slice < slices; ++slice) {
    wait_copies<STAGES - 2>();
    __syncthreads();  // this slice is there, and every warp is done with the one before
    const int free_stage = stage == 0 ? STAGES - 1 : stage - 1;
    start_slice(slice + STAGES - 1, free_stage);
    const unsigned stage_base = base + stage * stage_bytes;
#pragma unroll
    for (int i = 0; i < steps / WARPS_K; i += 2) {
      const int step = (i / 2 * WARPS_K + warp_k) * 2;
      unsigned fragment_b[2][tiles_n][4];
      unsigned fragment_a[2][tiles_m][2];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
#pragma unroll
        for (int j = 0; j < tiles_n; ++j) {
          load_matrices(fragment_b[half][j],
                        stage_base + (lane_b ^ (step + half) * 32) + j * tile_bytes);
        }
      }
      if constexpr (BM == 8) {
        unsigned both[4];
        load_matrices(both, stage_base + (lane_a ^ step * 32));
        fragment_a[0][0][0] = both[0];
        fragment_a[0][0][1] = both[1];
        fragment_a[1][0][0] = both[2];
        fragment_a[1][0][1] = both[3];
      } else {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
#pragma unroll
          for (int j = 0; j < tiles_m; j += 2) {
            unsigned both[4];
            load_matrices(both, stage_base + (lane_a ^ (step + half) * 32) + j / 2 * tile_bytes);
            fragment_a[half][j][0] = both[0];
            fragment_a[half][j][1] = both[1];
            fragment_a[half][j + 1][0] = both[2];
            fragment_a[half][j + 1][1] = both[3];
          }
        }
      }
#pragma unroll
      for (int half = 0; half < 2; ++half) {
#pragma unroll
        for (int i_n = 0; i_n < tiles_n; ++i_n) {
#pragma unroll
          for (int i_m = 0; i_m < tiles_m; ++i_m) {
            multiply_add<T>(sum[i_n][i_m], fragment_b[half][i_n], fragment_a[half][i_m][0],
                            fragment_a[half][i_m][1]);
          }
        }
      }
    }
    finish_slice(slice + STAGES - 1, free_stage);
    stage = stage + 1 == STAGES ? 0 : stage + 1;
  }

  // Sums go to shared memory as rows of C, four floats between rows to keep out of one another's
  // banks.
  wait_copies<0>();
  __syncthreads();
  constexpr int stride = BN + 4;
  float* part = reinterpret_cast<float*>(shared) + warp_k * BM * stride;
#pragma unroll
  for (int i_n = 0; i_n < tiles_n; ++i_n) {
#pragma unroll
    for (int i_m = 0; i_m < tiles_m; ++i_m) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int row = i_m * 8 + lane % 4 * 2 + e % 2;
        const int column = warp_column + i_n * 16 + lane / 4 + e / 2 * 8;
        part[row * stride + column] = sum[i_n][i_m][e];
      }
    }
  }
  cluster_sync();

  const Epilogue<T> epilogue{c, bias, residual, m, n, activation};
  const bool whole = epilogue.whole_chunks();
  const int rows = static_cast<int>(min(static_cast<long long>(BM), m - row0));
  for (int chunk = static_cast<int>(rank * threads + threadIdx.x); chunk < rows * (BN / 8);
       chunk += static_cast<int>(blocks) * threads) {
    const int row = chunk / (BN / 8);
    const int column = chunk % (BN / 8) * 8;
    float total[8] = {};
#pragma unroll 4
    for (unsigned from = 0; from < blocks; ++from) {
#pragma unroll
      for (int w = 0; w < WARPS_K; ++w) {
        const unsigned at = base + ((w * BM + row) * stride + column) * 4;
        const float4 low = load_from_block(at, from);
        const float4 high = load_from_block(at + 16, from);
        total[0] += low.x;
        total[1] += low.y;
        total[2] += low.z;
        total[3] += low.w;
        total[4] += high.x;
        total[5] += high.y;
        total[6] += high.z;
        total[7] += high.w;
      }
    }
    epilogue.store(total, row0 + row, column0 + column, whole);
  }
  cluster_sync();  // others may still read this block's sums
}

/// The same in float64, a thread an element.
template <typename T>
__global__ void gemm_small_m_ref(T* c, const T* a, const T* b, const T* bias, const T* residual,
                                 int activation, long long m, long long n, long long k) {
  const long long at = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at >= m * n) {
    return;
  }
  double sum = bias != nullptr ? to_float(bias[at % n]) : 0.0;
  for (long long i = 0; i < k; ++i) {
    sum += static_cast<double>(to_float(a[at / n * k + i])) * to_float(b[at % n * k + i]);
  }
  c[at] = from_float<T>(static_cast<float>(activate_ref(sum, activation) +
                                           (residual != nullptr ? to_float(residual[at]) : 0.0)));
}
