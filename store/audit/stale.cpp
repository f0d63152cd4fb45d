// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "store/audit/audit.hpp"
#include "store/candidates.hpp"
#include "store/connection.hpp"

namespace cubinary::store {
namespace {

using core::DeviceClass;
using core::Result;

/// The compiler that made the newest current candidate of each kernel and target: what a build now
/// would use.
Result<std::map<std::pair<std::string, std::string>, Toolchain>> newest_toolchains(
    const Reader& reader) {
  TRY_ASSIGN(Statement row,
             reader.connection().query(
                 "SELECT k.name, c.target, b.backend, b.major, b.minor, b.identity, max(c.id) "
                 "FROM candidate c JOIN kernel k ON k.id = c.kernel_id "
                 "JOIN toolchain b ON b.id = c.toolchain_id WHERE c.role = 0 "
                 "GROUP BY k.name, c.target"));
  std::map<std::pair<std::string, std::string>, Toolchain> found;
  while (true) {
    TRY_ASSIGN(const bool more, row.step());
    if (!more) {
      return found;
    }
    Toolchain toolchain;
    toolchain.backend = row.text(2);
    toolchain.version = {static_cast<int>(row.integer(3)), static_cast<int>(row.integer(4))};
    toolchain.identity = row.text(5);
    found.emplace(std::pair(row.text(0), row.text(1)), std::move(toolchain));
  }
}

/// "12.8 -> 13.0", with the identities where the versions are the same; empty when nothing changed.
std::string toolkit_change(const Toolchain& then, const Toolchain& now) {
  if (std::tie(then.backend, then.version, then.identity) ==
      std::tie(now.backend, now.version, now.identity)) {
    return {};
  }
  if (then.backend != now.backend) {
    return then.backend + " -> " + now.backend;
  }
  if (then.version != now.version) {
    return then.version.text() + " -> " + now.version.text();
  }
  return then.identity + " -> " + now.identity;
}

using Job = std::tuple<std::string, std::string, core::Types, core::Shape, DeviceClass>;

/// The last good measurement of each job that has only such of candidates no longer current.
Result<std::vector<StaleWinner>> orphans(const Reader& reader, const std::string& kernel,
                                         const std::set<Job>& alive) {
  TRY_ASSIGN(
      Statement row,
      reader.connection().query(
          "SELECT c.target, t.json, p.json, d.name, g.json, m.created FROM ("
          "SELECT m.*, row_number() OVER (PARTITION BY c.target, m.types_id, m.shape_id, "
          "m.device_class_id ORDER BY m.session_id DESC, m.median_us, m.id) AS place "
          "FROM measurement m JOIN candidate c ON c.id = m.candidate_id "
          "WHERE m.kernel_id = (SELECT id FROM kernel WHERE name = ?1) AND c.role = 0 "
          "AND c.current = 0 AND m.status = 0 AND m.max_error <= 1 AND m.suspect = 0) m "
          "JOIN candidate c ON c.id = m.candidate_id "
          "JOIN json_value t ON t.id = m.types_id JOIN json_value p ON p.id = m.shape_id "
          "JOIN json_value g ON g.id = m.config_id JOIN device_class d ON d.id = m.device_class_id "
          "WHERE m.place = 1",
          kernel));
  std::vector<StaleWinner> found;
  while (true) {
    TRY_ASSIGN(const bool more, row.step());
    if (!more) {
      return found;
    }
    StaleWinner stale;
    stale.kernel = kernel;
    stale.target = row.text(0);
    TRY_ASSIGN(stale.types, core::types_from_json(row.text(1)));
    TRY_ASSIGN(stale.shape, core::shape_from_json(row.text(2)));
    TRY_ASSIGN(stale.device_class, DeviceClass::parse(row.text(3)));
    TRY_ASSIGN(stale.config, core::config_from_json(row.text(4)));
    stale.created = row.integer(5);
    stale.source = "no measurement of the current source";
    if (!alive.contains(
            {stale.kernel, stale.target, stale.types, stale.shape, stale.device_class})) {
      found.push_back(std::move(stale));
    }
  }
}

}  // namespace

Result<std::vector<StaleWinner>> audit_stale(const Reader& reader, const AuditFilter& filter,
                                             const AuditNow& now) {
  TRY_ASSIGN(const auto kernels, audited_kernels(reader, filter));
  TRY_ASSIGN(const auto toolchains, newest_toolchains(reader));
  TRY_ASSIGN(const auto sessions, list_sessions(reader));
  std::map<DeviceClass, std::string> drivers;  // the newest session's
  for (const DeviceSession& session : sessions) {
    drivers[session.device_class] = now.driver.empty() ? session.driver : now.driver;
  }
  TRY_ASSIGN(const auto winners, audit_winners(reader, filter));
  std::vector<StaleWinner> all;
  std::set<Job> alive;
  for (const Winner& winner : winners) {
    alive.emplace(winner.kernel, winner.target, winner.types, winner.shape, winner.device_class);
    StaleWinner stale{
        winner.kernel, winner.target,  winner.types, winner.shape, winner.device_class,
        winner.config, winner.created, {},           {},           {}};
    if (const auto& driver = drivers[winner.device_class]; driver != winner.driver) {
      stale.driver = winner.driver + " -> " + driver;
    }
    if (const auto toolchain = toolchains.find({winner.kernel, winner.target});
        toolchain != toolchains.end()) {
      stale.toolkit = toolkit_change(winner.toolchain, toolchain->second);
    }
    if (!stale.driver.empty() || !stale.toolkit.empty()) {
      all.push_back(std::move(stale));
    }
  }
  for (const Kernel& kernel : kernels) {
    TRY_ASSIGN(auto found, orphans(reader, kernel.name, alive));
    for (StaleWinner& stale : found) {
      const bool wanted = (filter.target.empty() || filter.target == stale.target) &&
                          (!filter.device_class || *filter.device_class == stale.device_class);
      if (wanted) {
        all.push_back(std::move(stale));
      }
    }
  }
  std::sort(all.begin(), all.end(), [](const StaleWinner& a, const StaleWinner& b) {
    return std::tie(a.kernel, a.target, a.device_class, a.types, a.shape) <
           std::tie(b.kernel, b.target, b.device_class, b.types, b.shape);
  });
  return all;
}

}  // namespace cubinary::store
