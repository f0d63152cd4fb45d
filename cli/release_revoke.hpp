// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/command.hpp"

namespace cubinary::cli {

/// `release revoke`.
void add_release_revoke(Cli& cli, CLI::App& release);

}  // namespace cubinary::cli
