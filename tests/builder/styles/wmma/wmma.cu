// SPDX-License-Identifier: Apache-2.0
#include <mma.h>

using namespace nvcuda;

__global__ void tile(float* y, const __half* a, const __half* b, int n) {
  wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> left;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::col_major> right;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
  wmma::fill_fragment(sum, 0.0f);
  for (int k = 0; k < n; k += 16) {
    wmma::load_matrix_sync(left, a + k, n);
    wmma::load_matrix_sync(right, b + k, n);
    wmma::mma_sync(sum, left, right, sum);
  }
  wmma::store_matrix_sync(y, sum, 16, wmma::mem_row_major);
}
