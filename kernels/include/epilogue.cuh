// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "vector.cuh"

/// What is done to a product's sums before they are rounded, once, and stored:
/// c = act(sum + bias[column]) + residual[row, column]. Pointers may be null; residual may be c.
/// Activations: 0 none, 1 SiLU x / (1 + exp(-x)), 2 GELU x * (1 + erf(x / sqrt(2))) / 2, 3 its tanh
/// form x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))) / 2 (Hendrycks and Gimpel 2016).
template <typename T>
struct Epilogue {
  T* c;
  const T* bias;
  const T* residual;
  long long rows;
  long long columns;
  int activation;

  __device__ bool whole_chunks() const {
    const auto bits = reinterpret_cast<unsigned long long>(c) |
                      reinterpret_cast<unsigned long long>(bias) |
                      reinterpret_cast<unsigned long long>(residual);
    return columns % 8 == 0 && bits % 16 == 0;
  }

  static __device__ float activate(float x, int kind) {
    if (kind == 1) {
      return x / (1.0F + __expf(-x));
    }
    if (kind == 2) {
      return 0.5F * x * (1.0F + erff(x * 0.70710678F));
    }
    const float inner = 0.79788456F * (x + 0.044715F * x * x * x);
    return 0.5F * x * (1.0F + tanhf(inner));
  }

  /// Finishes and stores eight neighbouring sums of a row; `whole` is whole_chunks(). What lies
  /// outside the matrix is left alone.
  __device__ void store(float (&sum)[8], long long row, long long column, bool whole) const {
    if (row >= rows || column >= columns) {
      return;
    }
    const long long at = row * columns + column;
    const int count = columns - column < 8 ? static_cast<int>(columns - column) : 8;
    if (bias != nullptr) {
      add(sum, bias, column, count, whole);
    }
    if (activation != 0) {
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        sum[i] = activate(sum[i], activation);
      }
    }
    if (residual != nullptr) {
      add(sum, residual, at, count, whole);
    }
    Pack<T, 8> result;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      result.value[i] = from_float<T>(sum[i]);
    }
    if (whole) {
      store_pack(c, at / 8, result);
      return;
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      if (i < count) {
        c[at + i] = result.value[i];
      }
    }
  }

  static __device__ void add(float (&sum)[8], const T* from, long long at, int count, bool whole) {
    Pack<T, 8> values{};
    if (whole) {
      values = load_pack<8>(from, at / 8);
    } else {
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        if (i < count) {
          values.value[i] = from[at + i];
        }
      }
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      sum[i] += to_float(values.value[i]);
    }
  }
};

/// Epilogue::activate in float64.
__device__ inline double activate_ref(double x, int kind) {
  if (kind == 1) {
    return x / (1.0 + exp(-x));
  }
  if (kind == 2) {
    return 0.5 * x * (1.0 + erf(x * 0.70710678118654752));
  }
  if (kind == 3) {
    return 0.5 * x * (1.0 + tanh(0.79788456080286536 * (x + 0.044715 * x * x * x)));
  }
  return x;
}
