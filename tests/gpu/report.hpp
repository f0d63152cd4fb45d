// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>

#include "tests/gpu/launcher.hpp"

namespace cubinary::gpu {

/// Prints a line a check and keeps what the closing table needs.
class Report {
 public:
  /// One call compared with its reference. `failure` is empty when all went well.
  void compared(const Problem& problem, Placement placement, const std::string& config,
                const Deviation& deviation, const std::string& failure);
  /// Any other check.
  void checked(const std::string& what, bool ok, const std::string& detail);
  /// Kernels by types: calls, largest error, its share of the tolerance, configs used.
  void print_table() const;

  [[nodiscard]] int failures() const { return m_failures; }
  [[nodiscard]] int checks() const { return m_checks; }

 private:
  struct Row {
    int calls = 0;
    int failed = 0;
    double absolute = 0;
    double of_tolerance = 0;
    std::map<std::string, int> configs;
  };
  std::map<std::string, Row> m_rows;
  int m_checks = 0;
  int m_failures = 0;
};

}  // namespace cubinary::gpu
