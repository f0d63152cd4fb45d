// SPDX-License-Identifier: Apache-2.0
#include "client/fetch.hpp"

#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include <fnmatch.h>

#include "client/parallel.hpp"
#include "core/base/nearest.hpp"

namespace cubinary::client {
namespace {

using core::ErrorCode;
using core::fail;
using core::Result;

Result<std::vector<core::Target>> choose_targets(const Release& release,
                                                 const FetchFilter& filter) {
  std::vector<std::string> names;
  std::string list;
  for (const auto& target : release.targets()) {
    names.push_back(target.text());
    list += (list.empty() ? "" : ", ") + target.text();
  }
  for (const core::Target& wanted : filter.targets) {
    if (std::find(release.targets().begin(), release.targets().end(), wanted) ==
        release.targets().end()) {
      return fail(ErrorCode::no_match, "release " + release.name() + " has no target " +
                                           wanted.text() + "; it has " +
                                           (list.empty() ? "none" : list));
    }
  }
  std::vector<core::Target> chosen;
  for (const core::Target& target : release.targets()) {
    const bool named =
        filter.targets.empty() ||
        std::find(filter.targets.begin(), filter.targets.end(), target) != filter.targets.end();
    const bool runs = !filter.device_class || target.runs_on(filter.device_class->capability);
    if (named && runs) {
      chosen.push_back(target);
    }
  }
  if (chosen.empty()) {
    return fail(ErrorCode::no_match,
                "release " + release.name() + " has no code" +
                    (filter.device_class ? " for " + filter.device_class->text() : "") +
                    "; its targets are " + (list.empty() ? "none" : list));
  }
  return chosen;
}

}  // namespace

Result<FetchReport> fetch(Release& release, const FetchFilter& filter, Deadline deadline,
                          const FetchProgress& progress) {
  TRY_ASSIGN(const auto targets, choose_targets(release, filter));
  FetchReport report;
  std::vector<std::shared_ptr<const TargetTables>> owners;
  std::vector<std::pair<core::Target, const core::KernelTable*>> wanted;
  std::set<std::string> known;
  for (const core::Target& target : targets) {
    TRY_ASSIGN(auto tables, release.tables(target, deadline));
    ++report.catalogues;
    report.minimum_driver = std::max(report.minimum_driver, tables->minimum_driver());
    for (std::size_t i = 0; i < tables->size(); ++i) {
      known.insert(tables->name(i));
      if (filter.kernel_glob.empty() ||
          ::fnmatch(filter.kernel_glob.c_str(), tables->name(i).c_str(), 0) == 0) {
        TRY_ASSIGN(const core::KernelTable* table, tables->table(i));
        wanted.emplace_back(target, table);
      }
    }
    owners.push_back(std::move(tables));
  }
  if (wanted.empty() && !filter.kernel_glob.empty()) {
    const std::vector<std::string> names(known.begin(), known.end());
    return fail(ErrorCode::not_found, "release " + release.name() + " has no kernel \"" +
                                          filter.kernel_glob + "\"" +
                                          core::did_you_mean(filter.kernel_glob, names));
  }
  std::vector<Release::PackStats> stats(wanted.size());
  std::mutex mutex;
  std::size_t begun = 0;
  TRY(parallel_for(wanted.size(), filter.width, [&](std::size_t i) -> Result<void> {
    const core::KernelTable& table = *wanted[i].second;
    {
      const std::lock_guard lock(mutex);
      if (progress) {
        progress(begun, wanted.size(), table);
      }
      ++begun;
    }
    if (!table.entries.empty()) {
      TRY_ASSIGN(stats[i], release.fetch_all(table, deadline));
    }
    return {};
  }));
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const auto& [target, table] = wanted[i];
    if (table->entries.empty()) {
      continue;
    }
    ++report.packs;
    report.packs_received += stats[i].fetched ? 1 : 0;
    report.bytes_received += stats[i].pack_bytes;

    std::map<core::Digest, FetchedArtifact> artifacts;
    for (const core::TableEntry& entry : table->entries) {
      const auto at = artifacts
                          .try_emplace(entry.artifact, FetchedArtifact{table->name, target,
                                                                       entry.artifact, entry.size})
                          .first;
      ++at->second.entries;
    }
    for (auto& [digest, artifact] : artifacts) {
      report.artifact_bytes += artifact.bytes;
      report.artifacts.push_back(std::move(artifact));
    }
  }
  return report;
}

}  // namespace cubinary::client
