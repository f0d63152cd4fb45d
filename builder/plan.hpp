// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "builder/compile/toolchain.hpp"
#include "builder/expand/expand.hpp"
#include "builder/expand/specialise.hpp"
#include "builder/inspect/launch_gate.hpp"
#include "builder/key/build_key.hpp"
#include "builder/key/inputs.hpp"
#include "core/base/result.hpp"
#include "core/manifest/manifest.hpp"
#include "store/candidates.hpp"
#include "store/store.hpp"

namespace cubinary::builder {

/// Loads the manifests of `folders`: each is a kernel's folder (it has a `kernel.toml`), that file
/// itself, or a folder of such. Sorted by kernel name, filtered by `glob` when not empty. Every
/// broken manifest is reported, a line each; two kernels of one name are `manifest`; nothing found
/// is `not_found`.
[[nodiscard]] core::Result<std::vector<core::Manifest>> load_manifests(
    const std::vector<std::filesystem::path>& folders, const std::string& glob);

struct PlanOptions {
  std::vector<core::Target> targets;  ///< empty: each manifest's own
  std::filesystem::path toolkit;      ///< empty: look for one
  WorkerOptions worker;               ///< to ask a compiler who it is
};

struct PlannedKernel {
  core::Manifest manifest;
  std::vector<core::Target> targets;
  Toolkit toolkit;
  store::Toolchain toolchain;
  std::map<store::CandidateRole, Inputs> inputs;
  std::map<std::string, LaunchGate, std::less<>> gates;  ///< by target
};

struct PlannedCandidate {
  std::size_t kernel = 0;  ///< into Plan::kernels
  std::string target;
  Variant variant;
  Specialisation special;
  core::Digest code;
  core::Digest key;
  std::optional<store::CandidateState> known;  ///< what the store has under the key
  std::string again;  ///< why what the store has under the key does not count; empty: it does
};

/// All candidates the manifests ask for, and which of them the store knows.
struct Plan {
  std::vector<PlannedKernel> kernels;
  std::vector<PlannedCandidate> candidates;  ///< by kernel, target, then expand's order
};

/// Expands, hashes and looks up. Writes nothing but a compiler's identity when it had to be asked.
/// Errors: those of its parts, and `environment` for a target the toolkit is too old for.
[[nodiscard]] core::Result<Plan> make_plan(store::Store& store,
                                           std::vector<core::Manifest> manifests,
                                           const PlanOptions& options);

}  // namespace cubinary::builder
