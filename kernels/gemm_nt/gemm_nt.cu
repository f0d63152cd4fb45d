// SPDX-License-Identifier: Apache-2.0
#include "gemm_warpgroups.cuh"
#include "gemm_warps.cuh"

/// C = act(A * B^T + bias) + residual with A [m, k], B [n, k] and C [m, n] row-major, f32
/// accumulation; the epilogue as epilogue.cuh says.
///
/// A block computes BM x BN elements of C with WARPS warps, a BK-wide slice of K at a time; STAGES
/// slices are in flight. Elements a load: ALIGN (1, 2 or 8); K must divide by it and A and B be
/// aligned to it. The grid has one block a tile of C; dynamic shared memory is STAGES * (BM + BN) *
/// BK * sizeof(T) bytes. WGMMA 1 is for sm_90a, with BK 64, ALIGN 8, four more warps and 128 more
/// bytes.
template <typename T, int BM, int BN, int BK, int STAGES, int WARPS, int ALIGN, int WGMMA>
__global__ void __launch_bounds__(32 * WARPS + 128 * WGMMA, 1)
    gemm_nt(T* c, const T* a, const T* b, const T* bias, const T* residual, int activation,
            long long m, long long n, long long k) {
  extern __shared__ __align__(1024) unsigned char shared[];
  if constexpr (WGMMA == 0) {
    multiply_by_warps<T, BM, BN, BK, STAGES, WARPS, ALIGN>(shared, c, a, b, bias, residual,
                                                           activation, m, n, k);
  } else {
    multiply_by_warpgroups<T, BM, BN, STAGES, WARPS>(shared, c, a, b, bias, residual, activation, m,
                                                     n, k);
  }
}

/// The same in float64, a thread an element.
template <typename T>
__global__ void gemm_nt_ref(T* c, const T* a, const T* b, const T* bias, const T* residual,
                            int activation, long long m, long long n, long long k) {
  const long long at = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at >= m * n) {
    return;
  }
  const T* row = a + at / n * k;
  const T* column = b + at % n * k;
  double sum = bias != nullptr ? to_float(bias[at % n]) : 0.0;
  for (long long i = 0; i < k; ++i) {
    sum += static_cast<double>(to_float(row[i])) * to_float(column[i]);
  }
  c[at] = from_float<T>(static_cast<float>(activate_ref(sum, activation) +
                                           (residual != nullptr ? to_float(residual[at]) : 0.0)));
}
