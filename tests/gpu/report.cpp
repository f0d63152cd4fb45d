// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu/report.hpp"

#include <algorithm>
#include <cstdio>

namespace cubinary::gpu {

void Report::compared(const Problem& problem, Placement placement, const std::string& config,
                      const Deviation& deviation, const std::string& failure) {
  std::string verdict = failure;
  if (verdict.empty() && deviation.wrong > 0) {
    verdict = std::to_string(deviation.wrong) + " of " + std::to_string(problem.expected.size()) +
              " elements beyond tolerance";
  }
  const std::string name = problem.kernel + " " + problem.dtype;
  std::printf("%-4s %-12s %-24s +%zu%s  max error %.2e (%.2f of tolerance)  %s%s%s\n",
              verdict.empty() ? "ok" : "FAIL", name.c_str(), shape_text(problem).c_str(),
              placement.offset, placement.declared ? " " : "?", deviation.absolute,
              deviation.of_tolerance, config.c_str(), verdict.empty() ? "" : ": ", verdict.c_str());
  ++m_checks;
  m_failures += verdict.empty() ? 0 : 1;
  Row& row = m_rows[name];
  ++row.calls;
  row.failed += verdict.empty() ? 0 : 1;
  row.absolute = std::max(row.absolute, deviation.absolute);
  row.of_tolerance = std::max(row.of_tolerance, deviation.of_tolerance);
  ++row.configs[config];
}

void Report::checked(const std::string& what, bool ok, const std::string& detail) {
  std::printf("%-4s %s%s%s\n", ok ? "ok" : "FAIL", what.c_str(), detail.empty() ? "" : ": ",
              detail.c_str());
  ++m_checks;
  m_failures += ok ? 0 : 1;
}

void Report::print_table() const {
  std::printf("%-14s %6s %7s %11s %13s %8s\n", "kernel", "calls", "failed", "max error",
              "of tolerance", "configs");
  for (const auto& [name, row] : m_rows) {
    std::printf("%-14s %6d %7d %11.2e %13.2f %8zu\n", name.c_str(), row.calls, row.failed,
                row.absolute, row.of_tolerance, row.configs.size());
  }
}

}  // namespace cubinary::gpu
