// SPDX-License-Identifier: Apache-2.0
#include "row.cuh"
#include "row_reduce.cuh"
#include "row_reference.cuh"

/// loss[r] = lse[r] - x[r, target[r]], lse[r] = log of the sum over c of e^x[r, c]; loss is 0 where
/// the target is `ignore`, NaN where it is no column. `lse` may be null. One pass: each thread
/// keeps the largest value it has met and the sum relative to it, over KEEP packs at a time.
/// Without EDGES x is 16-byte aligned and cols is whole packs.
template <typename T, int KEEP, bool EDGES>
__global__ void __launch_bounds__(1024, 1)
    cross_entropy(float* loss, float* lse, const T* __restrict__ x,
                  const long long* __restrict__ target, long long rows, long long cols,
                  long long ignore) {
  constexpr int N = k_pack<T>;
  constexpr float k_lowest = -3.402823466e38F;  // finite: differences of two are never NaN
  __shared__ float scratch[RowReduce::k_scratch];
  RowReduce reduce(scratch);
  const T nothing = from_float<T>(-infinity());
  const long long step = static_cast<long long>(gridDim.x) * blockDim.y;

  for (long long first = static_cast<long long>(blockIdx.x) * blockDim.y; first < rows;
       first += step) {
    const long long row = first + threadIdx.y;
    const T* in = x + row * cols;
    const long long n = row < rows ? cols : 0;
    const int head = EDGES ? head_of(in, n) : 0;
    const long long packs = (n - head) / N;
    float most = k_lowest;
    float sum = 0.0F;
    for (long long start = threadIdx.x; start < packs; start += KEEP * blockDim.x) {
      RowPack<T> kept[KEEP];
#pragma unroll
      for (int k = 0; k < KEEP; ++k) {
        const long long pack = start + k * blockDim.x;
        if (pack < packs) {
          kept[k] = load_pack<N>(in + head, pack);
        } else {
#pragma unroll
          for (int j = 0; j < N; ++j) {
            kept[k].value[j] = nothing;
          }
        }
      }
      float higher = most;
#pragma unroll
      for (int k = 0; k < KEEP; ++k) {
        float values[N];
        unpack(kept[k], values);
#pragma unroll
        for (int j = 0; j < N; ++j) {
          higher = fmaxf(higher, values[j]);
        }
      }
      sum *= fast_exp(most - higher);
      most = higher;
#pragma unroll
      for (int k = 0; k < KEEP; ++k) {
        float values[N];
        unpack(kept[k], values);
#pragma unroll
        for (int j = 0; j < N; ++j) {
          sum += fast_exp(values[j] - most);
        }
      }
    }
    if constexpr (EDGES) {
#pragma unroll 1
      for (long long j = threadIdx.x; j < n - packs * N; j += blockDim.x) {
        const float value = to_float(in[j < head ? j : j + packs * N]);
        const float higher = fmaxf(most, value);
        sum = sum * fast_exp(most - higher) + fast_exp(value - higher);
        most = higher;
      }
    }
    const float all = reduce.max(most);
    const float total = reduce.sum(sum * fast_exp(most - all));
    if (threadIdx.x == 0 && row < rows) {
      const float log_sum = all + logf(total);
      const long long wanted = target[row];
      float result = __int_as_float(0x7fffffff);
      if (wanted == ignore) {
        result = 0.0F;
      } else if (inside(wanted, cols)) {
        result = log_sum - to_float(in[wanted]);
      }
      loss[row] = result;
      if (lse != nullptr) {
        lse[row] = log_sum;
      }
    }
  }
}

template <typename T>
__global__ void cross_entropy_ref(float* loss, float* lse, const T* x, const long long* target,
                                  long long rows, long long cols, long long ignore) {
  for (long long row = blockIdx.x; row < rows; row += gridDim.x) {
    const T* in = x + row * cols;
    const double most =
        reference_max(cols, [&](long long c) { return static_cast<double>(to_float(in[c])); });
    const double log_sum =
        most + log(reference_sum(cols, [&](long long c) { return exp(to_float(in[c]) - most); }));
    if (threadIdx.x == 0) {
      const long long wanted = target[row];
      double result = __int_as_float(0x7fffffff);
      if (wanted == ignore) {
        result = 0.0;
      } else if (inside(wanted, cols)) {
        result = log_sum - to_float(in[wanted]);
      }
      loss[row] = static_cast<float>(result);
      if (lse != nullptr) {
        lse[row] = static_cast<float>(log_sum);
      }
    }
  }
}

/// Makes targets columns: i becomes i mod cols.
__global__ void cross_entropy_targets(long long* target, long long rows, long long cols) {
  for (long long row = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; row < rows;
       row += static_cast<long long>(gridDim.x) * blockDim.x) {
    target[row] = cols > 0 ? target[row] % cols : -1;
  }
}
