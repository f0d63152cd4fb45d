// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "core/base/result.hpp"

namespace cubinary::builder {

struct Ended {
  int status = 0;      ///< as waitpid gives it; exit status 127: the program could not be run
  std::string output;  ///< stdout and stderr together, the first 16 MiB
};

/// Runs a program (its path and arguments) to its end. It is killed when the calling thread ends.
[[nodiscard]] core::Result<Ended> run_program(const std::vector<std::string>& command);

}  // namespace cubinary::builder
