// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu/launcher.hpp"

#include <algorithm>
#include <cmath>
#include <span>

#include "tests/gpu/elements.hpp"

namespace cubinary::gpu {

namespace {

constexpr std::size_t k_guard_bytes =
    256;                                  // keeps what follows aligned as cuMemAlloc's pointers are
constexpr unsigned char k_poison = 0xff;  // a NaN in f32, f16 and bf16

}  // namespace

Operands::Operands(const Problem& problem, Placement placement)
    : m_problem(problem), m_placement(placement), m_eps(problem.eps.value_or(0.0F)) {
  const std::size_t size = element_size(problem.dtype);
  const std::size_t shift = k_guard_bytes + placement.offset * size;
  m_output_bytes = problem.expected.size() * size;
  m_buffers.emplace_back(shift + m_output_bytes + k_guard_bytes);
  for (const auto& [name, values] : problem.inputs) {
    const auto bytes = encode(problem.dtype, values);
    m_buffers.emplace_back(shift + bytes.size());
    m_buffers.back().fill(k_poison);
    m_buffers.back().write(shift, bytes);
  }
  for (const DeviceBuffer& buffer : m_buffers) {
    m_pointers.push_back(buffer.pointer() + shift);
  }
  poison();
}

NamedValues Operands::alignments() const {
  NamedValues alignments;
  if (m_placement.declared) {
    const auto lowest_bit = [](DevicePointer pointer) {
      return static_cast<std::int64_t>(std::min<DevicePointer>(pointer & -pointer, k_guard_bytes));
    };
    alignments.emplace_back(m_problem.output, lowest_bit(m_pointers[0]));
    for (std::size_t i = 0; i < m_problem.inputs.size(); ++i) {
      alignments.emplace_back(m_problem.inputs[i].first, lowest_bit(m_pointers[i + 1]));
    }
  }
  return alignments;
}

std::vector<cubinary_arg> Operands::arguments() const {
  std::vector<cubinary_arg> arguments;
  for (const DevicePointer& pointer : m_pointers) {
    arguments.push_back({&pointer, sizeof pointer});
  }
  if (m_problem.takes_residual) {
    arguments.push_back({nullptr, sizeof(DevicePointer)});
  }
  if (m_problem.takes_eps) {
    arguments.push_back({m_problem.eps ? &m_eps : nullptr, sizeof m_eps});
  }
  if (m_problem.takes_epilogue) {
    arguments.push_back({nullptr, sizeof(DevicePointer)});
    arguments.push_back({nullptr, sizeof(DevicePointer)});
    arguments.push_back({nullptr, sizeof(std::int32_t)});
  }
  return arguments;
}

void Operands::poison() {
  m_buffers[0].fill(k_poison);
}

std::vector<float> Operands::output() const {
  const auto bytes = m_buffers[0].read();
  const auto first = static_cast<std::size_t>(m_pointers[0] - m_buffers[0].pointer());
  const auto untouched = [](std::span<const std::byte> guard) {
    return std::ranges::all_of(guard, [](std::byte b) { return b == std::byte{k_poison}; });
  };
  const std::span<const std::byte> all(bytes);
  if (!untouched(all.first(first)) || !untouched(all.subspan(first + m_output_bytes))) {
    throw CudaError("the kernel wrote outside its output");
  }
  return decode(m_problem.dtype, all.subspan(first, m_output_bytes));
}

Deviation compare(const std::vector<float>& got, const std::vector<double>& expected,
                  double relative, double absolute) {
  Deviation deviation;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double error = std::fabs(static_cast<double>(got.at(i)) - expected[i]);
    const double share = error / (absolute + relative * std::fabs(expected[i]));
    if (!(share <= 1)) {
      ++deviation.wrong;
    }
    // A NaN stays the largest once it was seen.
    const auto raise = [](double& largest, double value) {
      if (!std::isnan(largest) && !(value <= largest)) {
        largest = value;
      }
    };
    raise(deviation.absolute, error);
    raise(deviation.of_tolerance, share);
  }
  return deviation;
}

}  // namespace cubinary::gpu
