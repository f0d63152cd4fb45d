// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

#include "store/audit/audit.hpp"
#include "store/connection.hpp"

namespace cubinary::store {
namespace {

using core::DeviceClass;
using core::Result;

using Job = std::tuple<std::string, core::Types, core::Shape>;

/// A class's winners by job: the faster target's where there are several.
std::map<Job, Winner> by_job(const std::vector<Winner>& winners, const DeviceClass& device) {
  std::map<Job, Winner> jobs;
  for (const Winner& winner : winners) {
    if (winner.device_class != device) {
      continue;
    }
    const auto [place, fresh] =
        jobs.emplace(Job(winner.kernel, winner.types, winner.shape), winner);
    if (!fresh && winner.median_us < place->second.median_us) {
      place->second = winner;
    }
  }
  return jobs;
}

struct Tried {
  bool ok = false;
  double median_us = 0;
};

/// What a config came to on a class: from the run-off if it was in one, else as last measured; of
/// several targets the fastest. None when nobody tried.
Result<std::optional<Tried>> tried(const Reader& reader, const Winner& winner,
                                   const DeviceClass& device) {
  TRY_ASSIGN(Statement row,
             reader.connection().query(
                 "SELECT m.status = 0 AND coalesce(m.max_error, 2) <= 1 AND m.suspect = 0 AS good, "
                 "m.median_us FROM (SELECT m.*, row_number() OVER (PARTITION BY c.target ORDER BY "
                 "m.stage DESC, m.id DESC) AS place FROM measurement m "
                 "JOIN candidate c ON c.id = m.candidate_id "
                 "WHERE m.kernel_id = (SELECT id FROM kernel WHERE name = ?1) "
                 "AND m.types_id = (SELECT id FROM json_value WHERE json = ?2) "
                 "AND m.shape_id = (SELECT id FROM json_value WHERE json = ?3) "
                 "AND m.config_id = (SELECT id FROM json_value WHERE json = ?4) "
                 "AND m.device_class_id = (SELECT id FROM device_class WHERE name = ?5) "
                 "AND m.status <> 5 AND c.current = 1) m "
                 "WHERE m.place = 1 ORDER BY good DESC, m.median_us LIMIT 1",
                 winner.kernel, core::to_json(winner.types), core::to_json(winner.shape),
                 core::to_json(winner.config), device.text()));
  TRY_ASSIGN(const bool found, row.step());
  if (!found) {
    return std::nullopt;
  }
  return Tried{row.integer(0) != 0, row.real(1)};
}

Result<Comparison> compare(const Reader& reader, const Winner& a, const Winner& b) {
  Comparison job;
  job.kernel = a.kernel;
  job.types = a.types;
  job.shape = a.shape;
  job.a_config = a.config;
  job.b_config = b.config;
  job.a_us = a.median_us;
  job.b_us = b.median_us;
  if (a.config == b.config) {
    job.transfer = Transfer::same;
    job.a_on_b_us = b.median_us;
    job.loss = 1;
    return job;
  }
  TRY_ASSIGN(const auto on_b, tried(reader, a, b.device_class));
  if (!on_b) {
    return job;
  }
  if (!on_b->ok) {
    job.transfer = Transfer::broken;
    return job;
  }
  job.a_on_b_us = on_b->median_us;
  job.loss = on_b->median_us / b.median_us;
  job.transfer = *job.loss <= k_good_transfer ? Transfer::good : Transfer::slower;
  return job;
}

void add(KernelComparison& kernel, const Comparison& job, double& log_sum, std::uint64_t& losses) {
  ++kernel.jobs;
  const std::array<std::uint64_t*, 5> counts = {&kernel.same, &kernel.good, &kernel.slower,
                                                &kernel.broken, &kernel.unmeasured};
  ++*counts.at(static_cast<std::size_t>(job.transfer));
  if (job.loss) {
    log_sum += std::log(*job.loss);
    ++losses;
    kernel.mean_loss = std::exp(log_sum / static_cast<double>(losses));
    kernel.worst_loss = std::max(kernel.worst_loss.value_or(0), *job.loss);
  }
}

}  // namespace

std::string_view transfer_name(Transfer transfer) {
  constexpr std::array<std::string_view, 5> k_names = {"same", "good", "slower", "broken",
                                                       "unmeasured"};
  return k_names.at(static_cast<std::size_t>(transfer));
}

Result<CompareAnswer> audit_compare(const Reader& reader, const DeviceClass& a,
                                    const DeviceClass& b, const AuditFilter& filter) {
  CompareAnswer answer{a, b, {}, {}};
  AuditFilter both = filter;
  both.device_class.reset();
  TRY_ASSIGN(const auto winners, audit_winners(reader, both));
  const auto on_b = by_job(winners, b);
  double log_sum = 0;
  std::uint64_t losses = 0;
  for (const auto& [job, winner] : by_job(winners, a)) {
    const auto other = on_b.find(job);
    if (other == on_b.end()) {
      continue;
    }
    TRY_ASSIGN(Comparison comparison, compare(reader, winner, other->second));
    if (answer.kernels.empty() || answer.kernels.back().kernel != comparison.kernel) {
      answer.kernels.emplace_back().kernel = comparison.kernel;
      log_sum = 0;
      losses = 0;
    }
    add(answer.kernels.back(), comparison, log_sum, losses);
    answer.jobs.push_back(std::move(comparison));
  }
  std::sort(answer.jobs.begin(), answer.jobs.end(), [](const Comparison& x, const Comparison& y) {
    return std::tuple(x.kernel, -x.loss.value_or(0), x.types, x.shape) <
           std::tuple(y.kernel, -y.loss.value_or(0), y.types, y.shape);
  });
  return answer;
}

}  // namespace cubinary::store
