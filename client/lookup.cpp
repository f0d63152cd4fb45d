// SPDX-License-Identifier: Apache-2.0
#include "client/lookup.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "core/base/nearest.hpp"
#include "core/driver/driver_version.hpp"

namespace cubinary::client {

using core::ErrorCode;
using core::fail;
using core::Result;

Result<KernelTables> find_kernel(Release& release, const LookupQuery& query, Deadline deadline) {
  KernelTables found;
  std::vector<std::shared_ptr<const TargetTables>> looked;
  std::optional<core::Error> too_old;
  bool loadable = false;
  for (const core::Target& target : release.targets()) {
    if (!target.runs_on(query.capability)) {
      continue;
    }
    loadable = true;
    TRY_ASSIGN(auto tables, release.tables(target, deadline));
    if (query.cuda_version) {
      const auto fits =
          core::check_driver(*query.cuda_version, tables->minimum_driver(),
                             "release " + release.name() + ", target " + target.text() + ",");
      if (!fits) {
        too_old = fits.error();
        continue;
      }
    }
    TRY_ASSIGN(const core::KernelTable* table, tables->find(query.kernel));
    if (table == nullptr) {
      looked.push_back(std::move(tables));
      continue;
    }
    if (query.interface_digest && *query.interface_digest != table->interface) {
      return fail(ErrorCode::interface_mismatch,
                  "kernel " + table->name + " of release " + release.name() + " has interface " +
                      table->interface.text() + ", but the caller was written for " +
                      query.interface_digest->text() +
                      ": its arguments differ; update the caller, or use the release it was "
                      "written for");
    }
    found.owners.push_back(std::move(tables));
    found.tables.push_back({target, table});
  }
  if (!found.tables.empty()) {
    return found;
  }
  if (!loadable) {
    std::string targets;
    for (const core::Target& target : release.targets()) {
      targets += (targets.empty() ? "" : ", ") + target.text();
    }
    return fail(ErrorCode::no_match, "release " + release.name() +
                                         " has no code for a device of capability " +
                                         std::to_string(query.capability.major) + "." +
                                         std::to_string(query.capability.minor) + "; it has " +
                                         (targets.empty() ? "no target" : targets) +
                                         ": build and release that target too");
  }
  if (too_old) {
    return fail(*std::move(too_old));
  }
  std::set<std::string> known;
  for (const auto& tables : looked) {
    for (std::size_t i = 0; i < tables->size(); ++i) {
      known.insert(tables->name(i));
    }
  }
  const std::vector<std::string> names(known.begin(), known.end());
  std::string list;
  for (std::size_t i = 0; i < std::min<std::size_t>(names.size(), 20); ++i) {
    list += (i == 0 ? "" : ", ") + names[i];
  }
  return fail(ErrorCode::not_found,
              "release " + release.name() + " has no kernel \"" + std::string(query.kernel) + "\"" +
                  core::did_you_mean(query.kernel, names) + "; it has " +
                  (list.empty() ? "none" : list) + (names.size() > 20 ? ", …" : ""));
}

}  // namespace cubinary::client
