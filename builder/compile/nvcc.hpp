// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "builder/compile/compile_job.hpp"

namespace cubinary::builder {

/// Runs `nvcc -cubin` for what NVRTC refuses: host code, host headers. In worker processes only.
/// The reply's symbols stay empty: nvcc tells no mangled names (see match_entry).
[[nodiscard]] CompileReply compile_with_nvcc(const CompileJob& job);

}  // namespace cubinary::builder
