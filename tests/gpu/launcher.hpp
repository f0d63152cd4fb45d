// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tests/gpu/cuda.hpp"
#include "tests/gpu/handles.hpp"
#include "tests/gpu/problem.hpp"

namespace cubinary::gpu {

/// How the buffers of a call lie in memory and what the client is told about them.
struct Placement {
  std::size_t offset = 0;  ///< elements between a 256-byte boundary and every pointer
  bool declared = true;    ///< the true alignments are given to resolve; else none
};

/// A problem's buffers on the device: inputs copied in, the output poisoned with NaN and guarded on
/// both sides. Freed at the end.
class Operands {
 public:
  Operands(const Problem& problem, Placement placement);

  /// What to tell resolve; empty unless declared.
  [[nodiscard]] NamedValues alignments() const;
  /// Output first, then inputs, then eps. Valid while this lives.
  [[nodiscard]] std::vector<cubinary_arg> arguments() const;
  /// NaN everywhere in the output and its guards.
  void poison();
  /// The output's elements; throws CudaError when a guard byte changed.
  [[nodiscard]] std::vector<float> output() const;

 private:
  const Problem& m_problem;
  Placement m_placement;
  std::vector<DeviceBuffer> m_buffers;
  std::vector<DevicePointer> m_pointers;
  std::size_t m_output_bytes = 0;
  float m_eps = 0;
};

/// How far an output is from the float64 reference.
struct Deviation {
  double absolute = 0;      ///< largest |got - expected|
  double of_tolerance = 0;  ///< largest |got - expected| / (absolute + relative * |expected|)
  std::size_t wrong = 0;    ///< elements beyond tolerance, NaN included
};

[[nodiscard]] Deviation compare(const std::vector<float>& got, const std::vector<double>& expected,
                                double relative, double absolute);

}  // namespace cubinary::gpu
