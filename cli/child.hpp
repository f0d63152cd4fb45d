// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/base/result.hpp"

namespace cubinary::cli {

/// Runs a program found on PATH with `environment` added to this process's own, hands on to it the
/// signals that arrive meanwhile, and gives its exit status, or 128 + N when signal N ended it.
/// To be called while the process has one thread. Errors: `not_found`, `permission`, `io`.
[[nodiscard]] core::Result<int> run_child(const std::vector<std::string>& command,
                                          const std::map<std::string, std::string>& environment);

}  // namespace cubinary::cli
