// SPDX-License-Identifier: Apache-2.0
#include "builder/tune/search/gaussian_process.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>
#include <utility>

namespace cubinary::builder {
namespace {

/// What a length, the mixture and the noise are taken to be before anything is known: normal in
/// their logarithms (logit for the mixture).
struct Belief {
  double mean;
  double deviation;
};
const Belief k_length{std::log(0.8), 0.9};
const Belief k_mixture{0, 1.5};
const Belief k_noise{std::log(1e-3), 1.5};  // variance ratio
const Belief k_slope{0.7, 1.6};             // in deviations of the process

double penalty(double value, const Belief& belief) {
  const double z = (value - belief.mean) / belief.deviation;
  return 0.5 * z * z;
}

/// Standard normal, the same on every standard library.
double normal(std::mt19937_64& random) {
  const auto uniform = [&] { return (static_cast<double>(random() >> 11U) + 0.5) * 0x1p-53; };
  return std::sqrt(-2 * std::log(uniform())) * std::cos(2 * std::numbers::pi * uniform());
}

double matern(double distance, double length) {
  const double r = std::sqrt(5.0) * distance / length;
  return (1 + r + r * r / 3) * std::exp(-r);
}

double dot(const double* a, const double* b, std::size_t n) {
  // Four sums, or the compiler must keep the order of additions.
  std::array<double, 4> sums{};
  std::size_t i = 0;
  for (; i + 4 <= n; i += 4) {
    for (std::size_t k = 0; k < 4; ++k) {
      sums[k] += a[i + k] * b[i + k];
    }
  }
  for (; i < n; ++i) {
    sums[0] += a[i] * b[i];
  }
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

/// x := L⁻¹ x.
void forward(const std::vector<double>& factor, std::vector<double>& x) {
  const std::size_t n = x.size();
  for (std::size_t i = 0; i < n; ++i) {
    x[i] = (x[i] - dot(&factor[i * n], x.data(), i)) / factor[i * n + i];
  }
}

/// x := L⁻ᵀ x.
void backward(const std::vector<double>& factor, std::vector<double>& x) {
  const std::size_t n = x.size();
  for (std::size_t i = n; i-- > 0;) {
    x[i] /= factor[i * n + i];
    for (std::size_t j = 0; j < i; ++j) {
      x[j] -= factor[i * n + j] * x[i];
    }
  }
}

}  // namespace

GaussianProcess::GaussianProcess(const ModelColumns& columns) : m_columns(&columns) {
  m_hyper.lengths.assign(columns.columns.size(), k_length.mean);
  m_hyper.mixture = k_mixture.mean;
  m_hyper.noise = k_noise.mean;
  for (const auto& column : columns.columns) {
    m_tables.emplace_back(column.coordinates.size() * column.coordinates.size());
  }
}

void GaussianProcess::make_tables(const Hyper& hyper) {
  for (std::size_t c = 0; c < m_tables.size(); ++c) {
    const auto& column = m_columns->columns[c];
    const double length = std::exp(hyper.lengths[c]);
    const std::size_t levels = column.coordinates.size();
    const double apart = matern(1, length);
    for (std::size_t a = 0; a < levels; ++a) {
      for (std::size_t b = 0; b <= a; ++b) {
        const double value =
            a == b ? 1
            : column.ordered
                ? matern(std::abs(column.coordinates[a] - column.coordinates[b]), length)
                : apart;
        m_tables[c][a * levels + b] = m_tables[c][b * levels + a] = static_cast<float>(value);
      }
    }
  }
  const double a = 1 / (1 + std::exp(-hyper.mixture));
  m_additive = m_tables.empty() ? 0 : a / static_cast<double>(m_tables.size());
  m_product = 1 - a;
}

double GaussianProcess::covariance(std::span<const std::uint16_t> a,
                                   std::span<const std::uint16_t> b) const {
  float sum = 0;
  float product = 1;
  for (std::size_t c = 0; c < m_tables.size(); ++c) {
    const float value = m_tables[c][a[c] * m_columns->columns[c].coordinates.size() + b[c]];
    sum += value;
    product *= value;
  }
  return m_additive * static_cast<double>(sum) + m_product * static_cast<double>(product);
}

double GaussianProcess::solve(const Hyper& hyper) {
  make_tables(hyper);
  const std::size_t n = m_points.size();
  const double noise = std::exp(hyper.noise) + 1e-6;
  m_factor.assign(n * n, 0);
  double log_determinant = 0;
  for (std::size_t i = 0; i < n; ++i) {
    double* row = &m_factor[i * n];
    for (std::size_t j = 0; j <= i; ++j) {
      const double value =
          covariance(m_columns->row(m_points[i].config), m_columns->row(m_points[j].config)) +
          (i == j ? noise : 0);
      const double rest = value - dot(row, &m_factor[j * n], j);
      row[j] = i == j ? std::sqrt(std::max(rest, 1e-9)) : rest / m_factor[j * n + j];
    }
    log_determinant += std::log(row[i]);
  }

  // The mean's constant has a flat prior, the slope a normal one relative to the variance.
  std::vector<double> ones(n, 1);
  std::vector<double> trend(n);
  std::vector<double> y(n);
  for (std::size_t i = 0; i < n; ++i) {
    trend[i] = m_points[i].trend;
    y[i] = m_points[i].y;
  }
  forward(m_factor, ones);
  forward(m_factor, y);
  m_slope = 0;
  const double oo = dot(ones.data(), ones.data(), n);
  const double oy = dot(ones.data(), y.data(), n);
  // One pseudo-observation of a spread of 30% keeps a handful of alike times from saying "certain".
  double squares = 0.09;
  double occam = 0;
  if (m_with_trend) {
    forward(m_factor, trend);
    const double tt = dot(trend.data(), trend.data(), n);
    const double ot = dot(ones.data(), trend.data(), n);
    const double ty = dot(trend.data(), y.data(), n);
    const double weight = 1 / (k_slope.deviation * k_slope.deviation);
    const double information = tt - ot * ot / oo + weight;
    m_slope = (ty - ot * oy / oo + weight * k_slope.mean) / information;
    m_constant = (oy - m_slope * ot) / oo;
    squares += weight * (m_slope - k_slope.mean) * (m_slope - k_slope.mean);
    occam = 0.5 * std::log(weight / information);
    for (std::size_t i = 0; i < n; ++i) {
      y[i] -= m_slope * trend[i];
    }
  } else {
    m_constant = oy / oo;
  }
  for (std::size_t i = 0; i < n; ++i) {
    y[i] -= m_constant * ones[i];
  }
  squares += dot(y.data(), y.data(), n);
  m_variance = squares / static_cast<double>(n + 1);
  m_weights = std::move(y);
  backward(m_factor, m_weights);

  double posterior =
      occam - 0.5 * static_cast<double>(n + 1) * std::log(m_variance) - log_determinant;
  for (const double length : hyper.lengths) {
    posterior -= penalty(length, k_length);
  }
  return posterior - penalty(hyper.mixture, k_mixture) - penalty(hyper.noise, k_noise);
}

void GaussianProcess::fit(std::vector<Point> points, bool with_trend, int trials,
                          std::mt19937_64& random) {
  m_points = std::move(points);
  m_with_trend = with_trend;
  m_evidence = solve(m_hyper);
  double step = 0.6;
  bool moved = false;
  for (int trial = 0; trial < trials; ++trial) {
    Hyper other = m_hyper;
    const std::size_t parameters = other.lengths.size() + 2;
    const auto nudge = [&](std::size_t parameter) {
      double& value = parameter < other.lengths.size()    ? other.lengths[parameter]
                      : parameter == other.lengths.size() ? other.mixture
                                                          : other.noise;
      value += step * normal(random);
    };
    if (trial % 3 == 0) {
      for (std::size_t parameter = 0; parameter < parameters; ++parameter) {
        nudge(parameter);
      }
    } else {
      nudge(random() % parameters);
    }
    const double found = solve(other);
    moved = found <= m_evidence;
    if (found > m_evidence) {
      m_evidence = found;
      m_hyper = std::move(other);
      step = std::min(step * 1.3, 1.2);
    } else {
      step = std::max(step * 0.93, 0.15);
    }
  }
  if (moved) {
    solve(m_hyper);
  }
}

std::vector<GaussianProcess::Prediction> GaussianProcess::predict(
    std::span<const std::uint32_t> configs, std::span<const double> trends) const {
  constexpr std::size_t k_block = 32;
  const std::size_t n = m_points.size();
  std::vector<float> factor(m_factor.begin(), m_factor.end());
  std::vector<float> block(n * k_block);
  std::vector<std::uint16_t> levels(m_tables.size() * k_block);
  const auto additive = static_cast<float>(m_additive);
  const auto product = static_cast<float>(m_product);
  std::vector<Prediction> predictions(configs.size());
  for (std::size_t begin = 0; begin < configs.size(); begin += k_block) {
    const std::size_t count = std::min(k_block, configs.size() - begin);
    std::array<float, k_block> means{};
    for (std::size_t c = 0; c < m_tables.size(); ++c) {
      for (std::size_t k = 0; k < k_block; ++k) {
        levels[c * k_block + k] = m_columns->row(configs[begin + std::min(k, count - 1)])[c];
      }
    }
    for (std::size_t i = 0; i < n; ++i) {
      const auto known = m_columns->row(m_points[i].config);
      std::array<float, k_block> sums{};
      std::array<float, k_block> products{};
      products.fill(1);
      for (std::size_t c = 0; c < m_tables.size(); ++c) {
        const float* table = &m_tables[c][known[c] * m_columns->columns[c].coordinates.size()];
        const std::uint16_t* level = &levels[c * k_block];
        for (std::size_t k = 0; k < k_block; ++k) {
          const float value = table[level[k]];
          sums[k] += value;
          products[k] *= value;
        }
      }
      float* row = &block[i * k_block];
      const auto weight = static_cast<float>(m_weights[i]);
      for (std::size_t k = 0; k < k_block; ++k) {
        row[k] = additive * sums[k] + product * products[k];
        means[k] += row[k] * weight;
      }
    }
    std::array<float, k_block> explained{};
    for (std::size_t i = 0; i < n; ++i) {
      float* row = &block[i * k_block];
      for (std::size_t j = 0; j < i; ++j) {
        const float weight = factor[i * n + j];
        const float* other = &block[j * k_block];
        for (std::size_t k = 0; k < k_block; ++k) {
          row[k] -= weight * other[k];
        }
      }
      const float scale = 1 / factor[i * n + i];
      for (std::size_t k = 0; k < k_block; ++k) {
        row[k] *= scale;
        explained[k] += row[k] * row[k];
      }
    }
    const double whole =
        m_tables.empty() ? 0 : m_additive * static_cast<double>(m_tables.size()) + m_product;
    for (std::size_t k = 0; k < count; ++k) {
      Prediction& prediction = predictions[begin + k];
      const double trend = trends.empty() ? 0 : trends[begin + k];
      prediction.mean = m_constant + m_slope * trend + static_cast<double>(means[k]);
      prediction.deviation =
          std::sqrt(m_variance * std::max(whole - static_cast<double>(explained[k]), 1e-8));
    }
  }
  return predictions;
}

}  // namespace cubinary::builder
