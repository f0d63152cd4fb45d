// SPDX-License-Identifier: Apache-2.0
#include "row_norm.cuh"

/// y[r, c] = x[r, c] / sqrt(sum over c of x[r, c]^2 + eps). Threads, VEC and KEEP: row_norm.cuh.
template <typename T, int VEC, int KEEP>
__global__ void __launch_bounds__(1024)
    l2norm(T* y, const T* x, long long rows, long long cols, float eps) {
  normalise_rows<T, VEC, KEEP>(
      y, x, rows, cols, [=](float sum) { return rsqrtf(sum + eps); },
      [=](const Pack<T, VEC>& values, float factor, long long) {
        Pack<T, VEC> result;
#pragma unroll
        for (int i = 0; i < VEC; ++i) {
          result.value[i] = from_float<T>(to_float(values.value[i]) * factor);
        }
        return result;
      });
}

template <typename T>
__global__ void l2norm_ref(T* y, const T* x, long long rows, long long cols, float eps) {
  normalise_rows_ref(
      y, x, cols, [=](double sum) { return 1.0 / sqrt(sum + eps); },
      [=](double value, double factor, long long) { return value * factor; });
}
