// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <optional>

#include "tests/gpu/suite.hpp"

namespace cubinary::gpu {

namespace {

void run(Suite& suite, const Release& release, const Problem& problem, Placement placement) {
  Operands operands(problem, placement);
  Kernel kernel;
  std::string config = "-";
  std::string trouble;
  Deviation deviation;
  const Stream stream;
  try {
    const auto arguments = operands.arguments();
    if (const auto status =
            kernel.resolve(release, problem.kernel, suite.interface_of(problem.kernel),
                           problem.dtype, problem.axes, operands.alignments());
        status != CUBINARY_OK) {
      trouble = failure("resolve", status);
    } else if (const auto prepared = cubinary_prepare(kernel.get()); prepared != CUBINARY_OK) {
      trouble = failure("prepare", prepared);
    } else if (const auto launched =
                   cubinary_launch(kernel.get(), arguments.data(), arguments.size(), stream.get());
               launched != CUBINARY_OK) {
      trouble = failure("launch", launched);
    } else {
      config = kernel.info().config;
      stream.synchronize();
      const auto tolerance = suite.manifests.at(problem.kernel).tolerance.at(problem.dtype);
      deviation =
          compare(operands.output(), problem.expected, tolerance.relative, tolerance.absolute);
    }
  } catch (const CudaError& error) {
    trouble = error.what();
  }
  suite.report.compared(problem, placement, config, deviation, trouble);
}

/// Aligned and said so; aligned but not said; off by one element; off by a few.
constexpr std::array k_placements = {Placement{0, true}, Placement{0, false}, Placement{1, true},
                                     Placement{4, true}};

using Rows = std::array<std::int64_t, 2>;
constexpr std::array k_norm_shapes = {
    Rows{1, 1},     Rows{1, 4096},  Rows{3, 1000},    Rows{7, 8191},    Rows{257, 127},
    Rows{33, 5},    Rows{64, 4096}, Rows{1031, 1024}, Rows{1024, 8192}, Rows{5, 65536},
    Rows{4097, 96}, Rows{0, 128},   Rows{5, 0}};

using Sizes = std::array<std::int64_t, 3>;
constexpr std::array k_gemm_shapes = {
    Sizes{1, 1, 1},        Sizes{17, 33, 65},    Sizes{64, 64, 64},     Sizes{100, 200, 104},
    Sizes{257, 129, 1000}, Sizes{129, 257, 77},  Sizes{33, 70, 1002},   Sizes{1, 4096, 128},
    Sizes{4096, 1, 64},    Sizes{127, 509, 251}, Sizes{512, 768, 1024}, Sizes{2048, 2304, 512},
    Sizes{3, 5, 0},        Sizes{0, 64, 64},     Sizes{64, 0, 64},      Sizes{0, 0, 0}};

}  // namespace

void check_results(Suite& suite, const Release& release) {
  for (const std::string dtype : {"f32", "f16", "bf16"}) {
    for (const auto& [rows, cols] : k_norm_shapes) {
      // Odd row counts pass eps, the others leave it to the default.
      const auto eps = rows % 2 == 1 ? std::optional(0.01F) : std::nullopt;
      const Problem rmsnorm = rmsnorm_problem(dtype, rows, cols, eps, suite.random);
      const Problem l2norm = l2norm_problem(dtype, rows, cols, eps, suite.random);
      for (const Placement placement : k_placements) {
        run(suite, release, rmsnorm, placement);
        run(suite, release, l2norm, placement);
      }
    }
  }
  for (const std::string dtype : {"f16", "bf16"}) {
    for (const auto& [m, n, k] : k_gemm_shapes) {
      const Problem gemm = gemm_nt_problem(dtype, m, n, k, suite.random);
      for (const Placement placement : k_placements) {
        run(suite, release, gemm, placement);
      }
    }
  }
}

}  // namespace cubinary::gpu
