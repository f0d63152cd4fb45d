// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "builder/tune/search/columns.hpp"

namespace cubinary::builder {

/// Gaussian-process regression over discrete columns.
///
/// The covariance is σ² (a·mean of the columns' kernels + (1 − a)·their product) plus noise, each
/// column's kernel a Matérn-5/2 of its own length (Rasmussen & Williams, Gaussian Processes for
/// Machine Learning, 4.17); the mean is a constant plus a multiple of an optional trend. Variance,
/// constant and multiple are estimated in closed form, the rest by maximum a posteriori. Cost: n³/6
/// a fit of n points, n²/2 a prediction.
class GaussianProcess {
 public:
  explicit GaussianProcess(const ModelColumns& columns);

  struct Point {
    std::uint32_t config = 0;
    double y = 0;
    double trend = 0;
  };
  /// Conditions on `points`; `trials` > 0 first improves lengths, mixture and noise that many
  /// random steps long, starting from where the last fit ended.
  void fit(std::vector<Point> points, bool with_trend, int trials, std::mt19937_64& random);

  struct Prediction {
    double mean = 0;
    double deviation = 0;  ///< of the noise-free value
  };
  /// One a config; `trends` as many, or empty.
  [[nodiscard]] std::vector<Prediction> predict(std::span<const std::uint32_t> configs,
                                                std::span<const double> trends) const;

  /// Points it is conditioned on.
  [[nodiscard]] std::size_t size() const { return m_points.size(); }
  /// Log posterior of the last fit, up to a constant of the points: of two models of the same
  /// points the greater one explains them better.
  [[nodiscard]] double evidence() const { return m_evidence; }

 private:
  /// Logarithms, and the mixture as a logit.
  struct Hyper {
    std::vector<double> lengths;
    double mixture = 0;
    double noise = 0;
  };
  void make_tables(const Hyper& hyper);
  [[nodiscard]] double covariance(std::span<const std::uint16_t> a,
                                  std::span<const std::uint16_t> b) const;
  /// Factors and solves with the current tables; the log posterior, up to a constant.
  double solve(const Hyper& hyper);

  const ModelColumns* m_columns;
  Hyper m_hyper;
  std::vector<std::vector<float>> m_tables;  ///< levels × levels a column
  double m_additive = 0;                     ///< a / columns
  double m_product = 0;                      ///< 1 − a
  std::vector<Point> m_points;
  bool m_with_trend = false;
  std::vector<double> m_factor;   ///< lower triangle by rows, n × n
  std::vector<double> m_weights;  ///< K⁻¹ (y − mean)
  double m_constant = 0;
  double m_slope = 0;
  double m_variance = 1;
  double m_evidence = 0;
};

}  // namespace cubinary::builder
