// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "builder/inspect/launch_gate.hpp"
#include "core/base/bytes.hpp"
#include "core/base/result.hpp"
#include "core/manifest/manifest.hpp"
#include "store/candidates.hpp"

namespace cubinary::builder {

/// Holds the cubin of a candidate that is said to be good against its target and manifest: what a
/// build does with what it compiled, for what somebody else did. Symbols and extra entries become
/// what the cubin says of them, but for spills, which only a compiler's log tells. `gate` is of the
/// manifest and the candidate's target. Errors are `bad_cubin`, a sentence. Safe on hostile bytes.
[[nodiscard]] core::Result<void> judge_candidate(const core::Manifest& manifest,
                                                 const LaunchGate& gate, core::ByteView cubin,
                                                 store::Candidate& candidate);

}  // namespace cubinary::builder
