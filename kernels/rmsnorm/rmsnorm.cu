// SPDX-License-Identifier: Apache-2.0
#include "row_norm.cuh"

/// y[r, c] = x[r, c] / sqrt(mean over c of x[r, c]^2 + eps) * w[c]. Threads, VEC and KEEP:
/// row_norm.cuh; w must be aligned to VEC elements too.
template <typename T, int VEC, int KEEP>
__global__ void __launch_bounds__(1024)
    rmsnorm(T* y, const T* x, const T* __restrict__ w, long long rows, long long cols, float eps) {
  normalise_rows<T, VEC, KEEP>(
      y, x, rows, cols, [=](float sum) { return rsqrtf(sum / static_cast<float>(cols) + eps); },
      [=](const Pack<T, VEC>& values, float factor, long long at) {
        const Pack<T, VEC> weight = load_pack<VEC>(w, at);
        Pack<T, VEC> result;
#pragma unroll
        for (int i = 0; i < VEC; ++i) {
          result.value[i] =
              from_float<T>(to_float(values.value[i]) * factor * to_float(weight.value[i]));
        }
        return result;
      });
}

template <typename T>
__global__ void rmsnorm_ref(T* y, const T* x, const T* w, long long rows, long long cols,
                            float eps) {
  normalise_rows_ref(
      y, x, cols, [=](double sum) { return 1.0 / sqrt(sum / static_cast<double>(cols) + eps); },
      [=](double value, double factor, long long c) { return value * factor * to_float(w[c]); });
}
