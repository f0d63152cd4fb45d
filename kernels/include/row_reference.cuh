// SPDX-License-Identifier: Apache-2.0
#pragma once

// What candidates are checked against: float64, a block of at most 1024 threads a row, nothing clever.

/// Combines term(0) … term(n - 1) over the block and gives the result to every thread of it. The order is
/// fixed by the block's size.
template <typename Term, typename Combine>
__device__ inline double reference_reduce(long long n, double identity, Term term,
                                          Combine combine) {
  __shared__ double parts[1024];
  double mine = identity;
  for (long long c = threadIdx.x; c < n; c += blockDim.x) {
    mine = combine(mine, term(c));
  }
  __syncthreads();
  parts[threadIdx.x] = mine;
  __syncthreads();
  double all = identity;
  for (unsigned i = 0; i < blockDim.x; ++i) {
    all = combine(all, parts[i]);
  }
  return all;
}

template <typename Term>
__device__ inline double reference_sum(long long n, Term term) {
  return reference_reduce(n, 0.0, term, [](double a, double b) { return a + b; });
}

/// NaN when any term is.
template <typename Term>
__device__ inline double reference_max(long long n, Term term) {
  return reference_reduce(n, -static_cast<double>(infinity()), term,
                          [](double a, double b) { return a > b || isnan(a) ? a : b; });
}

__device__ inline double reference_silu(double x) {
  return x / (1.0 + exp(-x));
}
