// SPDX-License-Identifier: Apache-2.0
#include "builder/recheck.hpp"

#include <set>
#include <unordered_map>
#include <utility>

#include "builder/inspect/judge_candidate.hpp"
#include "store/artifacts.hpp"

namespace cubinary::builder {

using core::Result;
using store::CandidateStatus;

namespace {

/// Whether the kernel's manifest, as it now is, can launch what lies in the store.
Result<bool> can_launch(const store::Reader& reader, const PlannedKernel& kernel,
                        store::Candidate stored) {
  TRY_ASSIGN(const core::Bytes cubin, store::read_artifact(reader, *stored.artifact));
  return judge_candidate(kernel.manifest, kernel.gates.at(stored.target), cubin, stored)
      .has_value();
}

}  // namespace

Result<void> recheck(const store::Reader& reader, Plan& plan) {
  std::set<std::pair<std::size_t, std::string>> changed;
  std::set<std::size_t> kernels;
  for (std::size_t index = 0; index < plan.kernels.size(); ++index) {
    const PlannedKernel& kernel = plan.kernels[index];
    const core::Digest now = core::sha256(kernel.manifest.text);
    for (const core::Target& target : kernel.targets) {
      TRY_ASSIGN(const auto then,
                 store::current_manifest(reader, kernel.manifest.name, target.text()));
      if (then != now) {
        changed.emplace(index, target.text());
        kernels.insert(index);
      }
    }
  }
  if (changed.empty()) {
    return {};
  }
  std::unordered_map<core::Digest, PlannedCandidate*> open;
  for (PlannedCandidate& planned : plan.candidates) {
    if (planned.known && changed.contains({planned.kernel, planned.target})) {
      open.emplace(planned.key, &planned);
    }
  }
  for (const std::size_t index : kernels) {
    store::CandidateFilter filter;
    filter.kernel = plan.kernels[index].manifest.name;
    filter.current_only = false;
    const auto look = [&](const store::Candidate& stored) -> Result<void> {
      const auto found = open.find(stored.build_key);
      if (found == open.end()) {
        return {};
      }
      PlannedCandidate& planned = *found->second;
      if (stored.status != CandidateStatus::ok) {
        planned.again = "failed before, and the manifest has changed";
      } else {
        TRY_ASSIGN(const bool fits, can_launch(reader, plan.kernels[planned.kernel], stored));
        planned.again = fits ? "" : "the manifest has changed, and cannot launch what it was";
      }
      if (!planned.again.empty()) {
        planned.known.reset();
      }
      return {};
    };
    TRY(store::for_each_candidate(reader, filter, false, look));
  }
  return {};
}

}  // namespace cubinary::builder
