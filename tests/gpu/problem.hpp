// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace cubinary::gpu {

/// One call of a kernel, its inputs and what must come out.
struct Problem {
  std::string kernel;
  std::string dtype;
  std::vector<std::pair<std::string, std::int64_t>> axes;
  /// Pointer arguments after the output, in order: name and values, already rounded to dtype.
  std::vector<std::pair<std::string, std::vector<float>>> inputs;
  std::string output;            ///< name of the output argument, the first
  std::vector<double> expected;  ///< computed in float64 on the CPU
  bool takes_eps = false;
  std::optional<float> eps;     ///< none: the kernel's own default
  bool takes_residual = false;  ///< not used
  bool takes_epilogue = false;  ///< bias, residual and activation, none of them used
};

/// rmsnorm: y = x / sqrt(mean(x^2) + eps) * w, by rows.
[[nodiscard]] Problem rmsnorm_problem(const std::string& dtype, std::int64_t rows,
                                      std::int64_t cols, std::optional<float> eps,
                                      std::mt19937_64& random);
/// l2norm: y = x / sqrt(sum(x^2) + eps), by rows.
[[nodiscard]] Problem l2norm_problem(const std::string& dtype, std::int64_t rows, std::int64_t cols,
                                     std::optional<float> eps, std::mt19937_64& random);
/// gemm_nt: C = A * B^T. Uses every core.
[[nodiscard]] Problem gemm_nt_problem(const std::string& dtype, std::int64_t m, std::int64_t n,
                                      std::int64_t k, std::mt19937_64& random);

/// `rows=3 cols=1000`
[[nodiscard]] std::string shape_text(const Problem& problem);

}  // namespace cubinary::gpu
