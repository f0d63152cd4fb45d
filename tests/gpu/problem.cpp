// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu/problem.hpp"

#include <algorithm>
#include <cmath>
#include <span>
#include <thread>

#include "tests/gpu/elements.hpp"

namespace cubinary::gpu {

namespace {

constexpr float k_rmsnorm_eps = 1e-6F;  // the manifests' defaults
constexpr float k_l2norm_eps = 1e-12F;

std::size_t count(std::int64_t a, std::int64_t b) {
  return static_cast<std::size_t>(a) * static_cast<std::size_t>(b);
}

std::vector<double> row_factors(const std::vector<float>& x, std::int64_t rows, std::int64_t cols,
                                bool mean, double eps) {
  std::vector<double> factors;
  for (std::int64_t row = 0; row < rows; ++row) {
    double sum = 0;
    for (const float value :
         std::span(x).subspan(count(row, cols), static_cast<std::size_t>(cols))) {
      sum += static_cast<double>(value) * value;
    }
    factors.push_back(1.0 / std::sqrt((mean ? sum / static_cast<double>(cols) : sum) + eps));
  }
  return factors;
}

Problem norm_problem(const std::string& kernel, const std::string& dtype, std::int64_t rows,
                     std::int64_t cols, std::optional<float> eps, std::mt19937_64& random) {
  Problem problem;
  problem.kernel = kernel;
  problem.dtype = dtype;
  problem.axes = {{"rows", rows}, {"cols", cols}};
  problem.output = "y";
  problem.takes_eps = true;
  problem.eps = eps;
  problem.inputs.emplace_back("x", random_values(dtype, count(rows, cols), random));
  return problem;
}

}  // namespace

Problem rmsnorm_problem(const std::string& dtype, std::int64_t rows, std::int64_t cols,
                        std::optional<float> eps, std::mt19937_64& random) {
  Problem problem = norm_problem("rmsnorm", dtype, rows, cols, eps, random);
  problem.takes_residual = true;
  problem.inputs.emplace_back("w", random_values(dtype, static_cast<std::size_t>(cols), random));
  const std::vector<float>& x = problem.inputs[0].second;
  const std::vector<float>& w = problem.inputs[1].second;
  const auto factors =
      row_factors(x, rows, cols, true, static_cast<double>(eps.value_or(k_rmsnorm_eps)));
  for (std::size_t i = 0; i < x.size(); ++i) {
    problem.expected.push_back(static_cast<double>(x[i]) * factors[i / w.size()] *
                               static_cast<double>(w[i % w.size()]));
  }
  return problem;
}

Problem l2norm_problem(const std::string& dtype, std::int64_t rows, std::int64_t cols,
                       std::optional<float> eps, std::mt19937_64& random) {
  Problem problem = norm_problem("l2norm", dtype, rows, cols, eps, random);
  const std::vector<float>& x = problem.inputs[0].second;
  const auto factors =
      row_factors(x, rows, cols, false, static_cast<double>(eps.value_or(k_l2norm_eps)));
  for (std::size_t i = 0; i < x.size(); ++i) {
    problem.expected.push_back(static_cast<double>(x[i]) *
                               factors[i / static_cast<std::size_t>(cols)]);
  }
  return problem;
}

Problem gemm_nt_problem(const std::string& dtype, std::int64_t m, std::int64_t n, std::int64_t k,
                        std::mt19937_64& random) {
  Problem problem;
  problem.kernel = "gemm_nt";
  problem.dtype = dtype;
  problem.axes = {{"M", m}, {"N", n}, {"K", k}};
  problem.output = "c";
  problem.takes_epilogue = true;
  problem.inputs.emplace_back("a", random_values(dtype, count(m, k), random));
  problem.inputs.emplace_back("b", random_values(dtype, count(n, k), random));
  problem.expected.assign(count(m, n), 0.0);

  const std::span<const float> a = problem.inputs[0].second;
  const std::span<const float> b = problem.inputs[1].second;
  const auto depth = static_cast<std::size_t>(k);
  const std::size_t workers = std::max(1U, std::thread::hardware_concurrency());
  const auto work = [&](std::size_t first) {
    for (std::size_t at = first; at < problem.expected.size(); at += workers) {
      const auto row = a.subspan(at / static_cast<std::size_t>(n) * depth, depth);
      const auto column = b.subspan(at % static_cast<std::size_t>(n) * depth, depth);
      double sum = 0;
      for (std::size_t i = 0; i < depth; ++i) {
        sum += static_cast<double>(row[i]) * static_cast<double>(column[i]);
      }
      problem.expected[at] = sum;
    }
  };
  std::vector<std::thread> threads;
  for (std::size_t first = 0; first < workers; ++first) {
    threads.emplace_back(work, first);
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  return problem;
}

std::string shape_text(const Problem& problem) {
  std::string text;
  for (const auto& [name, value] : problem.axes) {
    text += (text.empty() ? "" : " ") + name + "=" + std::to_string(value);
  }
  return text;
}

}  // namespace cubinary::gpu
