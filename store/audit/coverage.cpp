// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <set>
#include <tuple>
#include <utility>

#include "core/manifest/manifest.hpp"
#include "core/model/target.hpp"
#include "store/audit/audit.hpp"
#include "store/candidates.hpp"
#include "store/connection.hpp"

namespace cubinary::store {
namespace {

using core::DeviceClass;
using core::Result;

/// Whether a winner for `from` may serve `to`: what must be equal is.
bool may_serve(const core::Manifest& manifest, const core::Shape& from, const core::Shape& to) {
  return std::all_of(manifest.axes.begin(), manifest.axes.end(), [&](const core::Axis& axis) {
    const auto a = from.find(axis.name);
    const auto b = to.find(axis.name);
    return (!axis.compile && axis.bucket != core::Bucket::exact) ||
           (a != from.end() && b != to.end() && a->second == b->second);
  });
}

using MeasuredJob = std::tuple<core::Types, core::Shape, DeviceClass>;

/// Jobs that something was measured ok for, whether or not it may win.
Result<std::set<MeasuredJob>> measured_jobs(const Reader& reader, const std::string& kernel,
                                            const std::string& target) {
  TRY_ASSIGN(Statement row,
             reader.connection().query(
                 "SELECT DISTINCT t.json, p.json, d.name FROM measurement m "
                 "JOIN candidate c ON c.id = m.candidate_id "
                 "JOIN json_value t ON t.id = m.types_id JOIN json_value p ON p.id = m.shape_id "
                 "JOIN device_class d ON d.id = m.device_class_id "
                 "WHERE m.kernel_id = (SELECT id FROM kernel WHERE name = ?1) AND c.target = ?2 "
                 "AND c.current = 1 AND c.role = 0 AND m.status = 0",
                 kernel, target));
  std::set<MeasuredJob> jobs;
  while (true) {
    TRY_ASSIGN(const bool more, row.step());
    if (!more) {
      return jobs;
    }
    TRY_ASSIGN(core::Types types, core::types_from_json(row.text(0)));
    TRY_ASSIGN(core::Shape shape, core::shape_from_json(row.text(1)));
    TRY_ASSIGN(const DeviceClass device, DeviceClass::parse(row.text(2)));
    jobs.emplace(std::move(types), std::move(shape), device);
  }
}

Result<std::set<core::Types>> current_types(const Reader& reader, const std::string& kernel,
                                            const std::string& target) {
  TRY_ASSIGN(Statement row,
             reader.connection().query(
                 "SELECT DISTINCT t.json FROM candidate c JOIN json_value t ON t.id = c.types_id "
                 "WHERE c.kernel_id = (SELECT id FROM kernel WHERE name = ?1) AND c.target = ?2 "
                 "AND c.current = 1 AND c.role = 0",
                 kernel, target));
  std::set<core::Types> all;
  while (true) {
    TRY_ASSIGN(const bool more, row.step());
    if (!more) {
      return all;
    }
    TRY_ASSIGN(core::Types types, core::types_from_json(row.text(0)));
    all.insert(std::move(types));
  }
}

class KernelCoverage {
 public:
  KernelCoverage(const core::Manifest& manifest, std::vector<Winner> winners,
                 std::set<MeasuredJob> measured)
      : m_manifest(manifest), m_winners(std::move(winners)), m_measured(std::move(measured)) {}

  [[nodiscard]] Coverage of(const CoverageJob& job) const {
    Coverage best = m_measured.contains({job.types, job.shape, job.device_class})
                        ? Coverage::unverified
                        : Coverage::untuned;
    for (const Winner& winner : m_winners) {
      if (winner.types == job.types && may_serve(m_manifest, winner.shape, job.shape)) {
        best = std::min(best, serves(winner, job));
      }
    }
    return best;
  }

 private:
  static Coverage serves(const Winner& winner, const CoverageJob& job) {
    if (winner.device_class != job.device_class) {
      return Coverage::other_class;
    }
    if (winner.shape != job.shape) {
      return Coverage::nearest_shape;
    }
    switch (origin(winner)) {
      case WinnerOrigin::tuned:
        return Coverage::tuned;
      case WinnerOrigin::budget:
        return Coverage::budget;
      case WinnerOrigin::measured:
        break;
    }
    return Coverage::measured;
  }

  const core::Manifest& m_manifest;
  std::vector<Winner> m_winners;
  std::set<MeasuredJob> m_measured;
};

}  // namespace

std::vector<core::Shape> tuned_shapes(const core::Manifest& manifest) {
  std::vector<core::Shape> shapes{{}};
  for (const core::Axis& axis : manifest.axes) {
    std::vector<core::Shape> next;
    for (const core::Shape& shape : shapes) {
      for (const std::int64_t value : axis.tune) {
        next.push_back(shape);
        next.back()[axis.name] = value;
      }
    }
    shapes = std::move(next);
  }
  return shapes;
}

std::string_view coverage_name(Coverage coverage) {
  constexpr std::array<std::string_view, 7> k_names = {
      "tuned", "budget", "measured", "unverified", "nearest-shape", "other-class", "untuned"};
  return k_names.at(static_cast<std::size_t>(coverage));
}

Result<std::vector<CoverageJob>> audit_coverage(const Reader& reader, const AuditFilter& filter) {
  TRY_ASSIGN(const auto kernels, audited_kernels(reader, filter));
  TRY_ASSIGN(auto classes, device_classes(reader));
  if (filter.device_class) {
    classes = {*filter.device_class};
  }
  std::vector<CoverageJob> jobs;
  for (const Kernel& kernel : kernels) {
    TRY_ASSIGN(const core::Manifest manifest,
               core::parse_manifest(kernel.manifest, kernel.manifest_path));
    const std::vector<core::Shape> shapes = tuned_shapes(manifest);
    TRY_ASSIGN(const auto targets, current_targets(reader, kernel.name));
    for (const std::string& name : targets) {
      if (!filter.target.empty() && filter.target != name) {
        continue;
      }
      TRY_ASSIGN(const core::Target target, core::Target::parse(name));
      TRY_ASSIGN(const auto all_types, current_types(reader, kernel.name, name));
      TRY_ASSIGN(auto found, winners(reader, kernel.name, name));
      TRY_ASSIGN(auto measured, measured_jobs(reader, kernel.name, name));
      const KernelCoverage coverage(manifest, std::move(found), std::move(measured));
      for (const core::Types& types : all_types) {
        for (const core::Shape& shape : shapes) {
          for (const DeviceClass& device : classes) {
            if (!target.runs_on(device.capability)) {
              continue;
            }
            CoverageJob job{kernel.name, name, types, shape, device, Coverage::untuned};
            job.coverage = coverage.of(job);
            jobs.push_back(std::move(job));
          }
        }
      }
    }
  }
  std::sort(jobs.begin(), jobs.end(), [](const CoverageJob& a, const CoverageJob& b) {
    return std::tie(a.kernel, a.target, a.device_class, a.types, a.shape) <
           std::tie(b.kernel, b.target, b.device_class, b.types, b.shape);
  });
  return jobs;
}

}  // namespace cubinary::store
